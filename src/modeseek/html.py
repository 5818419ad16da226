"""Tables for notebooks: what `_repr_html_` of spaces, trials, optimizers and results is made of.

Names and choices are the user's, who may have them from anywhere: every text is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from modeseek.choices import Categorical
from modeseek.digits import of_parameter, rounded, spreads_of

if TYPE_CHECKING:
    from modeseek.optimizer import Optimizer
    from modeseek.parameters import Parameter
    from modeseek.space import Space
    from modeseek.trials import Trial

LONGEST = 200  # characters of one entry
MOST_ROWS = 500
MOST_BEST = 3  # of several objectives there may be many


def short(value: Any) -> str:
    """A value in a few characters, text as it is."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def line(text: object) -> str:
    """A paragraph."""
    return f"<p>{escape(str(text))}</p>"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Rows of values under their names."""
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(short(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def named(params: Any) -> dict[str, Any]:
    """Parameters by name; those of a box are x0, x1, ..."""
    if isinstance(params, Mapping):
        return dict(params)
    return {f"x{i}": value for i, value in enumerate(params.tolist())}


def of_trial(trial: Trial, space: Space | None = None, among: Sequence[Trial] = ()) -> str:
    """What a trial is, its parameters, and why it failed; numbers in full where its space and others are not known."""
    said = f"trial {trial.number}, {trial.state.value}"
    if trial.values is not None:
        said += ", value " + ", ".join(_values(trial, spreads_of(t.values for t in among)))
    if trial.constraints:
        said += f", {'feasible' if trial.feasible else 'infeasible'}: " + ", ".join(map(rounded, trial.constraints))
    why = "" if trial.error is None else line(short((trial.error.strip().splitlines() or [""])[-1]))
    return table(["parameter", "value"], _params(trial, space).items(), said) + why


def _values(trial: Trial, spreads: Sequence[float]) -> list[str]:
    """The values of a trial, rounded where it is known by how much values differ."""
    return list(map(rounded, trial.values or (), spreads)) if spreads else list(map(short, trial.values or ()))


def _params(trial: Trial, space: Space | None) -> dict[str, str]:
    """The parameters of a trial by name, rounded where their space is known."""
    params = named(trial.params)
    if space is None:
        return {name: short(value) for name, value in params.items()}
    return {name: _of_parameter(space[name], value) for name, value in params.items()}


def _of_parameter(parameter: Parameter, value: Any) -> str:
    return short(of_parameter(parameter, value) if isinstance(value, float) else value)


def of_trials(trials: Sequence[Trial], space: Space) -> str:
    """A table of all trials, folded up; of many, the last ones."""
    last = trials[-MOST_ROWS:]
    more = f"the last {len(last)} of " if len(last) < len(trials) else ""
    spreads = spreads_of(trial.values for trial in trials)
    rows = []
    for trial in last:
        params = _params(trial, space)
        values = ", ".join(_values(trial, spreads))
        rows.append([trial.number, trial.state.value, values, *(params.get(name, "") for name in space.names)])
    shown = table(["number", "state", "value", *space.names], rows)
    return f"<details><summary>{more}{counted(trials, states=False)}</summary>{shown}</details>"


def counted(trials: Sequence[Trial], *, states: bool = True) -> str:
    """How many trials are in which state: "12 trials (10 complete, 2 failed)"; without the states "12 trials"."""
    many = f"{len(trials)} trial{'' if len(trials) == 1 else 's'}"
    if not states:
        return many
    counts = Counter(trial.state.value for trial in trials)
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    if outside := sum(not trial.in_space for trial in trials):
        said += f"; {outside} not in the space"
    return many + (f" ({said})" if said else "")


def summary(opt: Optimizer) -> str:
    """An optimizer in one line."""
    goal = opt.direction if isinstance(opt.direction, str) else ", ".join(opt.direction)
    found = ""
    if front := opt.front:
        best = _values(front[0], spreads_of(trial.values for trial in opt.trials))
        found = f", best value {best[0]}" if len(best) == 1 else f", front of {len(front)}"
    return f"{goal} over {opt.d} parameters, seed {opt.seed}: {counted(opt.trials)}{found}"


def of_optimizer(opt: Optimizer) -> str:
    """What an optimizer has found so far: the best trials, and all of them, folded up."""
    best = [of_trial(trial, opt.space, opt.trials) for trial in opt.front[:MOST_BEST]]
    return "".join([line(summary(opt)), *best, of_trials(opt.trials, opt.space)])


def of_space(space: Space) -> str:
    """The parameters, one per row, and the constraints."""
    rows = []
    for name in space.names:
        parameter = space[name]
        if isinstance(parameter, Categorical):
            values, kind = ", ".join(map(short, parameter.choices)), ""
        else:
            values = f"{_of_parameter(parameter, parameter.low)} … {_of_parameter(parameter, parameter.high)}"
            kind = "log" if parameter.log else "" if parameter.step in (None, 1) else f"step {short(parameter.step)}"
        when = space.conditions.reason(name) if parameter.when else ""
        rows.append([name, type(parameter).__name__, values, kind, when])
    header = ["parameter", "type", "values", "scale", "exists where"]
    used = [i for i in range(len(header)) if i < 3 or any(row[i] for row in rows)]
    shown = table([header[i] for i in used], [[row[i] for i in used] for row in rows], f"space of {space.d} parameters")
    return shown + "".join(line(f"constraint: {text}") for text in space.constraint_texts)
