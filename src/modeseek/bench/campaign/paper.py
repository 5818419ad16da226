"""All of the reproduction in one order: its campaigns, and its measurements.

Baselines and the paper's own presets come first and our default last, since that is what may still change. Measurements
on the device that is asked for come before what trains networks, those on the CPU beside a GPU at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from modeseek.bench.campaign.plan import Cell, Step, trains_networks
from modeseek.bench.measure.pieces import pieces, timed_pieces
from modeseek.bench.methods import variants
from modeseek.bench.methods.variants import BASELINES, TOO_EXPENSIVE
from modeseek.bench.tasks import find_task, task_names

# On tasks that train networks, where a replication is a process of its own: BoTorch's, whose records were there first,
# but for those that take it minutes per iteration.
BASELINES_ALONE = ("ucb-botorch", "pi-botorch", "ei-botorch", "ts-botorch", "gibbon-botorch", "jes", "pes")
OF_THE_PAPER, OURS = (variants.PRESET, variants.PRINTED), variants.DEFAULT


def steps(device: str, *, whichever: bool = False) -> list[Step]:
    """Campaigns and measurements, in the order in which they run.

    Args:
        device: as in "cuda". Beside it, seconds are measured on the CPU.
        whichever: a measurement on any device of this kind counts, whatever its name.
    """
    listed = cells()
    first_real = next(i for i, cell in enumerate(listed) if cell.part == "Figure 2")
    on_cpu = [] if device == "cpu" else timed_pieces("cpu")
    return [*listed[:first_real], *pieces(device, whichever=whichever), *listed[first_real:], *on_cpu]


def cells() -> list[Cell]:
    """Figures 1 and 2, the way from the text to the default, and the ablations, in the order in which they run."""
    by_size = _by_size(task_names())
    of_figure_1 = [tasks for tasks in by_size if find_task(tasks[0]).values is not None]
    of_figure_2 = [tasks for tasks in by_size if tasks not in of_figure_1]
    listed: list[Cell] = []

    def add(part: str, groups: Iterable[tuple[str, ...]], methods: Sequence[str]) -> None:
        for tasks in groups:
            left_out = TOO_EXPENSIVE.get(find_task(tasks[0]).d, ())
            listed.extend(Cell(part, tasks, method) for method in methods if method not in left_out)

    add("Figure 1", of_figure_1, [*BASELINES, *OF_THE_PAPER])
    for task in variants.DEPARTURE_TASKS:
        add("departures", [(task,)], [m for m in variants.departures(task) if m.startswith(variants.PRINTED)])
    for task in variants.ABLATION_TASKS:
        add("ablations", [(task,)], variants.ablations(task))
    for tasks in of_figure_2:
        baselines = BASELINES_ALONE if trains_networks(tasks[0]) else BASELINES
        add("Figure 2", [tasks], [*OF_THE_PAPER, *baselines])
    add("default", by_size, [OURS])
    for task in variants.DEPARTURE_TASKS:
        add("departures", [(task,)], list(variants.departures(task)))
    return list(dict.fromkeys(listed))


def _by_size(tasks: Iterable[str]) -> list[tuple[str, ...]]:
    """Tasks that can share tensors together, the others alone, few dimensions first."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for task in tasks:
        problem = find_task(task)
        alone = () if problem.values is not None else (task,)
        groups.setdefault((problem.d, problem.n_initial, problem.budget, *alone), []).append(task)
    return [tuple(groups[size]) for size in sorted(groups, key=lambda size: (len(size), size[0]))]
