"""What notebooks show: tables in which all text of the user's is text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from modeseek import Categorical, Float, Int, Linear, Optimizer, Result, Space, minimize
from modeseek.html import LONGEST, MOST_ROWS, of_trials, short
from shared import BOX, SMALLEST, sphere

NASTY = "<script>alert('x')</script> & \"y\""
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "details", "summary"}


class Page(HTMLParser):
    """The tags of a page, which must close in order, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self._open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def told() -> Optimizer:
    space = Space(
        {
            NASTY: Categorical([NASTY, "svm"]),
            "C": Float(1e-3, 1e3, log=True, when={NASTY: "svm"}),
            "units": Int(8, 64, step=8),
        },
        constraints=[Linear({"units": 1}, upper=48)],
    )
    opt = Optimizer(space, seed=0)
    opt.tell_params({NASTY: NASTY, "units": 8}, 2.0)
    opt.tell_params({NASTY: "svm", "C": 1.0, "units": 16}, 1.0)
    opt.tell(opt.ask(), failed=True, error=f"Traceback ...\nValueError: {NASTY}")
    return opt


def test_every_text_is_escaped(told: Optimizer) -> None:
    for shown in (told.space, told, told.trials[0], told.trials[2]):
        page = Page(shown._repr_html_())
        assert set(page.tags) <= TAGS
        assert any(NASTY in text for text in page.texts)


def test_a_space_shows_ranges_scales_conditions_and_constraints(told: Optimizer) -> None:
    texts = Page(told.space._repr_html_()).texts
    for text in ("0.001 … 1000", "log", "8 … 64", "step 8", "constraint: units <= 48"):
        assert text in texts
    assert "exists where" in texts
    assert "exists where" not in Page(BOX._repr_html_()).texts


def test_an_optimizer_shows_its_best_trial_and_all_others(told: Optimizer) -> None:
    assert (
        repr(told) == "<Optimizer: minimize over 3 parameters, seed 0: 3 trials (2 complete, 1 failed), best value 1>"
    )
    page = Page(told._repr_html_())
    assert "trial 1, complete, value 1" in page.texts
    assert page.tags.count("tr") == (1 + 3) + (1 + 3)  # a row per parameter, a row per trial, and their headers
    one = Optimizer(BOX, seed=0)
    one.tell(one.ask(), 1.0)
    assert "0: 1 trial (1 complete)" in repr(one)
    assert "1 trial" in Page(one._repr_html_()).texts
    assert "0 trials" in repr(Optimizer(BOX, seed=0))
    assert "0 trials" in Page(Optimizer(BOX, seed=0)._repr_html_()).texts


def test_a_result_says_what_it_prints() -> None:
    result: Result = minimize(sphere, BOX, 3, config=SMALLEST, seed=0, progress=False)
    texts = Page(result._repr_html_()).texts
    assert str(result).splitlines()[0] in texts
    assert f"{result.best.value:.6g}" in " ".join(texts)
    assert {"x0", "x1"} <= set(texts)


def test_what_is_long_is_cut(told: Optimizer) -> None:
    assert len(short("a" * 1000)) == LONGEST
    many = Page(of_trials([told.trials[0]] * (MOST_ROWS + 1), told.space))
    assert many.tags.count("tr") == MOST_ROWS + 1
    assert f"the last {MOST_ROWS} of {MOST_ROWS + 1} trials" in many.texts


def test_of_several_objectives_the_front_is_shown() -> None:
    opt = Optimizer(BOX, direction=["minimize", "maximize"], seed=0)
    for x, values in (([0.0, 0.0], [1.0, 1.0]), ([1.0, 0.0], [2.0, 2.0]), ([2.0, 0.0], [3.0, 0.0])):
        opt.tell_params(x, values)
    assert repr(opt) == "<Optimizer: minimize, maximize over 2 parameters, seed 0: 3 trials (3 complete), front of 2>"
    texts = Page(opt._repr_html_()).texts
    assert {"trial 0, complete, value 1, 1", "trial 1, complete, value 2, 2"} <= set(texts)
