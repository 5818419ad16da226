"""`modeseek demo`: Branin's function under noise, and a picture of what is known of its three minima on the way."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from modeseek.checks import missing_extra
from modeseek.commands.arguments import Commands, check_folder, positive
from modeseek.errors import ConfigError, ModeseekError
from modeseek.run import minimize
from modeseek.space import Space
from modeseek.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from modeseek.optimum import Optimum
    from modeseek.result import Result

NOISE, N_INITIAL, EARLY = 0.1, 8, 12  # EARLY: evaluations after which what is known is shown as its beginning
LOW, HIGH = np.array([-5.0, 0.0]), np.array([10.0, 15.0])
OPTIMUM = 0.39788735772973816  # of the function without noise, at three points
MOST_LABELS = 4  # regions whose probability is written beside them
WIDTH, HEIGHT, SIDE = 13.0, 4.85, 3.4  # of the picture and of each panel, in inches
KNOWN, BEST = "#d95f02", "#b2182b"


def add_command(commands: Commands) -> None:
    """Add `demo` to the commands of `modeseek`."""
    command = commands.add_parser("demo", help="optimize a function of two variables and draw what is known of it")
    command.add_argument("--budget", type=int, default=40, help="evaluations, 8 of them Sobol points (default: 40)")
    command.add_argument("--seed", type=int, default=0, help="(default: 0)")
    command.add_argument(
        "--threads", type=positive, default=1, metavar="N", help="CPU threads per suggestion (default: 1)"
    )
    command.add_argument("--out", type=Path, default=Path("demo.png"), help="the picture's file (default: demo.png)")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    check_folder(options.out.parent)
    demo(budget=options.budget, seed=options.seed, out=options.out, threads=options.threads)


def f(x: Array) -> Array:
    """Branin's function without noise at x (... x 2)."""
    a, b = x[..., 0], x[..., 1]
    parabola = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
    return np.asarray(parabola**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10)


def demo(budget: int, seed: int, out: Path, threads: int = 1) -> Result:
    """Optimize, print the best point, its regret and what is known of the minimum, and write the picture."""
    if budget < EARLY:
        raise ConfigError(f"the demo needs a budget of at least {EARLY}, not {budget}")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("the demo draws with matplotlib", "plots") from error
    rng = np.random.default_rng(seed)
    space = Space.box(LOW, HIGH)

    def measured(x: Array) -> float:
        return float(f(x)) + NOISE * rng.standard_normal()

    result = minimize(measured, space, budget, seed=seed, n_initial=N_INITIAL, threads=threads)
    if result.best is None or len(result.trials) < EARLY:
        raise ModeseekError("interrupted before there was something to draw")
    known = [_known_after(result, count) for count in (EARLY, len(result.trials))]
    print(result)
    print(f"regret of the best point, without noise: {float(f(result.best.params)) - OPTIMUM:.4g}")
    print(known[-1])
    figure = Figure(figsize=(WIDTH, HEIGHT))
    first, *others = (
        figure.add_axes((left / WIDTH, 0.55 / HEIGHT, SIDE / WIDTH, SIDE / HEIGHT)) for left in (0.6, 4.65, 8.95)
    )
    _draw_trials(first, result)
    for axes, optimum, count in zip(others, known, (EARLY, len(result.trials)), strict=True):
        _draw_known(axes, optimum, result, count)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=130)
    print(f"picture: {out.resolve()}")
    return result


def _known_after(result: Result, count: int) -> Optimum:
    """What is known of the optimum from the first trials."""
    from modeseek.optimizer import Optimizer  # here: `modeseek --help` has no need of torch

    opt = Optimizer(result.space, direction="minimize", seed=result.seed, config=result.config)
    for trial in result.trials[:count]:
        if trial.value is not None:
            opt.tell_params(trial.params, trial.value)
    return opt.optimum()


def _draw_function(axes: Axes, alpha: float) -> None:
    x, y = np.meshgrid(*(np.linspace(low, high, 200) for low, high in zip(LOW, HIGH, strict=True)))
    height = np.log1p(f(np.stack([x, y], -1)))
    axes.contourf(x, y, height, levels=14, cmap="Blues_r", alpha=alpha)
    axes.set(xlabel="$x_0$", ylabel="$x_1$", xlim=(LOW[0], HIGH[0]), ylim=(LOW[1], HIGH[1]), aspect="equal")


def _draw_trials(axes: Axes, result: Result) -> None:
    """The function, where it was evaluated, and the best point."""
    _draw_function(axes, 0.85)
    points = np.array([trial.params for trial in result.trials])
    initial = np.array([trial.origin == "initial" for trial in result.trials])
    axes.scatter(
        points[initial, 0],
        points[initial, 1],
        s=26,
        color="white",
        edgecolor="black",
        linewidth=0.8,
        label="initial design",
    )
    axes.scatter(
        points[~initial, 0], points[~initial, 1], s=26, color="black", marker="x", linewidth=1.2, label="proposed"
    )
    best = result.recommended or result.best
    if best is not None:
        _draw_star(axes, best.params)
    axes.set_title("The function, and where it was evaluated", pad=46, fontsize="medium")
    axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=3,
        fontsize="small",
        frameon=False,
        handletextpad=0.1,
        columnspacing=1,
    )


def _draw_star(axes: Axes, x: Array) -> None:
    axes.scatter(x[0], x[1], s=190, color=BEST, marker="*", edgecolor="white", zorder=4, label="recommended")


def _draw_known(axes: Axes, optimum: Optimum, result: Result, count: int) -> None:
    """Samples of the optimum, its regions with their probabilities, and marginals with the 90 % intervals."""
    _draw_function(axes, 0.3)
    seen = np.array([trial.params for trial in result.trials[:count]])
    axes.scatter(seen[:, 0], seen[:, 1], s=14, color="0.35", marker="x", linewidth=0.8)
    samples = np.array(optimum.samples)
    axes.scatter(samples[:, 0], samples[:, 1], s=16, color=KNOWN, alpha=0.45, linewidth=0, clip_on=False, zorder=3)
    for mode in optimum.modes[:MOST_LABELS]:
        if mode.mass < 0.03:
            continue
        way = -1 if mode.params[0] > 6 else 1
        axes.annotate(
            f"{mode.mass:.0%}",
            mode.params,
            xytext=(20 * way, 24 if mode.params[1] < 12 else -18),
            textcoords="offset points",
            ha="right" if way < 0 else "left",
            va="center",
            fontweight="bold",
            bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": KNOWN, "alpha": 0.9},
            arrowprops={"arrowstyle": "-", "color": KNOWN},
            zorder=5,
        )
    _draw_star(axes, optimum.recommended)
    intervals = optimum.interval(0.9)
    for i, name in enumerate(optimum.space.names):
        side = axes.inset_axes((0, 1.02, 1, 0.13) if i == 0 else (1.02, 0, 0.13, 1))
        bins = list(np.linspace(LOW[i], HIGH[i], 46))
        side.hist(samples[:, i], bins=bins, color=KNOWN, orientation="vertical" if i == 0 else "horizontal")
        low, high = intervals[name]
        (side.axvspan if i == 0 else side.axhspan)(low, high, color=KNOWN, alpha=0.15, linewidth=0)
        (side.set_xlim if i == 0 else side.set_ylim)(LOW[i], HIGH[i])
        side.set(xticks=[], yticks=[])
        side.spines[:].set_visible(False)
    axes.set_title(f"What {count} evaluations say of the minimum", pad=46, fontsize="medium")
