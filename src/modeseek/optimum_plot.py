"""The picture of what is known of the optimum: marginals and pairs of the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from modeseek.checks import missing_extra
from modeseek.parameters import Categorical

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from modeseek.optimum import Optimum

BINS = 20


def plot(optimum: Optimum, names: list[str]) -> Figure:
    """Marginals on the diagonal, pairs below, the recommended point in both."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("plot needs matplotlib", "plots") from error
    d = len(names)
    figure = Figure(figsize=(1 + 2 * d, 1 + 1.8 * d), layout="constrained")
    axes = figure.subplots(d, d, squeeze=False)
    columns = [_Column(optimum, name) for name in names]
    for i, row in enumerate(columns):
        for j, column in enumerate(columns):
            ax = axes[i, j]
            if j > i:
                ax.set_axis_off()
                continue
            column.scale(ax, "x")
            if i == j:
                ax.hist(column.samples[np.isfinite(column.samples)], bins=column.bins(), color="tab:blue", alpha=0.7)
                ax.axvline(column.recommended, color="tab:red")
                ax.set_yticks([])
            else:
                row.scale(ax, "y")
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
        self.samples = np.array([self._number(value) for value in optimum.column(name, optimum.samples)])
        self.recommended = self._number(optimum.column(name, [optimum.recommended])[0])

    def _number(self, value: Any) -> float:
        if value is None and not (isinstance(self.parameter, Categorical) and None in self.parameter.choices):
            return np.nan  # it does not exist there
        if isinstance(self.parameter, Categorical):
            return float(self.parameter.encode(value) * self.parameter.size - 0.5)
        return float(value)

    def bins(self) -> Any:
        if isinstance(self.parameter, Categorical):
            return np.arange(self.parameter.size + 1) - 0.5
        low, high = float(self.parameter.low), float(self.parameter.high)
        if self.parameter.log:
            return np.geomspace(low, high, BINS + 1)
        return np.linspace(low, high, BINS + 1)

    def scale(self, ax: Axes, axis: str) -> None:
        """The parameter's range, logarithmic where the parameter is, with its choices as ticks."""
        if isinstance(self.parameter, Categorical):
            labels = [str(choice) for choice in self.parameter.choices]
            getattr(ax, f"set_{axis}ticks")(range(len(labels)), labels)
            getattr(ax, f"set_{axis}lim")(-0.5, len(labels) - 0.5)
            return
        if self.parameter.log:
            getattr(ax, f"set_{axis}scale")("log")
        getattr(ax, f"set_{axis}lim")(self.parameter.low, self.parameter.high)
