"""Pictures of several objectives: the front, and the hypervolume over evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from modeseek.trials import Trial, front_volume

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from modeseek.result import Result


def plot_front(result: Result, done: list[Trial], ax: Axes) -> Axes:
    """All trials by two objectives, the front as a staircase: what lies behind it is dominated."""
    values = np.array([trial.values for trial in done], dtype=np.float64).reshape(-1, 2)
    feasible = np.array([trial.feasible for trial in done], dtype=bool)
    x, y = values.T
    ax.scatter(x[feasible], y[feasible], s=14, alpha=0.4, color="tab:blue", label="observed")
    if not feasible.all():
        ax.scatter(x[~feasible], y[~feasible], s=14, alpha=0.4, color="tab:gray", marker="x", label="infeasible")
    front = np.array(sorted(trial.values for trial in result.front if trial.values is not None)).reshape(-1, 2)
    # Between two points of the front the worse of both is reached: the corner that each of them dominates.
    x, y = front.T
    ax.step(x, y, where="post" if result.direction[0] == "minimize" else "pre", color="tab:red", linewidth=1)
    ax.scatter(x, y, s=24, color="tab:red", label="front", zorder=3)
    for i, name in enumerate("xy"):
        ax.set(**{f"{name}label": f"objective {i} ({result.direction[i]})"})
    ax.legend()
    return ax


def plot_volume(result: Result, done: list[Trial], ax: Axes) -> Axes:
    """The hypervolume after each evaluation, for one reference point: the run's, or a little worse than all trials."""
    values = np.array([trial.values for trial in done], dtype=np.float64).reshape(-1, len(result.direction))
    reference = result.reference
    if reference is None and len(values):
        low, high = values.min(0), values.max(0)
        minimized = np.array([goal == "minimize" for goal in result.direction])
        reference = np.where(minimized, high + 0.1 * (high - low), low - 0.1 * (high - low))
    volumes = [
        front_volume([trial for trial in done[: i + 1] if trial.feasible], result.direction, reference)
        for i in range(len(done))
    ]
    ax.step([trial.number + 1 for trial in done], volumes, where="post")
    ax.set(xlabel="evaluations", ylabel="hypervolume")
    ax.locator_params(axis="x", integer=True, min_n_ticks=1)
    return ax
