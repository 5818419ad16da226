"""Pictures of a result: the value over each parameter, parallel coordinates, how much each parameter matters."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from modeseek.checks import missing_extra, whole_number
from modeseek.digits import rounded
from modeseek.errors import ConfigError
from modeseek.optimum_plot import label, number_of, room_below, scale
from modeseek.parameters import Categorical, Float, Int, Parameter
from modeseek.trials import Goal, Trial, TrialState
from modeseek.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from modeseek.result import Result

DECADES = 1e2  # values that span more are shown on a logarithmic axis
MOST_SLICES, MOST_BARS = 8, 20
COLUMNS = 4
ABSENT_AT = -0.12  # on the axes of parallel coordinates, which go from 0 to 1
WIDE_NUMBER = 4  # characters; of wider ones there are fewer below a panel
GOLDEN = 0.618034


def wants_log(values: Array, goal: str) -> bool:
    """Whether a logarithmic axis shows more: small values are good, all are above 0, and they differ in size."""
    return bool(goal == "minimize" and len(values) and values.min() > 0 and values.max() >= DECADES * values.min())


def chosen_objective(direction: Goal, objective: int | None) -> int:
    """Which objective; ConfigError where there are several and none is chosen, or there is no such one."""
    count = 1 if isinstance(direction, str) else len(direction)
    if objective is None and count > 1:
        raise ConfigError(f"there are {count} objectives: choose one, as in objective=0")
    return whole_number("objective", 0 if objective is None else objective, 0, count - 1)


class _Shown:
    """The trials of a result by one of its objectives."""

    def __init__(self, result: Result, objective: int | None) -> None:
        goals = (result.direction,) if isinstance(result.direction, str) else result.direction
        self.objective = chosen_objective(result.direction, objective)
        self.result, self.goal = result, goals[self.objective]
        inside = [trial for trial in result.trials if trial.in_space]
        self.done = [trial for trial in inside if trial.values is not None]
        self.failed = [trial for trial in inside if trial.state is TrialState.FAILED]
        self.values = np.array([trial.values[self.objective] for trial in self.done if trial.values], dtype=np.float64)
        self.feasible = np.array([trial.feasible for trial in self.done], dtype=bool)
        self.is_log = wants_log(self.values, self.goal)
        self.label = "value" if len(goals) == 1 else f"objective {self.objective}"

    @property
    def losses(self) -> Array:
        """The values, smaller is better; what is infeasible is worse than all else."""
        signed = self.values if self.goal == "minimize" else -self.values
        return np.where(self.feasible, signed, np.inf)

    @property
    def best(self) -> int | None:
        """Which of the complete trials is best."""
        return int(self.losses.argmin()) if self.feasible.any() else None

    def numbers(self, name: str, trials: Sequence[Trial]) -> Array:
        """One parameter as numbers, choices by their index; NaN where it does not exist."""
        space = self.result.space
        i = space.names.index(name)
        values = [trial.params[i] if space.is_box else trial.params.get(name) for trial in trials]
        return np.array([number_of(space[name], value) for value in values], dtype=np.float64)

    def names(self, names: Sequence[str] | str | None, most: int) -> list[str]:
        """Parameters to show: those that were asked for, or all, or of many those that matter most."""
        known = self.result.space.names
        if names is not None:
            names = [names] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
            if not names:
                raise ConfigError(f"names is empty; choose some of {known}, or None for all")
            for name in names:
                if name not in known:
                    raise ConfigError(f"there is no parameter {name!r}; the space has {known}")
            return names
        if len(known) <= most or not self.done:
            return known[:most]
        matter = list(self.result.importance(self.objective))[:most]
        return [name for name in known if name in matter]


def plot_slice(result: Result, names: Sequence[str] | str | None, objective: int | None) -> Figure:
    """One panel per parameter: each trial's value over it."""
    plt, shown = _pyplot("plot_slice"), _Shown(result, objective)
    names = shown.names(names, MOST_SLICES)
    rows = -(-len(names) // COLUMNS)
    columns = -(-len(names) // rows)  # rows of nearly one length
    room = max(map(room_below, (result.space[name] for name in names)))
    size = (1.2 + 2.6 * columns, 0.6 + (2.4 + room) * rows)
    figure: Figure = plt.figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    points = None
    for i, ax in enumerate(axes.flat):
        if i >= len(names):
            ax.set_axis_off()
            continue
        points = _slice(ax, shown, names[i])
        if i % columns == 0:
            ax.set_ylabel(shown.label)
    if shown.is_log:
        axes[0, 0].set_yscale("log")
    if points is not None and shown.feasible.any():
        figure.colorbar(points, ax=axes, label="trial", aspect=30, ticks=plt.MaxNLocator(integer=True, min_n_ticks=1))
    said = ["star: best"] if shown.best is not None else []
    said += ["crosses: infeasible"] if not shown.feasible.all() else []
    said += ["ticks below: failed"] if shown.failed else []
    figure.suptitle("; ".join(said), fontsize="medium")
    return _shown_once(figure)


def _shown_once(figure: Figure) -> Figure:
    """The figure, which notebooks would show where a cell ends with it and again below the cell."""
    figure._ipython_display_ = partial(_display, figure)  # type: ignore[attr-defined]
    return figure


def _display(figure: Figure) -> None:
    """What IPython calls to show the figure: pyplot, which shows what is open at the end of a cell, is done with it."""
    try:
        import matplotlib.pyplot as plt
        from IPython.display import display
    except ImportError as error:
        raise NotImplementedError from error
    if "inline" not in plt.get_backend():
        raise NotImplementedError  # to IPython, which then shows it as any other figure
    plt.close(figure)
    del figure._ipython_display_  # type: ignore[attr-defined]
    try:
        display(figure)  # type: ignore[no-untyped-call, unused-ignore]
    finally:
        _shown_once(figure)


def _slice(ax: Axes, shown: _Shown, name: str) -> Any:
    """The values over one parameter; choices are spread a little, so that equal ones do not hide each other."""
    parameter = shown.result.space[name]
    x = shown.numbers(name, shown.done)
    number = np.array([trial.number for trial in shown.done])
    if isinstance(parameter, Categorical):
        x = x + 0.4 * ((GOLDEN * number) % 1 - 0.5)
    good = shown.feasible
    points = ax.scatter(x[good], shown.values[good], c=number[good], s=18, alpha=0.8, cmap="viridis_r")
    points.set_clim(0, max(len(shown.result.trials) - 1, 1))
    ax.scatter(x[~good], shown.values[~good], s=18, alpha=0.6, color="tab:gray", marker="x")
    if shown.best is not None:
        at = shown.best
        ax.plot(x[at], shown.values[at], "*", color="tab:red", markersize=12, markeredgecolor="white")
    lost = shown.numbers(name, shown.failed)
    lost = lost[np.isfinite(lost)]
    if len(lost):
        ax.plot(lost, np.full(len(lost), 0.03), "|", color="tab:red", transform=ax.get_xaxis_transform(), markersize=9)
    scale(ax, "x", parameter)
    if not isinstance(parameter, Categorical) and not parameter.log:
        is_wide = (
            max(len(rounded(end, parameter.high - parameter.low)) for end in (parameter.low, parameter.high))
            > WIDE_NUMBER
        )
        ax.locator_params(axis="x", integer=isinstance(parameter, Int), nbins=2 if is_wide else 5, min_n_ticks=1)
    if not isinstance(parameter, Categorical) and parameter.low < parameter.high:
        _widen(ax, parameter)
    ax.set_xlabel(label(name))
    return points


def _widen(ax: Axes, parameter: Float | Int) -> None:
    """Room for points at the bounds; ticks that do not run into each other."""
    low, high = float(parameter.low), float(parameter.high)
    if not parameter.log:
        room = high / 2 - low / 2  # of which the double may overflow
        ax.set_xlim(low - 0.08 * room, high + 0.08 * room)
        return
    factor = math.exp(0.04 * (math.log(high) - math.log(low)))
    ax.set_xlim(max(low / factor, sys.float_info.min), min(high * factor, sys.float_info.max))
    ticks = _inside(low, high, log=True)
    ax.set_xticks(ticks, [rounded(tick, high - low) for tick in ticks])
    ax.set_xticks([], minor=True)


def plot_importance(result: Result, objective: int | None, ax: Axes | None) -> Axes:
    """A bar per parameter."""
    plt, shown = _pyplot("plot_importance"), _Shown(result, objective)
    effects = list(result.importance(shown.objective).items())[:MOST_BARS][::-1]
    if ax is None:
        ax = plt.subplots(figsize=(6, 1.2 + 0.35 * len(effects)), layout="constrained")[1]
    bars = ax.barh(range(len(effects)), [effect for _, effect in effects], color="tab:blue")
    ax.set_yticks(range(len(effects)), [label(name) for name, _ in effects])
    ax.bar_label(bars, [f"{effect:.2f}" for _, effect in effects], padding=3, fontsize="small")
    ax.margins(x=0.12)
    ax.set_xlim(left=0)
    ax.set_xlabel(f"share of the variance of the {shown.label} (total effect)")
    return ax


def plot_parallel(result: Result, names: Sequence[str] | str | None, objective: int | None, ax: Axes | None) -> Axes:
    """A line per trial across one axis per parameter and one of the value."""
    plt, shown = _pyplot("plot_parallel"), _Shown(result, objective)
    names = shown.names(names, MOST_SLICES)
    if ax is None:
        ax = plt.subplots(figsize=(2.2 + 1.5 * len(names), 4.2), layout="constrained")[1]
    lines = _places(result, names, shown.done)
    lost = _places(result, names, shown.failed)
    heights, ticks = _value_axis(shown)
    ax.plot(range(len(names)), lost.T, color="tab:gray", linewidth=0.8, linestyle=":")
    rank = shown.losses.argsort().argsort() / max(len(shown.done) - 1, 1)
    for i in (-shown.losses).argsort(kind="stable"):  # the best on top
        color = plt.get_cmap("viridis")(rank[i]) if shown.feasible[i] else "0.8"
        is_best = i == shown.best
        ax.plot(
            range(len(names) + 1),
            [*lines[i], heights[i]],
            color="tab:red" if is_best else color,
            linewidth=2.2 if is_best else 1.0,
            alpha=1.0 if is_best else 0.7,
        )
    _axes_of(ax, [*(_ticks(result.space[name]) for name in names), ticks])
    everything = np.concatenate([lines, lost])
    if (everything < 0).any():
        ax.axhline(ABSENT_AT, color="0.85", linewidth=0.8, zorder=0)
        ax.text(-0.03, ABSENT_AT, "absent", ha="right", va="center", fontsize="small", color="0.4")
    ax.set_xticks(range(len(names) + 1), [label(name) for name in [*names, shown.label]])
    ax.set_ylim(ABSENT_AT - 0.05 if (everything < 0).any() else -0.05, 1.05)
    said = ["red: best"] if shown.best is not None else []
    said += ["dark: good, light: bad"] if shown.feasible.sum() > 1 else []
    said += ["grey: infeasible"] if not shown.feasible.all() else []
    said += ["dotted: failed"] if shown.failed else []
    ax.set_title("; ".join(said), fontsize="medium")
    return ax


def _places(result: Result, names: Sequence[str], trials: Sequence[Trial]) -> Array:
    """The coordinates of parameters in the cube, which are what they are drawn by: trials x names."""
    space = result.space
    units = np.array([trial.unit for trial in trials], dtype=np.float64).reshape(-1, space.d)
    units = np.where(space.conditions.existing(units), units, ABSENT_AT) if space.conditions else units
    return np.asarray(units[:, [space.coordinates.index(name) for name in names]])


def _value_axis(shown: _Shown) -> tuple[Array, list[tuple[float, str]]]:
    """Where between 0 and 1 the values are drawn, and ticks there."""
    if not len(shown.values):
        return shown.values, []
    low, high = float(shown.values.min()), float(shown.values.max())
    if low / 2 == high / 2:  # equal, or as near as numbers get to 0
        return np.full_like(shown.values, 0.5), [(0.5, rounded(low))]

    def height(values: Any) -> Array:
        at, bottom, top = (np.log(v) if shown.is_log else np.asarray(v) / 2 for v in (values, low, high))
        return np.asarray((at - bottom) / (top - bottom))

    inside = _inside(low, high, shown.is_log)
    return height(shown.values), [(float(height(value)), rounded(value, high - low)) for value in inside]


def _ticks(parameter: Parameter) -> list[tuple[float, str]]:
    """Places between 0 and 1 of some values of a parameter, and what to write there."""
    if isinstance(parameter, Categorical):
        return [(parameter.encode(choice), label(choice)) for choice in parameter.choices]
    low, high = float(parameter.low), float(parameter.high)
    ticks = []
    for tick in _inside(low, high, parameter.log) if low < high else [low]:
        value: Any = tick
        if isinstance(parameter, Int):
            value = parameter.low + round((tick - parameter.low) / parameter.step) * parameter.step
            value = min(value, parameter.low + (parameter.size - 1) * parameter.step)
        elif parameter.step is not None:
            value = parameter.decode((tick - low) / (high - low))
        ticks.append((parameter.encode(value), rounded(value, high - low)))
    return list(dict.fromkeys(ticks))


def _inside(low: float, high: float, log: bool) -> list[float]:
    """Up to six or so round numbers between two others, or these two where there are too few."""
    if not log:
        if high / 5 - low / 5 < sys.float_info.min:  # next to each other
            return [low, high]
        step = _round_step(high / 5 - low / 5)
        ticks = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
        return ticks if len(ticks) > 1 else [low, high]
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    ticks = [10.0**k for k in range(first, last + 1, max(math.ceil((last - first) / 3), 1))]
    if len(ticks) < 3:
        ticks = [digit * 10.0**k for k in range(first - 1, last + 1) for digit in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    return ticks if len(ticks) > 1 else [low, high]


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, ... times a power of ten that is no smaller."""
    size = 10.0 ** math.floor(math.log10(least))
    return next(digit * size for digit in (1, 2, 5, 10) if digit * size >= least * (1 - 1e-9))


def _axes_of(ax: Axes, all_ticks: Sequence[list[tuple[float, str]]]) -> None:
    for i, ticks in enumerate(all_ticks):
        ax.plot([i, i], [0, 1], color="0.3", linewidth=0.8, zorder=3)
        for place, text in ticks:
            ax.plot([i, i + 0.03], [place, place], color="0.3", linewidth=0.8, zorder=3)
            box = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8}
            ax.text(i + 0.05, place, text, fontsize="small", va="center", zorder=4, bbox=box)
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_xlim(-0.1, len(all_ticks) - 0.5)
    ax.tick_params(axis="x", length=0)


def _pyplot(what: str) -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise missing_extra(f"{what} needs matplotlib", "plots") from error
    return plt
