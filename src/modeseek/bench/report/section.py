"""A part of the report: what it shows, and the files and the pieces of both pages that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modeseek.bench.report import page
from modeseek.bench.report.table import Table


@dataclass(frozen=True)
class Section:
    """A table, a figure or both, under one name."""

    name: str  # of its files
    title: str
    note: str
    table: Table | None = None
    draw: Callable[[Path], list[Path]] | None = None  # given a path without suffix
    interactive: Callable[[], str] | None = None  # in the HTML page, instead of the figure
    explained: str = ""  # more of the note, folded up in the HTML page
    more: Sequence[tuple[str, Table]] = ()  # titles and tables of `report.md`, which `interactive` has in its way

    def markdown(self) -> str:
        """Its part of `report.md`."""
        parts = [f"## {self.title}", self.note, *filter(None, [self.explained])]
        if self.draw is not None:
            parts.append(f"![{self.title}]({self.name}.png)")
        if self.table is not None:
            parts.append(self.table.markdown())
        parts += [f"### {title}\n\n{table.markdown()}" for title, table in self.more if table.cells]
        return "\n" + "\n\n".join(parts) + "\n"

    def write(self, out: Path) -> tuple[list[Path], str]:
        """Its figure and its numbers as files in a folder, and its part of `report.html`."""
        written = []
        parts = [page.folded("How to read this", self.explained)] if self.explained else []
        if self.draw is not None:
            written = self.draw(out / self.name)
            parts.append(page.image(written[0], self.title) if self.interactive is None else self.interactive())
        if self.table is not None:
            parts.append(page.table(self.table))
        for table in filter(None, [self.table, *(table for _, table in self.more)]):
            if table.rows:
                written.append(out / f"{self.name}.csv")
                written[-1].write_text(table.csv())
        return written, page.section(self.name, self.title, self.note, *parts)
