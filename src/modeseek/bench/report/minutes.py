"""Minutes of a GPU that campaigns took: the paper's Figure 1 by method, beside a target and the paper's own seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from modeseek.bench.campaign.records import Record
from modeseek.bench.methods.variants import BASELINES, DEFAULT, PRESET, PRINTED, TOO_EXPENSIVE
from modeseek.bench.report.curves import in_order, tasks_in_order
from modeseek.bench.report.seconds import paper_seconds
from modeseek.bench.report.section import Section
from modeseek.bench.report.table import Row, Table
from modeseek.bench.tasks import find_task, task_names

TARGET = 90  # minutes of one H200 for all of Figure 1
NOTE = (
    "Suggestions of replications that ran on a GPU, each with its share of its batch's seconds: those of a whole "
    "batch count once. Figure 1 is the paper's twelve synthetic tasks, all of its methods and all "
    f"replications, with DMS in three readings; the target is {TARGET} minutes of one H200. Where several campaigns "
    "shared the GPU, a batch's seconds count the waiting for the others, and the sum is an upper bound: most of the "
    "published records shared theirs with up to 17 others. By the paper's seconds: those of an iteration (Table 4, RTX "
    "4090) times iterations and replications, on the tasks that it timed, with ours on the same tasks before it. "
    "`campaigns.csv` has each task."
)
Minutes = Mapping[tuple[str, str], list[float]]  # of each replication, by task and method


def sections(records: Iterable[Record]) -> list[Section]:
    """One, where some ran on a GPU."""
    table = minutes_table(records)
    return [Section("campaigns", "Minutes of campaigns on a GPU", NOTE, table)] if table.cells else []


def minutes_table(records: Iterable[Record]) -> Table:
    """A line per method of Figure 1, their sum beside the target, and whatever else there is."""
    spent: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.status == "complete" and record.device.startswith("cuda"):
            share = sum(record.iterations) / record.batch / 60
            spent.setdefault((record.task, record.method), []).append(share)
    if not spent:
        return Table([], [])
    wanted = _of_figure_1()
    methods = list(dict.fromkeys(method for _, method in wanted))
    cells = [_line(method, spent, {pair: n for pair, n in wanted.items() if pair[1] == method}) for method in methods]
    total = _line("all of Figure 1", spent, wanted)
    there = all(len(spent.get(pair, ())) >= count for pair, count in wanted.items())
    total[2] += f", {verdict(_sum(spent, wanted), there)}"
    others = [pair for pair in spent if pair not in wanted]
    if others:
        count = sum(len(spent[pair]) for pair in others)
        rest = ["other tasks, variants, earlier defaults", str(count), f"{_sum(spent, others):.1f}", "", ""]
    lines = [*(cell for cell in cells if not cell[1].startswith("0 ")), total, *([rest] if others else [])]
    header = ["method", "replications", "minutes", "minutes where the paper has seconds", "by the paper's seconds"]
    return Table(header, lines, _rows(spent))


def verdict(minutes: float, complete: bool) -> str:
    """What the sum of minutes says about the target."""
    if not complete:
        return "not all has run" + (f", and over {TARGET} already by this sum" if minutes > TARGET else "")
    return f"within {TARGET}" if minutes <= TARGET else f"over {TARGET} by this sum"


def _of_figure_1() -> dict[tuple[str, str], int]:
    """Its replications, by task and method; without what the paper could not afford."""
    tasks = [task for task in task_names() if find_task(task).values is not None]
    return {
        (task, method): find_task(task).replications
        for method in (*BASELINES, PRINTED, PRESET, DEFAULT)
        for task in tasks
        if method not in TOO_EXPENSIVE.get(find_task(task).d, ())
    }


def _sum(spent: Minutes, pairs: Iterable[tuple[str, str]]) -> float:
    return sum(sum(spent.get(pair, ())) for pair in pairs)


def _line(name: str, spent: Minutes, wanted: Mapping[tuple[str, str], int]) -> list[str]:
    there = sum(len(spent.get(pair, ())) for pair in wanted)
    timed = [pair for pair in wanted if paper_seconds(*pair) is not None and pair in spent]
    of_paper = sum(_by_the_paper(pair, len(spent[pair])) for pair in timed)
    both = [f"{_sum(spent, timed):.1f}", f"{of_paper:.0f}"] if timed else ["", ""]
    return [name, f"{there} of {sum(wanted.values())}", f"{_sum(spent, wanted):.1f}", *both]


def _by_the_paper(pair: tuple[str, str], replications: int) -> float:
    """Minutes by its seconds per iteration, which it must have."""
    return (paper_seconds(*pair) or 0.0) * find_task(pair[0]).budget * replications / 60


def _rows(spent: Minutes) -> list[Row]:
    """By task and method; variants of a method together."""
    found: list[Row] = []
    for task in tasks_in_order({task for task, _ in spent}):
        for method in in_order([m for t, m in spent if t == task and "[" not in m]):
            minutes, is_timed = spent[task, method], paper_seconds(task, method) is not None
            papers = round(_by_the_paper((task, method), len(minutes)), 1) if is_timed else ""
            row: Row = {"task": task, "method": method, "replications": len(minutes)}
            found.append(row | {"minutes": round(sum(minutes), 2), "paper's minutes": papers})
        if variants := [minutes for (t, m), minutes in spent.items() if t == task and "[" in m]:
            row = {"task": task, "method": "variants", "replications": sum(map(len, variants))}
            found.append(row | {"minutes": round(sum(map(sum, variants)), 2), "paper's minutes": ""})
    return found
