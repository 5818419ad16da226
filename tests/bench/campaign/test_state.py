"""How much of the reproduction is there, by cells of a task and a method."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from modeseek.bench.campaign.plan import Cell
from modeseek.bench.campaign.records import Record, Store
from modeseek.bench.campaign.state import parts
from modeseek.bench.measure.measurements import write
from modeseek.bench.measure.pieces import Piece

Make = Callable[[str, str, int, float], Record]


def test_cells_are_full_partly_there_or_missing(tmp_path: Path, make_record: Make) -> None:
    store = Store(tmp_path)
    for task, method, count in (("levy-10", "ei", 3), ("griewank-3", "ei", 2), ("griewank-3", "ts", 1)):
        for replication in range(count):
            store.append(make_record(task, method, replication, 0.1))
    both = ("griewank-3", "levy-10")
    cells = [Cell("Figure 1", both, method, 3) for method in ("ei", "ts", "pes", "jes")]
    (part,) = parts(store, [*cells, Cell("again", ("levy-10",), "ei", 3)])[:1]
    assert (len(part.cells), part.full, part.partly, part.missing) == (8, 1, 2, 5)
    assert part.which() == (
        "`ei` on griewank-3 (2 of 3); `ts` on griewank-3 (1 of 3), levy-10; `pes`, `jes` everywhere"
    )


def test_a_cell_counts_to_the_first_part_that_has_it(tmp_path: Path) -> None:
    cells = [Cell("Figure 1", ("levy-10",), "ei", 3), Cell("again", ("levy-10", "ackley-8"), "ei", 3)]
    found = {part.name: list(part.cells) for part in parts(Store(tmp_path), [*cells, cells[0]])}
    assert found == {"Figure 1": [("levy-10", "ei")], "again": [("ackley-8", "ei")]}


def test_measurements_are_cells_of_their_sizes(tmp_path: Path) -> None:
    def piece(place: str, n: int) -> Piece:
        keys = ((("size", "n"), ("value", n), ("batch", 1)),)
        return Piece("growth", "growth", place.lower(), place, keys, lambda path: None)

    write(tmp_path / "growth.json", [{"size": "n", "value": 20, "batch": 1, "device": "NVIDIA A", "threads": 1}])
    on_gpu, on_cpu = parts(Store(tmp_path), [piece(place, n) for place in ("GPU", "CPU") for n in (20, 50)])
    assert (on_gpu.name, on_gpu.cells) == ("growth on a GPU", {("batch of 1", "n"): (1, 2)})
    assert (on_cpu.name, on_cpu.missing) == ("growth on a CPU", 1)
    assert on_gpu.which() == "`n` on batch of 1 (1 of 2)"
