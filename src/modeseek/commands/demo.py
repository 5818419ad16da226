"""`modeseek demo`: Styblinski-Tang in two dimensions under noise, and a picture of what the method sees."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from modeseek.checks import missing_extra
from modeseek.commands.arguments import Commands, check_folder, positive
from modeseek.errors import ConfigError, ModeseekError
from modeseek.run import minimize
from modeseek.space import Space
from modeseek.trials import Trial
from modeseek.typing import Array

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes

    from modeseek.dms import Suggestion
    from modeseek.optimizer import Optimizer
    from modeseek.result import Result

NOISE, N_INITIAL, EARLY = 0.1, 10, 3  # EARLY: the model's suggestion shown as its beginning
LOW, HIGH = -5.0, 5.0
OPTIMUM = -78.33233140754282  # of the function without noise, at -2.9035 in both coordinates


class Moment(NamedTuple):
    """What was known before an evaluation, in the function's own units."""

    number: int
    observed: Array  # n x 2
    candidates: Array  # S x 2
    mode: Array  # 2
    x_next: Array  # 2


def add_command(commands: Commands) -> None:
    """Add `demo` to the commands of `modeseek`."""
    command = commands.add_parser("demo", help="optimize a function of two variables and draw it")
    command.add_argument("--budget", type=int, default=50, help="evaluations, 10 of them Sobol points (default: 50)")
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
    """Styblinski-Tang without noise at x (... x 2)."""
    return np.asarray((x**4 - 16 * x**2 + 5 * x).sum(-1) / 2)


def demo(budget: int, seed: int, out: Path, threads: int = 1) -> Result:
    """Optimize, print the best point and its regret, and write the picture."""
    if budget < N_INITIAL + EARLY:
        raise ConfigError(f"the demo needs a budget of at least {N_INITIAL + EARLY}, not {budget}")
    try:
        import matplotlib.pyplot  # noqa: F401
    except ImportError as error:
        raise missing_extra("the demo draws with matplotlib", "plots") from error
    rng = np.random.default_rng(seed)
    moments: list[Moment] = []

    def remember(opt: Optimizer, trial: Trial) -> None:
        if trial.origin == "model" and opt.suggestion is not None:
            moments.append(_moment(opt.suggestion, trial))

    space = Space.box([LOW, LOW], [HIGH, HIGH])
    result = minimize(
        lambda x: float(f(x)) + NOISE * rng.standard_normal(),
        space,
        budget,
        seed=seed,
        threads=threads,
        callbacks=[remember],
    )
    if result.best is None or len(moments) < EARLY:
        raise ModeseekError("interrupted before there was something to draw")
    print(result)
    print(f"regret of the best point, without noise: {float(f(result.best.params)) - OPTIMUM:.4g}")
    out.parent.mkdir(parents=True, exist_ok=True)
    _draw(result, moments[EARLY - 1], moments[-1], out)
    print(f"picture: {out.resolve()}")
    return result


def _moment(suggestion: Suggestion, trial: Trial) -> Moment:
    def units(x: torch.Tensor) -> Array:
        return LOW + (HIGH - LOW) * x.cpu().numpy()

    observed, candidates, mode = (units(x[0]) for x in (suggestion.gp.X, suggestion.candidates, suggestion.mode))
    return Moment(trial.number, observed, candidates, mode, trial.params)


def _draw(result: Result, early: Moment, late: Moment, out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    regret_axes, early_axes, late_axes = figure.subplots(1, 3)
    regret = np.minimum.accumulate([float(f(trial.params)) for trial in result.trials]) - OPTIMUM
    regret_axes.step(np.arange(1, len(regret) + 1), regret.clip(1e-4), where="post", color="C3")
    regret_axes.axvline(N_INITIAL + 0.5, color="0.6", linestyle=":", label="initial design ends")
    regret_axes.set(xlabel="evaluations", ylabel="simple regret", yscale="log", title="Regret")
    regret_axes.legend(frameon=False)
    _draw_moment(early_axes, early)
    _draw_moment(late_axes, late)
    late_axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.suptitle(f"DMS on Styblinski–Tang, d = 2, noise {NOISE}")
    figure.savefig(out, dpi=130)


def _draw_moment(axes: Axes, moment: Moment) -> None:
    grid = np.linspace(LOW, HIGH, 200)
    x, y = np.meshgrid(grid, grid)
    axes.contourf(x, y, f(np.stack([x, y], -1)), levels=20, cmap="Blues_r", alpha=0.8)
    styles: list[tuple[Array, dict[str, Any]]] = [
        (moment.candidates, {"s": 8, "color": "C1", "alpha": 0.6, "label": "x* candidates"}),
        (moment.observed, {"s": 18, "color": "black", "marker": "x", "linewidth": 1, "label": "observed"}),
        (moment.mode, {"s": 60, "color": "C1", "marker": "D", "edgecolor": "black", "label": "their dominant mode"}),
        (moment.x_next, {"s": 200, "color": "C3", "marker": "*", "edgecolor": "white", "label": "polished: next"}),
    ]
    for points, style in styles:
        axes.scatter(points[..., 0], points[..., 1], **style)
    axes.set(xlabel="$x_1$", ylabel="$x_2$", title=f"Before evaluation {moment.number + 1}", aspect="equal")
