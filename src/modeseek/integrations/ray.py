"""Ray Tune: `OptunaSearch(sampler=DMSSampler())` is all it takes; this is a search that survives NaN results better.

Ray's own class hands a NaN result to Optuna, which refuses it, and goes on: in the study that trial runs forever, and
the sampler counts it as pending.
"""

from __future__ import annotations

from typing import Any

from modeseek.checks import missing_extra
from modeseek.errors import ModeseekError
from modeseek.outcomes import as_number

try:
    import optuna  # noqa: F401 - OptunaSearch itself only asserts that it is there
    from ray.tune.search.optuna import OptunaSearch
except ImportError as error:
    raise missing_extra("FiniteOptunaSearch needs Ray Tune and Optuna", "ray") from error


class FiniteOptunaSearch(OptunaSearch):
    """Ray's `OptunaSearch`, for one metric, whose study has a failed trial for a result that is not a finite number.

    tuner = tune.Tuner(..., tune_config=TuneConfig(search_alg=FiniteOptunaSearch(sampler=DMSSampler(seed=0)), ...))
    """

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Tell the study of a trial's end."""
        if isinstance(self.metric, list):
            raise ModeseekError(f"FiniteOptunaSearch is for one metric, not for {self.metric}; use OptunaSearch")
        if result and self.metric in result:
            try:
                as_number(result[self.metric])
            except ValueError:
                result, error = None, True
        super().on_trial_complete(trial_id, result, error)
