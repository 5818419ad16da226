"""The picture of what is known of the optimum: marginals and pairs of the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modeseek.checks import missing_extra
from modeseek.parameters import Categorical, Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from modeseek.optimum import Optimum

BINS = 20
LONGEST_LABEL = 14  # characters
LONGEST_ROW = 28  # characters of all choices together, beside each other
MOST_LABELS = 20  # of more choices every second one is named, or every third, ...


def plot(optimum: Optimum, names: list[str]) -> Figure:
    """Marginals on the diagonal, pairs below, the recommended point in both."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("plot needs matplotlib", "plots") from error
    d = len(names)
    room = max(room_below(optimum.space[name]) for name in names)
    figure = Figure(figsize=(1 + 2 * d, 1 + (1.8 + room) * d), layout="constrained")
    axes = figure.subplots(d, d, squeeze=False)
    columns = [_Column(optimum, name) for name in names]
    for i, row in enumerate(columns):
        for j, column in enumerate(columns):
            ax = axes[i, j]
            if j > i:
                ax.set_axis_off()
                continue
            scale(ax, "x", column.parameter)
            if i == j:
                ax.hist(column.samples[np.isfinite(column.samples)], bins=column.bins(), color="tab:blue", alpha=0.7)
                ax.axvline(column.recommended, color="tab:red")
                ax.set_yticks([])
            else:
                scale(ax, "y", row.parameter)
                ax.scatter(column.samples, row.samples, s=6, alpha=0.4, color="tab:blue")
                ax.plot(column.recommended, row.recommended, "*", color="tab:red", markersize=10)
            if i == d - 1:
                ax.set_xlabel(column.name)
            if j == 0 and i > 0:
                ax.set_ylabel(row.name)
    figure.suptitle(f"where the optimum is ({len(optimum.samples)} samples; red: best point so far)", fontsize="medium")
    return figure


class _Column:
    """The samples of one parameter as numbers, and its axis."""

    def __init__(self, optimum: Optimum, name: str) -> None:
        self.name, self.parameter = name, optimum.space[name]
        self.samples = np.array([number_of(self.parameter, v) for v in optimum.column(name, optimum.samples)])
        self.recommended = number_of(self.parameter, optimum.column(name, [optimum.recommended])[0])

    def bins(self) -> Any:
        if isinstance(self.parameter, Categorical):
            return np.arange(self.parameter.size + 1) - 0.5
        low, high = float(self.parameter.low), float(self.parameter.high)
        if low == high:
            half = abs(low) / 10 or 0.5
            return np.array([low - half, low + half])
        if self.parameter.log:
            return np.geomspace(low, high, BINS + 1)
        return np.linspace(low, high, BINS + 1)


def number_of(parameter: Parameter, value: Any) -> float:
    """A value as a number, a choice by its index; NaN for None, where the parameter does not exist."""
    if value is None and not (isinstance(parameter, Categorical) and None in parameter.choices):
        return np.nan
    if isinstance(parameter, Categorical):
        return float(parameter.encode(value) * parameter.size - 0.5)
    return float(value)


def scale(ax: Axes, axis: str, parameter: Parameter) -> None:
    """The parameter's range, logarithmic where the parameter is, with its choices as ticks."""
    if isinstance(parameter, Categorical):
        labels = [label(choice) for choice in parameter.choices]
        every = -(-len(labels) // MOST_LABELS)
        getattr(ax, f"set_{axis}ticks")(range(0, len(labels), every), labels[::every])
        if axis == "x" and room_below(parameter):
            ax.tick_params(axis="x", labelrotation=90)
        if len(labels) > MOST_LABELS / 2:
            (ax.xaxis if axis == "x" else ax.yaxis).set_tick_params(labelsize="x-small")
        getattr(ax, f"set_{axis}lim")(-0.5, len(labels) - 0.5)
        return
    if parameter.log:
        getattr(ax, f"set_{axis}scale")("log")
    if parameter.low < parameter.high:
        getattr(ax, f"set_{axis}lim")(parameter.low, parameter.high)


def room_below(parameter: Parameter) -> float:
    """Inches that its choices need below an axis where they do not fit beside each other, and are turned; else 0."""
    lengths = [len(label(choice)) for choice in parameter.choices] if isinstance(parameter, Categorical) else []
    return 0.09 * max(lengths) if sum(lengths) + 2 * len(lengths) > LONGEST_ROW else 0.0


def label(value: object) -> str:
    """Text that fits beside an axis; a dollar sign would begin a formula."""
    text = str(value)
    text = text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"
    return text.replace("$", r"\$")
