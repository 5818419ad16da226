"""Tables from stored records: final regret with ranks and tests, and seconds an iteration.

Regret is simple regret without noise over evaluations: the optimum minus the best value so far (Sec. 5.1).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from modeseek import problems
from modeseek.errors import ConfigError
from modeseek.experiments.records import Record
from modeseek.parameters import Array

REFERENCE = "dms"  # whom the others are tested against
LEVEL = 0.05
REGRET_FLOOR = 1e-6  # of the logarithm: regret of exactly zero has none


@dataclass(frozen=True)
class Runs:
    """The complete replications of a method on a task, all of one DMS configuration."""

    task: str
    method: str
    replications: tuple[int, ...]
    regret: Array  # replications x evaluations
    seconds: Array  # replications x iterations, of one replication's share of a batch
    n_initial: int

    @property
    def final(self) -> Array:
        """Regret at the end of each replication."""
        return np.asarray(self.regret[:, -1])

    @property
    def area(self) -> Array:
        """Mean log10 regret after the initial design, of each replication: lower is better all along."""
        curve = self.regret[:, self.n_initial :]
        return np.asarray(np.log10(np.maximum(curve, REGRET_FLOOR)).mean(axis=1))


def gather(records: Iterable[Record]) -> dict[str, dict[str, Runs]]:
    """Runs by task and method, from complete records; ConfigError where configurations of DMS are mixed."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.status == "complete":
            groups.setdefault((record.task, record.method), []).append(record)
    runs: dict[str, dict[str, Runs]] = {}
    for (task, method), group in groups.items():
        if any(record.config != group[0].config for record in group):
            raise ConfigError(f"the records of {method} on {task} are of several configurations; keep them apart")
        same = sorted(group, key=lambda record: record.replication)
        values = np.array([record.values for record in same])
        runs.setdefault(task, {})[method] = Runs(
            task=task,
            method=method,
            replications=tuple(record.replication for record in same),
            regret=np.maximum(problems.get(task).optimum - np.maximum.accumulate(values, axis=1), 0.0),
            seconds=np.array([[seconds / record.batch for seconds in record.iterations] for record in same]),
            n_initial=same[0].n_initial,
        )
    order = {name: i for i, name in enumerate(problems.names())}
    return dict(sorted(runs.items(), key=lambda item: order[item[0]]))


def p_value(runs: Runs, reference: Runs) -> float:
    """Two-sided Wilcoxon signed-rank test of final regret, paired by replication; NaN with fewer than six pairs."""
    common = sorted(set(runs.replications) & set(reference.replications))
    if len(common) < 6:  # with five pairs no result can be significant at 5 %
        return float("nan")
    a, b = (r.final[[r.replications.index(i) for i in common]] for r in (runs, reference))
    return 1.0 if np.array_equal(a, b) else float(stats.wilcoxon(a, b).pvalue)


def mean_and_error(sample: Array) -> tuple[float, float]:
    """Mean and standard error."""
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else float("nan")


def summary_rows(runs: dict[str, dict[str, Runs]]) -> list[dict[str, str | float | int]]:
    """A row a task and method: mean final regret, standard error, rank, area under log regret, test against DMS."""
    rows: list[dict[str, str | float | int]] = []
    for task, methods in runs.items():
        means = {name: mean_and_error(r.final)[0] for name, r in methods.items()}
        ranks = dict(zip(means, stats.rankdata(list(means.values()), method="min").astype(int).tolist(), strict=True))
        for name, r in methods.items():
            mean, error = mean_and_error(r.final)
            tested = name != REFERENCE and REFERENCE in methods
            rows.append(
                {
                    "task": task,
                    "method": name,
                    "replications": len(r.replications),
                    "mean": mean,
                    "standard error": error,
                    "rank": ranks[name],
                    "area": mean_and_error(r.area)[0],
                    f"p against {REFERENCE}": p_value(r, methods[REFERENCE]) if tested else float("nan"),
                }
            )
    return rows


def summary_table(runs: dict[str, dict[str, Runs]]) -> str:
    """Markdown: mean final regret ± standard error, the best in bold, * where Wilcoxon's test tells it from DMS."""
    names = sorted({name for methods in runs.values() for name in methods})
    cells = {(row["task"], row["method"]): row for row in summary_rows(runs)}
    lines = [_line(["task", *names]), _line(["---"] * (len(names) + 1))]
    for task in runs:
        best = min(float(row["mean"]) for (t, _), row in cells.items() if t == task)
        entries = []
        for name in names:
            row = cells.get((task, name))
            if row is None:
                entries.append("")
                continue
            text = f"{_short(float(row['mean']))} ± {_short(float(row['standard error']))}"
            text = f"**{text}**" if row["mean"] == best else text
            entries.append(text + (" *" if float(row[f"p against {REFERENCE}"]) < LEVEL else ""))
        lines.append(_line([task, *entries]))
    everywhere = [name for name in names if all(name in methods for methods in runs.values())]
    ranks = {n: np.mean([float(row["rank"]) for (_, m), row in cells.items() if m == n]) for n in everywhere}
    lines.append(_line(["mean rank", *(f"{ranks[name]:.2f}" if name in ranks else "" for name in names)]))
    return "\n".join(lines)


def seconds_table(runs: dict[str, dict[str, Runs]]) -> str:
    """Markdown: seconds an iteration of one replication, mean ± standard deviation."""
    names = sorted({name for methods in runs.values() for name in methods})
    lines = [_line(["task", *names]), _line(["---"] * (len(names) + 1))]
    for task, methods in runs.items():
        entries = [
            f"{methods[name].seconds.mean():.3f} ± {methods[name].seconds.std():.3f}" if name in methods else ""
            for name in names
        ]
        lines.append(_line([task, *entries]))
    return "\n".join(lines)


def to_csv(rows: Sequence[dict[str, str | float | int]]) -> str:
    """Rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]) if rows else ["task"])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _short(value: float) -> str:
    return f"{value:.3g}"
