"""`modeseek report`: figures, tables and two pages, HTML and Markdown, from stored results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from modeseek.bench.campaign import pack
from modeseek.bench.campaign.records import Store
from modeseek.bench.report import (
    ablations,
    charts,
    claims,
    cost,
    departures,
    distribution,
    figures,
    ingredients,
    minutes,
    page,
    presets,
    scoreboard_section,
    seconds,
    theory,
)
from modeseek.bench.report.curves import MIN_PAIRS, REFERENCE, Gathered, gather, in_order
from modeseek.bench.report.finding import Evidence
from modeseek.bench.report.scoreboard import place_of
from modeseek.bench.report.section import Section
from modeseek.bench.report.summary import BEST_OF_OTHERS, against_table, out_of_reach, summary_table
from modeseek.bench.tasks import find_task, task_names, validation_names
from modeseek.checks import missing_extra
from modeseek.errors import ModeseekError

VALIDATION = (
    "Functions outside of the paper, to confirm the settings. The results of the first 17 were known when the "
    "transform of the outcomes (warp) was chosen, after which the last eight, from bukin-2 on, were added; those of "
    "all 25 were known when ρ, the prior of the noise, the kernel and the model's size were. "
)

Failures = Counter[tuple[str, str]]  # how many replications of a task and method failed


def write_report(results: Path, out: Path) -> list[Path]:
    """Write everything that the results allow into `out`, and return the files."""
    _check(results)
    sections = _sections(results)
    if not sections:
        raise ModeseekError(f"{results.resolve()} holds no complete record; `modeseek bench run` makes them")
    out.mkdir(parents=True, exist_ok=True)
    written, parts = [], []
    for section in sections:
        files, part = section.write(out)
        written += files
        parts.append(part)
    whole = out / "report.html"
    whole.write_text(page.page(parts, [(section.name, section.title) for section in sections]))
    plain = out / "report.md"
    plain.write_text("# Results\n" + "".join(section.markdown() for section in sections))
    return [*written, whole, plain]


def _check(results: Path) -> None:
    if not results.is_dir() and results.suffix != pack.SUFFIX:
        fault = "is not a folder" if results.exists() else "does not exist"
        raise ModeseekError(
            f"{results.resolve()} {fault}; give the folder that `modeseek bench run` wrote into, or a file that "
            "`modeseek bench pack` wrote"
        )
    if find_spec("matplotlib") is None:
        raise missing_extra("the report needs matplotlib", "plots")


def _sections(results: Path) -> list[Section]:
    everything = list(Store(results))
    on_board = [record for record in everything if place_of(record.task) is not None]
    records = [record for record in everything if place_of(record.task) is None]
    split = ablations.split(gather(records))
    compared, ablated, removed, departed = split
    failures = Counter((record.task, record.method) for record in records if record.status == "failed")
    sections = [*_on_the_paper(split, results), *_of_methods(compared, failures)]
    if ablated:
        sections.append(
            Section(
                "ablations",
                "Ablations",
                "The paper's preset with one setting changed (its App. B.7): mean simple regret and one standard error "
                "over evaluations, and final regret. Worse, better: than the preset (Wilcoxon signed-rank over "
                "replications, 5 %). Bold: no other value of the setting is better by the same test.",
                ablations.table(ablated),
                partial(ablations.draw, ablated),
            )
        )
    if departed:
        title = "From the paper's text to the default"
        sections.append(Section("departures", title, departures.NOTE, departures.table(departed)))
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
    sections += [
        *minutes.sections(records),
        *distribution.sections(results),
        *theory.sections(results),
        *seconds.sections(results),
        *cost.sections(results),
    ]
    return [*scoreboard_section.sections(on_board), *sections] if sections or on_board else []


def _of_methods(gathered: Gathered, failures: Failures) -> list[Section]:
    """The paper's tasks, those for validation, and others, which are never mixed."""
    of_validation, of_paper = (
        {task: gathered[task] for task in names if task in gathered} for names in (validation_names(), task_names())
    )
    of_own = {task: methods for task, methods in gathered.items() if task not in of_paper | of_validation}
    synthetic, real = _of_figures(gathered)
    return [
        *_against({"the paper's tasks": of_paper, "validation tasks": of_validation, "own tasks": of_own}),
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
            about=VALIDATION,
            failed=_failed(failures, validation_names()),
        ),
        *_curves(of_validation, "validation-curves", "Validation tasks: regret over evaluations"),
        *_tables(
            of_own,
            ("own", "Own tasks: final simple regret"),
            ("own-area", "Own tasks: area under log regret"),
            failed=_failed(failures, list(of_own)),
        ),
        *_curves(of_own, "own-curves", "Own tasks: regret over evaluations"),
    ]


def _of_figures(gathered: Gathered) -> tuple[Gathered, Gathered]:
    """The paper's synthetic and real tasks."""
    of_paper = {task: gathered[task] for task in task_names() if task in gathered}
    synthetic = {task: methods for task, methods in of_paper.items() if find_task(task).values is not None}
    return synthetic, {task: methods for task, methods in of_paper.items() if task not in synthetic}


def _on_the_paper(split: ablations.Split, results: Path) -> list[Section]:
    """What became of the paper's claims."""
    compared = split.compared
    synthetic, real = _of_figures(compared)
    found = claims.table(Evidence(synthetic, real, split.ablated, results, split.departed))
    readings = presets.table(presets.groups_of(synthetic, real))
    without_model = presets.without_model_table(synthetic | real)
    agreement = presets.agreement(compared)
    return [
        Section(name, title, note, of)
        for name, title, note, of in (
            ("claims", "The paper's claims", claims.NOTE, found),
            ("readings", "The paper's method against its baselines", presets.NOTE, readings),
            ("without-model", "Iterations without a diffusion model", presets.WITHOUT_MODEL, without_model),
            ("agreement", "Batched functions beside BoTorch's", presets.AGREEMENT, agreement),
        )
        if of.cells
    ]


def _against(groups: dict[str, Gathered]) -> list[Section]:
    groups = {name: of for name, of in groups.items() if any(REFERENCE in methods for methods in of.values())}
    table = against_table(groups)
    if not table.cells:
        return []
    return [
        Section(
            "against",
            "The default against each method",
            "On how many tasks dms is better / level / worse (Wilcoxon signed-rank over replications, 5 %), by final "
            "regret and by the area under log regret; in brackets, how many are still better / worse with Holm's "
            "correction for the tasks of the cell. "
            f"The last line: against {BEST_OF_OTHERS}, the best non-DMS method of each task, by the mean difference "
            f"from dms in final regret or in area, with at least {MIN_PAIRS} shared replications.",
            table,
        )
    ]


def _failed(failures: Failures, tasks: Sequence[str]) -> str:
    """A paragraph on the replications that failed, where there are any."""
    methods = in_order({method for _, method in failures})
    counts = [f"{t}, {m}: {failures[t, m]}" for t in tasks for m in methods if failures[t, m]]
    return f"\n\nFailed replications, not counted: {'; '.join(counts)}." if counts else ""


def _tables(
    gathered: Gathered, final: tuple[str, str], area: tuple[str, str], *, about: str = "", failed: str
) -> list[Section]:
    """Two sections, each with its name and title; none where there are no records."""
    if not gathered:
        return []
    from_best = (
        " A line from its best has regret from the best value there is, where the paper measures regret from one that "
        "is out of reach."
    )
    return [
        Section(
            *final,
            f"{about}Mean ± standard error, rank on the task in brackets, by the replications that a method shares "
            "with dms. Worse, better: than dms (Wilcoxon signed-rank over replications, 5 %). Bold: no other method is "
            "better by the same test. n where a method has fewer replications than others on the task; with fewer than "
            f"{MIN_PAIRS} it has no rank, unless all have fewer, and is never bold. Mean ranks are among the methods "
            f"that are ranked on every task.{from_best if any(map(out_of_reach, gathered)) else ''}{failed}",
            summary_table(gathered, "final"),
        ),
        Section(
            *area,
            "Mean of log10 simple regret over all evaluations after the initial design, lower is better. Errors, "
            "ranks, worse and better, bold and n are as above.",
            replace(summary_table(gathered, "area"), rows=()),
        ),
    ]


def _curves(gathered: Gathered, name: str, title: str) -> list[Section]:
    if not gathered:
        return []
    return [
        Section(
            name,
            title,
            "Mean simple regret and one standard error over n replications.",
            draw=partial(figures.draw_regret, gathered),
            interactive=partial(charts.regret_charts, gathered),
        )
    ]
