"""Pictures of a result, and how much each parameter matters."""

from __future__ import annotations

import dataclasses
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modeseek import (
    Categorical,
    ConfigError,
    DMSConfig,
    Float,
    Int,
    ModeseekError,
    Optimizer,
    Result,
    Space,
    TrialError,
)
from modeseek.optimum_plot import MOST_LABELS
from modeseek.pictures import _inside, _ticks
from shared import BOX, sphere

plt = pytest.importorskip("matplotlib.pyplot")

MIXED = Space(
    {
        "model": Categorical(["svm", "forest"]),
        "C": Float(1e-3, 1e3, log=True, when={"model": "svm"}),
        "units": Int(16, 512, log=True),
        "rate": Float(0, 1, step=0.1),
        "cost$": Float(0, 1),
    }
)


@pytest.fixture(autouse=True)
def no_window() -> Iterator[None]:
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def result_of(
    f: Callable[[Any], Any], space: Space, n: int = 24, direction: Any = "minimize", failed: int = 0
) -> Result:
    """n trials of the initial design and some that failed."""
    opt = Optimizer(space, direction=direction, seed=0, n_initial=n + failed)
    for i in range(n + failed):
        trial = opt.ask()
        if i < n:
            opt.tell(trial, f(trial.params))
        else:
            opt.tell(trial, failed=True)
    best = opt.best if isinstance(direction, str) else None
    return Result(best, best, opt.trials, opt.space, opt.direction, 0, DMSConfig(), "budget", 1.0)


def of_mixed(p: dict[str, Any]) -> float:
    return float(np.log10(p["units"]) + (p["model"] == "svm") * np.log10(p.get("C", 1)) ** 2)


@pytest.fixture(scope="module")
def mixed() -> Result:
    return result_of(of_mixed, MIXED, failed=2)


def test_total_effects_are_those_of_a_function_that_is_known() -> None:
    """Var(3 x0 + x1) has shares 9 : 1; of a product of two centred factors both have all of it."""
    box = Space.box([0.0] * 3, [1.0] * 3)
    effects = result_of(lambda x: 3 * x[0] + x[1], box).importance()
    assert list(effects) == ["x0", "x1", "x2"]
    assert effects == pytest.approx({"x0": 0.9, "x1": 0.1, "x2": 0.0}, abs=0.02)
    product = result_of(lambda x: (2 * x[1] - 1) * (2 * x[2] - 1), box, n=40).importance()
    assert product == pytest.approx({"x0": 0.0, "x1": 1.0, "x2": 1.0}, abs=0.05)


def test_what_does_not_matter_comes_last(mixed: Result) -> None:
    effects = mixed.importance()
    assert set(list(effects)[-2:]) == {"rate", "cost$"}
    assert list(effects.values()) == sorted(effects.values(), reverse=True)
    assert effects == mixed.importance(), "the same every time"
    assert set(result_of(lambda p: 1.0, MIXED, n=6).importance().values()) == {0.0}


def test_importance_has_a_bar_per_parameter(mixed: Result) -> None:
    ax = mixed.plot_importance(plt.figure().subplots())
    assert [bar.get_width() for bar in ax.patches][::-1] == list(mixed.importance().values())
    assert [text.get_text() for text in ax.get_yticklabels()][::-1][:2] == list(mixed.importance())[:2]


def test_a_slice_shows_every_trial_over_every_parameter_it_has(mixed: Result) -> None:
    figure = mixed.plot_slice()
    panels = {ax.get_xlabel(): ax for ax in figure.axes if ax.get_xlabel()}
    assert list(panels) == ["model", "C", "units", "rate", r"cost\$"]
    done = [trial for trial in mixed.trials if trial.value is not None]
    for name, at in (("C", [t for t in done if "C" in t.params]), ("units", done)):
        x, y = np.ma.getdata(panels[name].collections[0].get_offsets())[:, :2].T
        there = np.isfinite(x)
        assert x[there].tolist() == [trial.params[name] for trial in at]
        assert y[there].tolist() == [trial.value for trial in at]
    assert [panels[name].get_xscale() for name in ("C", "units", "rate")] == ["log", "log", "linear"]
    assert [text.get_text() for text in panels["model"].get_xticklabels()] == ["svm", "forest"]
    star, ticks = panels["rate"].lines
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (mixed.best.params["rate"], mixed.best.value)
    assert ticks.get_xdata().tolist() == [t.params["rate"] for t in mixed.trials if t.value is None]
    figure.canvas.draw()


def test_parallel_coordinates_have_a_line_per_trial_that_ends_at_its_value(mixed: Result) -> None:
    ax = mixed.plot_parallel()
    lines = [line for line in ax.lines if len(line.get_xdata()) == MIXED.d + 1]
    assert len(lines) == 24
    columns = [MIXED.coordinates.index(name) for name in MIXED.names]
    best = np.asarray(mixed.best.unit)[columns]
    there = [name in mixed.best.params for name in MIXED.names]
    drawn = np.asarray(lines[-1].get_ydata())
    assert lines[-1].get_color() == "tab:red"
    assert drawn[:-1][there].tolist() == best[there].tolist()
    assert drawn[-1] == 0, "the lowest value"
    assert (drawn[:-1][np.logical_not(there)] < 0).all()
    assert "absent" in [text.get_text() for text in ax.texts]
    assert sum(line.get_linestyle() == ":" for line in ax.lines) == 2
    ax.figure.canvas.draw()


def test_names_choose_and_of_many_parameters_those_that_matter_are_shown(mixed: Result) -> None:
    assert len(mixed.plot_slice(["units", "C"]).axes) == 3  # and the colour bar
    with pytest.raises(ConfigError, match="names is empty"):
        mixed.plot_slice([])
    with pytest.raises(ConfigError, match="no parameter 'nothing'"):
        mixed.plot_parallel(["nothing"])
    many = result_of(lambda x: x[11], Space.box([0.0] * 12, [1.0] * 12))
    labels = [text.get_text() for text in many.plot_parallel().get_xticklabels()]
    assert len(labels) == 8 + 1
    assert "x11" in labels


def test_one_name_need_not_be_a_list(mixed: Result) -> None:
    assert mixed.plot_slice("rate").axes[0].get_xlabel() == "rate"
    with pytest.raises(ConfigError, match="there is no parameter 'speed'"):
        mixed.plot_parallel("speed")
    with pytest.raises(ConfigError, match="there is no parameter 5"):
        mixed.plot_slice(5)  # type: ignore[arg-type]


def test_whole_numbers_have_whole_ticks() -> None:
    result = result_of(lambda p: float(p["k"]), Space({"k": Int(1, 3)}), 3)
    ax = result.plot_slice().axes[0]
    assert set(ax.get_xticks()) >= {1, 2, 3}
    assert all(tick == int(tick) for tick in ax.get_xticks())


def test_choices_that_do_not_fit_beside_each_other_are_turned_and_numbers_do_not_run_into_each_other() -> None:
    choices = [f"choice {i}" for i in range(50)]
    space = Space({"kind": Categorical(choices), "few": Categorical(["a", "b"]), "rate": Float(0.011, 0.012)})
    figure = result_of(lambda p: p["rate"], space, 3).plot_slice()
    figure.canvas.draw()
    kind, few, rate = (ax.get_xticklabels() for ax in figure.axes[:3])
    assert {text.get_rotation() for text in kind} == {90.0}
    assert {text.get_rotation() for text in few} == {0.0}
    assert len(kind) <= MOST_LABELS
    for texts in (kind, few, rate):
        boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: box.x0)
        assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))
    assert figure.axes[0].get_position().height > 0.4


def test_evaluations_have_whole_ticks() -> None:
    for n in (1, 3, 20):
        ticks = result_of(sphere, BOX, n=n).plot().get_xticks()
        assert all(tick == int(tick) for tick in ticks)


def test_what_is_not_there_is_not_explained(mixed: Result) -> None:
    failed = result_of(sphere, BOX, n=0, failed=2)
    assert failed.plot_parallel().get_title() == "dotted: failed"
    assert mixed.plot_parallel().get_title() == "red: best; dark: good, light: bad; dotted: failed"


def test_a_notebook_shows_a_slice_once(mixed: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython asks `_ipython_display_` first, and pyplot shows what is still open at the end of the cell."""
    display = pytest.importorskip("IPython.display")
    shown: list[Any] = []
    monkeypatch.setattr(display, "display", shown.append)
    figure: Any = mixed.plot_slice("rate")
    with pytest.raises(NotImplementedError):
        figure._ipython_display_()
    monkeypatch.setattr(plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    figure._ipython_display_()
    assert not plt.fignum_exists(figure.number)
    figure._ipython_display_()
    assert shown == [figure, figure], "in a later cell, too"
    assert pickle.loads(pickle.dumps(figure)).axes


def test_of_several_objectives_one_is_chosen() -> None:
    both = result_of(lambda x: [x[0], -x[1]], BOX, n=16, direction=["minimize", "maximize"])
    for picture in (both.plot_slice, both.plot_parallel, both.plot_importance, both.importance):
        with pytest.raises(ConfigError, match="2 objectives: choose one, as in objective=0"):
            picture()
        with pytest.raises(ConfigError, match="at most 1"):
            picture(objective=2)
    assert [next(iter(both.importance(i))) for i in (0, 1)] == ["x0", "x1"]
    best = both.plot_slice(objective=1).axes[0].lines[0].get_ydata()[0]
    assert best == max(trial.values[1] for trial in both.trials)


def test_results_without_a_value_or_with_strange_ones_can_be_shown() -> None:
    nothing = result_of(sphere, BOX, n=0, failed=2)
    nothing.plot_slice().canvas.draw()
    nothing.plot_parallel().figure.canvas.draw()
    with pytest.raises(TrialError, match="no completed trial"):
        nothing.plot_importance()
    for values in ([1.0] * 4, [1e308, -1e308, 0.0, 1.0], [5e-324, 0.0, 0.0, 0.0]):
        left = iter(values)
        strange = result_of(lambda x, left=left: next(left), BOX, n=4)
        strange.plot_parallel().figure.canvas.draw()
    wide = Space({"rate": Float(1e-300, 1e300, log=True)})
    result_of(lambda p: 1.0, wide, n=3).plot_slice().canvas.draw()
    limits = [dataclasses.replace(t, constraints=(1.0,)) for t in strange.trials]
    dataclasses.replace(strange, trials=limits, best=None).plot_slice().canvas.draw()


@pytest.mark.parametrize(
    ("values", "direction", "scale"),
    [
        ([1e-2, 1.0, 1e2], "minimize", "log"),
        ([1.0, 2.0, 3.0], "minimize", "linear"),
        ([-1.0, 1.0, 1e5], "minimize", "linear"),
        ([1e-2, 1.0, 1e2], "maximize", "linear"),
    ],
)
def test_values_that_span_decades_have_a_logarithmic_axis(values: list[float], direction: str, scale: str) -> None:
    left = iter(values)
    result = result_of(lambda x: next(left), BOX, n=3, direction=direction)
    assert result.plot().get_yscale() == scale
    assert result.plot_slice().axes[0].get_yscale() == scale


@pytest.mark.parametrize("ends", [(0, 1), (-5, 5), (3, 1e6), (-1e-9, 1e-9), (0.1, 0.30001), (-1e308, 1e308)])
def test_ticks_are_round_numbers_inside(ends: tuple[float, float]) -> None:
    ticks = _inside(*ends, log=False)
    assert 2 <= len(ticks) <= 7
    assert all(ends[0] <= tick <= ends[1] and len(f"{tick:.2g}") <= 7 for tick in ticks)
    assert _inside(1e-3, 1e3, log=True) == pytest.approx([1e-3, 1e-1, 1e1, 1e3])
    assert _inside(16, 512, log=True) == [20, 50, 100, 200, 500]


def test_ticks_of_parameters_stand_at_values_of_them() -> None:
    assert [text for _, text in _ticks(Int(16, 512, log=True))] == ["20", "50", "100", "200", "500"]
    for parameter in (Int(1, 30, step=4), Float(0, 1, step=0.3), Int(3, 3), Float(1, 1000, log=True)):
        assert all(f"{parameter.decode(place):g}" == text for place, text in _ticks(parameter))
    assert _ticks(Categorical(["a", "b"])) == [(0.25, "a"), (0.75, "b")]


def test_matplotlib_is_an_extra_that_is_named(mixed: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for picture in (mixed.plot_slice, mixed.plot_parallel, mixed.plot_importance):
        with pytest.raises(ModeseekError, match=r"needs matplotlib: pip install .*\[plots\]"):
            picture()


def test_long_names_that_begin_alike_have_bars_of_their_own() -> None:
    alike = Space({f"a very long name of number {i}": Float(0, 1) for i in range(3)})
    ax = result_of(lambda p: sum(p.values()), alike, n=6).plot_importance()
    assert len(ax.patches) == len(ax.get_yticklabels()) == 3
    assert len({bar.get_y() for bar in ax.patches}) == 3


def test_what_the_docs_show_runs() -> None:
    text = (Path(__file__).parents[1] / "docs/pictures.md").read_text()
    run, *pictures = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(pictures) == 4
    small = run.replace("budget=40", "budget=8, progress=False")  # the initial design
    assert small != run
    exec("".join([small, *pictures]), {})
