"""`modeseek report`: figures, tables and two pages, HTML and Markdown, from stored results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from modeseek.bench.campaign import pack
from modeseek.bench.campaign.records import Store
from modeseek.bench.measure import cost, distribution, seconds
from modeseek.bench.measure.measurements import as_written, read
from modeseek.bench.report import ablations, figures, ingredients, page
from modeseek.bench.report.tables import (
    BEST_OF_OTHERS,
    MIN_PAIRS,
    REFERENCE,
    Gathered,
    Table,
    against_table,
    gather,
    in_order,
    out_of_reach,
    summary_table,
)
from modeseek.bench.tasks import find_task, task_names, validation_names
from modeseek.checks import missing_extra
from modeseek.errors import ModeseekError

EXTRAS = {"matplotlib": "plots", "plotly": "bench"}  # the packages of a report, and what installs them

Failures = Counter[tuple[str, str]]  # how many replications of a task and method failed


@dataclass(frozen=True)
class Section:
    """A part of the report: a table, a figure or both, under one name."""

    name: str  # of its files
    title: str
    note: str
    table: Table | None = None
    draw: Callable[[Path], list[Path]] | None = None  # given a path without suffix
    interactive: Callable[[], str] | None = None  # in the page, instead of the figure


def write_report(results: Path, out: Path) -> list[Path]:
    """Write everything that the results allow into `out`, and return the files."""
    _check(results)
    sections = _sections(results)
    if not sections:
        raise ModeseekError(f"{results.resolve()} holds no complete record; `modeseek bench run` makes them")
    out.mkdir(parents=True, exist_ok=True)
    written, parts = [], []
    for section in sections:
        files, part = _write(section, out)
        written += files
        parts.append(part)
    whole = out / "report.html"
    whole.write_text(page.page(parts, [(section.name, section.title) for section in sections]))
    plain = out / "report.md"
    plain.write_text("# Results\n" + "".join(map(_markdown, sections)))
    return [*written, whole, plain]


def _check(results: Path) -> None:
    if not results.is_dir() and results.suffix != pack.SUFFIX:
        fault = "is no folder" if results.exists() else "does not exist"
        raise ModeseekError(
            f"{results.resolve()} {fault}; give the folder that `modeseek bench run` wrote into, or a file that "
            "`modeseek bench pack` wrote"
        )
    missing = [package for package in EXTRAS if find_spec(package) is None]
    if missing:
        extras = ",".join(EXTRAS[package] for package in missing)
        raise missing_extra(f"the report needs {' and '.join(missing)}", extras)


def _markdown(section: Section) -> str:
    parts = [f"## {section.title}", section.note]
    if section.draw is not None:
        parts.append(f"![{section.title}]({section.name}.png)")
    if section.table is not None:
        parts.append(section.table.markdown())
    return "\n" + "\n\n".join(parts) + "\n"


def _write(section: Section, out: Path) -> tuple[list[Path], str]:
    """The section's files, and its part of the page."""
    written, parts = [], []
    if section.draw is not None:
        written = section.draw(out / section.name)
        drawn = page.image(written[0], section.title) if section.interactive is None else section.interactive()
        parts.append(drawn)
    if section.table is not None:
        texts = {".md": f"{section.note}\n\n{section.table.markdown()}\n"}
        if section.table.rows:
            texts[".csv"] = section.table.csv()
        for suffix, text in texts.items():
            written.append(out / f"{section.name}{suffix}")
            written[-1].write_text(text)
        parts.append(page.table(section.table))
    return written, page.section(section.name, section.title, section.note, *parts)


def _sections(results: Path) -> list[Section]:
    records = list(Store(results))
    compared, ablated, removed = ablations.split(gather(records))
    failures = Counter((record.task, record.method) for record in records if record.status == "failed")
    sections = _of_methods(compared, failures)
    if ablated:
        sections.append(
            Section(
                "ablations",
                "Ablations",
                "The paper's preset with one setting changed (its App. B.7): mean simple regret and one standard error "
                "over evaluations, and final regret, the best of a setting in bold. * differs from the preset "
                "(Wilcoxon signed-rank, 5 %).",
                ablations.table(ablated),
                partial(figures.draw_ablations, ablated),
            )
        )
    if removed:
        sections.append(
            Section(
                "ingredients",
                "Each ingredient of the default",
                "The default with one ingredient removed: final regret, mean ± standard error, and where that is worse "
                "or better than the default (Wilcoxon signed-rank over replications, 5 %), at the end or in the area "
                "under log regret; on how many of a column's tasks it is. Mean ratio: of final regret to the "
                "default's, the geometric mean over the replications that both have and then over tasks; over 1 where "
                "the ingredient helps.",
                ingredients.table(removed),
            )
        )
    campaigns = cost.campaign_table(records)
    if campaigns.cells:
        sections.append(
            Section(
                "campaigns",
                "Minutes of campaigns on a GPU",
                "Suggestions of all replications of DMS that ran as batches on a GPU; variants have a setting changed, "
                "as in ablations. The paper's minutes: its seconds an iteration (Table 4, RTX 4090) times iterations "
                "and replications, for the lines where it reports seconds. The last line adds up all minutes, and the "
                "paper's of those lines.",
                campaigns,
            )
        )
    return sections + _of_measurements(results)


def _of_methods(runs: Gathered, failures: Failures) -> list[Section]:
    """The paper's tasks, then those for validation, which are never mixed with them."""
    of_validation = {task: runs[task] for task in validation_names() if task in runs}
    of_paper = {task: methods for task, methods in runs.items() if task not in of_validation}
    synthetic, real = (
        {task: methods for task, methods in of_paper.items() if (find_task(task).values is None) == is_real}
        for is_real in (False, True)
    )
    return [
        *_against({"the paper's tasks": of_paper, "validation tasks": of_validation}),
        *_tables(
            of_paper,
            ("summary", "Final simple regret"),
            ("area", "Area under log regret"),
            failed=_failed(failures, task_names()),
        ),
        *_curves(synthetic, "figure1", "Synthetic tasks: regret over evaluations"),
        *_curves(real, "figure2", "Real tasks: regret over evaluations"),
        *_tables(
            of_validation,
            ("validation", "Validation tasks: final simple regret"),
            ("validation-area", "Validation tasks: area under log regret"),
            about="Tasks that no setting was chosen on. ",
            failed=_failed(failures, validation_names()),
        ),
        *_curves(of_validation, "validation-curves", "Validation tasks: regret over evaluations"),
    ]


def _against(groups: dict[str, Gathered]) -> list[Section]:
    groups = {name: runs for name, runs in groups.items() if any(REFERENCE in methods for methods in runs.values())}
    table = against_table(groups)
    if not table.cells:
        return []
    return [
        Section(
            "against",
            "The default against each method",
            "On how many tasks dms is better / level / worse (Wilcoxon signed-rank over replications, 5 %), by final "
            "regret and by the area under log regret. No setting was chosen on the validation tasks. "
            f"The last line: against {BEST_OF_OTHERS}, which is on each task the method with the lowest mean "
            f"difference from dms, by final regret or by area, that is no DMS and has {MIN_PAIRS} replications or more "
            "in common with it.",
            table,
        )
    ]


def _failed(failures: Failures, tasks: Sequence[str]) -> str:
    """A paragraph on the replications that failed, where there are any."""
    methods = in_order({method for _, method in failures})
    counts = [f"{t}, {m}: {failures[t, m]}" for t in tasks for m in methods if failures[t, m]]
    return f"\n\nFailed replications, not counted: {'; '.join(counts)}." if counts else ""


def _tables(
    runs: Gathered, final: tuple[str, str], area: tuple[str, str], *, about: str = "", failed: str
) -> list[Section]:
    """Two sections, each with its name and title; none where there are no runs."""
    if not runs:
        return []
    from_best = (
        " A line from its best has regret from the best value there is, where the paper measures regret from one that "
        "is out of reach."
    )
    return [
        Section(
            *final,
            f"{about}Mean ± standard error, rank on the task in brackets, by the replications that a method shares "
            "with dms, the best in bold. * differs from dms (Wilcoxon signed-rank, 5 %). n where a method has fewer "
            f"replications than others on the task; with fewer than {MIN_PAIRS} it has no rank, unless all have fewer. "
            "Mean ranks are among the methods that are ranked "
            f"on every task.{from_best if any(map(out_of_reach, runs)) else ''}{failed}",
            summary_table(runs, "final"),
        ),
        Section(
            *area,
            "Mean of log10 simple regret over all evaluations after the initial design, lower is better. Errors, "
            "ranks, the best and n are shown as above; there are no stars.",
            replace(summary_table(runs, "area"), rows=()),
        ),
    ]


def _curves(runs: Gathered, name: str, title: str) -> list[Section]:
    if not runs:
        return []
    return [
        Section(
            name,
            title,
            "Mean simple regret and one standard error; replications in brackets. Click a name to hide it, "
            "double-click to see it alone.",
            draw=partial(figures.draw_regret, runs),
            interactive=partial(page.regret_plots, runs),
        )
    ]


def _of_measurements(results: Path) -> list[Section]:
    sections = []
    path = results / "distribution.json"
    if taken := distribution.load(path):
        sections.append(
            Section(
                "distribution",
                "Distribution of x*: GP and diffusion model",
                "Styblinski-Tang-2, a run of the paper's preset (its App. C). Energy distance of the GP's samples "
                "(maxima of posterior paths) to the diffusion model's candidates, to a second set of the GP's and to "
                "uniform points. Spread: root mean squared distance from the mean. Both on the unit square.",
                as_written(path)(distribution.table)(taken),
                as_written(path)(partial(figures.draw_distribution, taken)),
            )
        )
    for name, title, note, table in (
        (
            "draws",
            "Seconds to draw S samples of x*",
            "Median. DMS: the default's training and sampling, given the GP and the pseudo-dataset. PES: posterior "
            "paths, drawn by Matheron's rule and maximized. The paper's numbers are of its Table 3.",
            seconds.draws_table,
        ),
        (
            "seconds",
            "Seconds an iteration",
            "Median over successive calls within one process, of a call of over two minutes only one; observed are "
            "Sobol points, as many as half way through the paper's budget, of a function with many optima. The paper's "
            "numbers are of its Table 4.",
            seconds.iterations_table,
        ),
        (
            "batches",
            "Seconds an iteration of DMS in batches",
            "Replications side by side on one device, with as many observations as half way through the paper's "
            "budget, of a function with many optima: the batch's seconds, those of one replication, and the batch's "
            "by stage. GFLOP: the operations of one replication's iteration, in float32 (the network) + in float64 "
            "(the Gaussian process, without the choice of the outcomes' shape); GB: the memory traffic of its "
            "training. Over floor: the batch's seconds as a multiple of its floor in seconds, the time that the "
            "device needs for this work at the speeds that it reaches on large matrices. × paper: the seconds of the "
            "paper's Table 4 over a replication's.",
            cost.batches_table,
        ),
    ):
        path = results / f"{name}.json"
        if measurements := read(path):
            sections.append(Section(name, title, note, as_written(path)(table)(measurements)))
    path = results / "growth.json"
    if growth := read(path):
        sections.append(
            Section(
                "growth",
                "Growth of an iteration's cost",
                "Seconds an iteration of the default with one size changed at a time from d = 10, n = 200, m = 800, "
                "S = 300; the table has the exponents fitted to the upper half of each size's values, and to three at "
                "least.",
                as_written(path)(cost.growth_table)(growth),
                as_written(path)(partial(figures.draw_growth, growth)),
            )
        )
    return sections
