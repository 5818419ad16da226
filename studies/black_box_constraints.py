"""Black-box constraints: the best feasible value by evaluations (`python -m studies.black_box_constraints`).

BoTorch's constrained test functions, without noise, each optimizer from the same 10 Sobol points. The table has the
best feasible value: median over seeds, the worst seed, and how many seeds have found a feasible point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from botorch.test_functions.synthetic import (
    ConstrainedGramacy,
    PressureVessel,
    SpeedReducer,
    TensionCompressionString,
    WeldedBeamSO,
)

from modeseek.typing import Array
from studies.contenders import BoTorch, Task, asked_for, gp_sampler, on_the_unit_cube, tpe

PROBLEMS: dict[str, Any] = {
    "Gramacy": ConstrainedGramacy(),
    "pressure vessel": PressureVessel(),
    "welded beam": WeldedBeamSO(),
    "speed reducer": SpeedReducer(),
    "tension spring": TensionCompressionString(),
}
OTHERS: dict[str, Any] = {"constrained LogEI": BoTorch, "GPSampler": gp_sampler, "TPE": tpe}
AT = (20, 40, 60)


def task(name: str, problem: Any) -> Task:
    scale = on_the_unit_cube(problem.bounds)

    def evaluate(x: Array) -> tuple[Array, Array]:
        at = scale(x)[None]
        return problem.evaluate_true(at).reshape(1).numpy(), -problem.evaluate_slack_true(at)[0].numpy()

    return Task(name, problem.dim, 1, problem.num_constraints, evaluate)


def best(record: dict[str, Any], n: int) -> float:
    """The best feasible value among the first n; infinite where there is none."""
    values, limits = np.array(record["values"][:n])[:, 0], np.array(record["constraints"][:n])
    return float(values[(limits <= 0).all(1)].min(initial=np.inf))


def main() -> None:
    found = asked_for("black_box_constraints", __doc__, PROBLEMS, task, OTHERS, max(AT))
    columns = " | ".join(f"after {n}: median, worst, feasible" for n in AT)
    print(f"| problem | method | {columns} | seconds per proposal |")
    print("|---|---|" + "---|" * (len(AT) + 1))
    for (name, method), rows in found.items():
        cells = []
        for n in AT:
            values = np.array([best(r, n) for r in rows])
            feasible = int(np.isfinite(values).sum())
            cells.append(f"{np.median(values):.4g}, {values.max():.4g}, {feasible}/{len(rows)}")
        seconds = np.mean([r["seconds"] for r in rows])
        print(f"| {name} | {method} | {' | '.join(cells)} | {seconds:.2f} |")


if __name__ == "__main__":
    main()
