"""Tables of seconds beside the paper's."""

from __future__ import annotations

from modeseek.bench.measure.measurements import Measurement
from modeseek.bench.report.seconds import draws_table, iterations_table, paper_seconds

MACHINE = {"device": "CPU (x)", "threads": 1, "torch": "2", "botorch": "0", "modeseek": "0"}


def measurement(task: str, method: str, *values: float, **more: object) -> Measurement:
    return {"task": task, "method": method, "seconds": list(values)} | MACHINE | more


def test_tables_show_means_and_standard_deviations_beside_the_papers() -> None:
    draws = draws_table([measurement("levy-10", "DMS", 0.5, 0.1, 0.2, S=S) for S in (100, 300)])
    assert draws.header[-2:] == ["S = 100", "S = 300"]
    assert ["levy-10", "DMS", "CPU (x), 1 thread", "0.267 ± 0.21", "0.267 ± 0.21"] in draws.cells
    assert ["levy-10", "PES", "RTX 4090 (paper)", "9.58 ± 2.36", "28.74 ± 2.55"] in draws.cells

    assert ["levy-10", "DMS, the paper's settings", "RTX 4090 (paper)", "2.20 ± 0.07", "2.67 ± 0.06"] in draws.cells

    methods = ("dms-paper", "pes", "sobol")
    values = dict(zip(methods, ((1.0, 2.0, 3.0), (130.0,), (0.0001, 0.0002)), strict=True))
    iterations = iterations_table([measurement("levy-10", method, *values[method]) for method in methods])
    assert iterations.header == ["task", "measured on", "dms-paper", "pes", "sobol"]
    assert iterations.cells == [
        ["levy-10", "CPU (x), 1 thread", "2 ± 1", "130", "< 0.001"],
        ["levy-10", "RTX 4090 (paper)", "4.07 ± 0.40", "390.20 ± 23.40", ""],
    ]
    assert [iterations.rows[0][name] for name in ("seconds", "standard deviation", "median", "repeats")] == [2, 1, 2, 3]
    assert iterations.rows[1]["standard deviation"] == ""


def test_unknown_methods_and_tasks_come_last() -> None:
    methods = ("mine", "dms", "cmaes")
    table = iterations_table([measurement("levy-10", method, 1.0) for method in methods])
    assert table.header == ["task", "measured on", "dms", "cmaes", "mine"]
    tasks = iterations_table([measurement(task, "dms", 1.0) for task in ("a-task", "levy-10")]).cells
    assert list(dict.fromkeys(line[0] for line in tasks)) == ["levy-10", "a-task"]


def test_the_papers_seconds_are_of_an_acquisition_function_whoever_optimizes_it() -> None:
    assert paper_seconds("levy-10", "ucb") == paper_seconds("levy-10", "ucb-botorch") == 0.50
    assert paper_seconds("levy-10", "cmaes") is None
