"""How a term of the bound changes with a setting: the exponent r of term = c·setting^r, beyond noise or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.stats import t as students

from modeseek.bench.measure.theory import Suboptimality
from modeseek.bench.report.table import mean_and_error
from modeseek.typing import Array

Step = tuple[float, float]

CONFIDENCE = 0.95
RULE = (
    "A rate is fitted by least squares in logarithms for each seed by itself, and stands as mean ± standard error over "
    "seeds; it has a direction where its 95 % interval (Student's t over seeds) does not contain zero. A claim that a "
    "term falls at a rate is reproduced where the interval is below zero and does not lie above the rate; partly where "
    "it is below zero but above the rate, or where more steps of the sweep fall than rise; and otherwise not. A step, "
    "from one setting to the next, falls or rises where the 95 % interval of the difference over seeds says so, each "
    "step by itself."
)


@dataclass(frozen=True)
class Rate:
    """Of a term over the values of a setting."""

    varied: str
    exponent: float  # mean over seeds
    error: float  # standard error
    low: float  # end of the interval
    high: float
    falling: tuple[Step, ...]  # beyond noise
    rising: tuple[Step, ...]

    @property
    def direction(self) -> Literal["falls", "rises", ""]:
        """Empty where neither is beyond noise."""
        return "falls" if self.high < 0 else "rises" if self.low > 0 else ""

    def status(self, claimed: float) -> Literal["reproduced", "partly", "not"]:
        """Of the claim that the term falls as setting^claimed, by `RULE`."""
        if self.direction == "falls":
            return "reproduced" if self.low <= claimed else "partly"
        return "partly" if len(self.falling) > len(self.rising) else "not"

    def exceptions(self) -> str:
        """Steps that do not go in its direction."""
        falls, rises = (
            [f"{verb} from {self.varied} = {named(steps)}"] if steps and self.direction != verb else []
            for verb, steps in (("falls", self.falling), ("rises", self.rising))
        )
        return " and ".join(falls + rises)

    def __str__(self) -> str:
        power = f"{self.varied}^({self.exponent:+.2f} ± {self.error:.2f})"
        return f"{self.direction} as {power}" if self.direction else f"goes as {power}, which is within noise of level"


def rate(found: Sequence[Suboptimality], varied: str, term: str) -> Rate | None:
    """Fitted to a sweep; None where it has under three settings or under two seeds whose terms are all finite."""
    measured = [r for r in found if len(getattr(r, term))]
    if len(measured) < 3:
        return None
    seeds = min(len(getattr(r, term)) for r in measured)
    terms = np.stack([getattr(r, term)[:seeds] for r in measured])
    terms = terms[:, np.isfinite(terms).all(0)]
    if terms.shape[1] < 2:
        return None
    x = [getattr(r, varied) for r in measured]
    exponents = fitted_exponents(x, terms)
    mean, error = mean_and_error(exponents)
    low, high = _interval(exponents)
    steps = [(step, _interval(change)) for step, change in zip(pairwise(x), np.diff(terms, axis=0), strict=True)]
    falling = tuple(step for step, (_, most) in steps if most < 0)
    rising = tuple(step for step, (least, _) in steps if least > 0)
    return Rate(varied, mean, error, low, high, falling, rising)


def named(steps: Sequence[Step]) -> str:
    """As in "10 to 20, 40 to 80"."""
    return ", ".join(f"{a:g} to {b:g}" for a, b in steps)


def fitted_exponents(x: Sequence[float], terms: Array) -> Array:
    """The exponent of each column of terms (settings x seeds)."""
    return np.asarray(np.polyfit(np.log(x), np.log(np.maximum(terms, 1e-12)), 1)[0])


def _interval(sample: Array) -> tuple[float, float]:
    """Of the mean."""
    mean, error = mean_and_error(sample)
    reach = float(students.ppf(0.5 + CONFIDENCE / 2, len(sample) - 1)) * error
    return mean - reach, mean + reach
