"""Numbers in texts and pictures can be told apart wherever they lie."""

from __future__ import annotations

import re
from collections.abc import Callable

import optuna
import pytest

from modeseek import Categorical, Float, Int, Optimizer, Result, Space, minimize
from modeseek.commands.optimize.show import summary
from modeseek.digits import of_parameter, rounded, spread_of, with_error
from shared import SMALLEST

matplotlib = pytest.importorskip("matplotlib")

FAR = Space({"f0": Float(1549.5, 1550.5), "n": Int(1, 3)})


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (0.39788735, 50.0, "0.397887"),
        (101325.0002, 0.0, "101325"),
        (101325.0002, 0.003, "101325.0002"),
        (1e9 + 0.25, 1.0, "1000000000.25"),
        (-1e9 - 0.25, 1.0, "-1000000000.25"),
        (1e9, float("inf"), "1e+09"),
        (0.0, 1.0, "0"),
        (1.0, 1e-300, "1"),
        (1.1, 1e-300, "1.1000000000000001"),
        (float("nan"), 1.0, "nan"),
        (float("inf"), 1.0, "inf"),
        (1e-200, 1e-203, "1e-200"),
    ],
)
def test_as_many_digits_as_it_takes(value: float, spread: float, text: str) -> None:
    assert rounded(value, spread) == text


def test_a_value_ends_where_its_standard_deviation_does() -> None:
    assert with_error(101325.000123, 0.00033) == "101325.00012 ± 0.00033"
    assert with_error(0.397887, 0.3, least=4) == "0.3979 ± 0.3"
    assert with_error(7.0, float("inf")) == "7 ± inf"


def test_most_values_say_by_how_much_they_differ() -> None:
    assert spread_of([]) == spread_of([3.0]) == spread_of([3.0, 3.0]) == 0
    assert spread_of([1.0, 1.5, 2.0, 2.5, 1e300]) == 1.0, "one outlier makes no difference"
    assert spread_of([1.0, 1.0, 1.0, 1.0, 1.0, 2.0]) == 1.0
    assert spread_of([-1.7e308, 1.7e308]) == float("inf")


def test_values_of_a_parameter_by_its_range() -> None:
    assert of_parameter(Float(1549.5, 1550.5), 1549.8342154) == "1549.83422"
    assert of_parameter(Float(0, 1), 0.123456789) == "0.123457"
    assert of_parameter(Float(0, 1, step=1e-8), 0.12345678) == "0.12345678", "a value on a step is short, or needs all"
    assert of_parameter(Int(0, 10**9), 123456789) == "123456789"
    assert of_parameter(Categorical([1.0, 1.000000001]), 1.000000001) == "1.000000001"


def bowl(params: dict[str, float]) -> float:
    return 101325 + 1e-3 * (params["f0"] - 1549.93) ** 2 + 1e-3 * (params["n"] - 2) ** 2


@pytest.fixture(scope="module")
def far() -> Result:
    return minimize(bowl, FAR, 14, config=SMALLEST, seed=0, n_initial=10, progress=False)


def is_near(text: str, value: float, by: float) -> bool:
    """Whether some number of a text is as near as that."""
    return any(abs(float(number) - value) < by for number in re.findall(r"-?\d+\.\d+", text))


@pytest.mark.parametrize("said", [str, lambda r: r._repr_html_(), lambda r: str(r.optimum), lambda r: repr(r.optimum)])
def test_what_is_printed_of_a_result_far_from_0(far: Result, said: Callable[[Result], str]) -> None:
    text = said(far)
    assert is_near(text, far.best.value, 1e-5)
    if "<Optimum" not in text:
        assert is_near(text, far.best.params["f0"], 1e-3)
    assert "e+0" not in text


def test_an_interval_has_two_ends(far: Result) -> None:
    low, high = re.search(r"f0 (\S+) to (\S+),", str(far.optimum)).groups()
    assert float(low) < float(high)
    assert (float(low), float(high)) == pytest.approx(far.optimum.interval(0.9)["f0"], abs=1e-2)


def test_pictures_tell_their_ticks_apart() -> None:
    opt = Optimizer(Space({"x": Float(1e9, 1e9 + 1), "y": Float(0, 1)}), seed=0)
    for x, y in ((0.0, 0.1), (0.5, 0.9), (1.0, 0.4)):
        opt.tell_params({"x": 1e9 + x, "y": y}, 1e9 + 0.001 * x)
    result = Result(opt.best, None, opt.trials, opt.space, "minimize", 0, opt.config, "budget", 1.0)
    texts = [text.get_text() for text in result.plot_parallel().texts]
    assert {"1000000000", "1000000000.2", "1000000001"} <= set(texts)
    assert {"1000000000.0005", "1000000000.001"} <= set(texts)
    matplotlib.pyplot.close("all")


def test_an_optimizer_and_a_study_far_from_0() -> None:
    opt = Optimizer(FAR, seed=0)
    study = optuna.create_study()
    near = optuna.distributions.FloatDistribution(1549.5, 1550.5)
    for x in (1549.75001, 1549.9, 1550.25):
        opt.tell_params({"f0": x, "n": 2}, bowl({"f0": x, "n": 2}))
        study.add_trial(
            optuna.trial.create_trial(value=opt.trials[-1].value, params={"f0": x}, distributions={"f0": near})
        )
    assert is_near(repr(opt), opt.best.value, 1e-7)
    assert is_near(opt._repr_html_(), 1549.9, 1e-9)
    assert is_near(summary(study), study.best_value, 1e-7)
    assert is_near(summary(study), 1549.9, 1e-9)


def test_the_progress_bar_far_from_0(capsys: pytest.CaptureFixture[str]) -> None:
    result = minimize(bowl, FAR, 6, config=SMALLEST, seed=0, n_initial=6)
    last = re.findall(r"best=(\S+)\]", capsys.readouterr().err)[-1]
    assert float(last) == pytest.approx(result.best.value, abs=1e-6, rel=0)
