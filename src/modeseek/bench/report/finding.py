"""What a claim is judged by, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from modeseek.bench.report.curves import Gathered

Status = Literal["reproduced", "partly", "not", "open"]  # open: the records do not suffice
LOW, HIGH = "styblinski-tang-2", "levy-10"  # of the paper's ablations and tables of seconds


@dataclass(frozen=True)
class Evidence:
    """What a report has."""

    synthetic: Gathered
    real: Gathered
    ablated: Gathered
    results: Path
    departed: Gathered = field(default_factory=dict)  # the way from the text to the default


@dataclass(frozen=True)
class Finding:
    """A claim, where the paper makes it, what became of it, and what measures it."""

    claim: str
    place: str
    status: Status
    found: str
    command: str
    reading: str = ""  # of the method that was run; empty: as its judge says
