"""Budgets, bars, interrupts, and single evaluations."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from modeseek.execution.budget import Budget
from modeseek.execution.evaluate import Evaluated, evaluate
from modeseek.execution.interrupts import Interrupts
from modeseek.execution.progress import progress_bar
from modeseek.outcomes import Measured


def test_a_budget_is_spent_by_evaluations_or_by_time() -> None:
    assert Budget(3, None).spent(2) is None
    assert Budget(3, None).spent(3) == "budget"
    assert Budget(3, 0.0).spent(0) == "timeout"
    assert Budget(3, 1e6).spent(0) is None
    assert Budget(0, 0.0).spent(0) == "budget", "what is done is done"


def test_ctrl_c_is_let_through_inside_and_kept_outside() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        with interrupts.allowed():
            pass
        os.kill(os.getpid(), signal.SIGINT)  # kept
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            pytest.fail("it was pressed before")
    assert signal.getsignal(signal.SIGINT) is before
    reached = []
    with Interrupts() as interrupts:
        with suppress(KeyboardInterrupt), interrupts.allowed():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("after")
        os.kill(os.getpid(), signal.SIGINT)  # on the way out nothing is cut short
    assert reached == []


def test_interrupts_in_another_thread_change_nothing() -> None:
    before = signal.getsignal(signal.SIGINT)

    def inside() -> object:
        with Interrupts() as interrupts, interrupts.allowed():
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(inside).result() is before
    assert threading.current_thread() is threading.main_thread()


def test_a_bar_counts_on_standard_error_or_not_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(5, done=2, unit="trial") as bar:
        bar.update()
    assert "3/5" in capsys.readouterr().err
    with progress_bar(5, show=False) as bar:
        bar.set_postfix_str("best=1", refresh=False)
        bar.update()
    assert capsys.readouterr() == ("", "")


class Strange:
    """It fails whatever it is asked."""

    def __float__(self) -> float:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Panic(BaseException):
    """What compiled extensions raise: no Exception."""


class Unread:
    """A tensor whose device has failed this time."""

    shape = ()

    def item(self) -> float:
        raise Panic("no")


def leave(x: object) -> None:
    sys.exit("enough")


def fail(x: object) -> None:
    raise KeyError("boom")


def test_an_evaluation_is_plain_data() -> None:
    assert evaluate(lambda x: np.float32(2 * x), (), 2) == Evaluated(measured=Measured((4.0,)))
    raised = evaluate(fail, (), 2)
    assert isinstance(raised.exception, KeyError)
    assert "boom" in str(raised.error)
    caught = evaluate(fail, (LookupError,), 2)
    assert (caught.exception, caught.caught, caught.error) == (None, True, raised.error)
    assert "SystemExit: enough" in str(evaluate(leave, (), 2).error)
    strange = evaluate(lambda x: Strange(), (), 2)
    assert (strange.measured, strange.never_a_number) == (None, False)
    assert strange.error
    unread = evaluate(lambda x: Unread(), (), 2)
    assert "gives no number: " in str(unread.error)
    assert not unread.never_a_number
    for value, never in ((None, True), ("1", True), ({}, True), (float("nan"), False), (np.zeros(2), True)):
        assert evaluate(lambda x, value=value: value, (), 2).never_a_number is never
    assert not evaluate(lambda x: None, (TypeError,), 2).never_a_number


def test_an_interrupt_in_an_evaluation_is_not_a_failure() -> None:
    def press(x: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(press, (Exception,), 2)
