"""A word that may need explaining, and the kinds of words that there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "metric", "cause", "flag", "mark", "row status", "report status", "stop", "exit code", "column",
    "case", "parameter", "route", "verdict", "concept", "code", "diagnosis",
]  # fmt: skip

# Each kind, in the order of the list, and its heading.
KINDS: dict[Kind, str] = {
    "metric": "Metrics: the figures of a row",
    "cause": "Causes: why a speed-up or a copy stays below what could be",
    "flag": "Flags: what to bear in mind with a row",
    "mark": "Marks: what is odd about a single sample",
    "row status": "Status of a row",
    "report status": "Status of a report",
    "stop": "Stops: why measuring a row ended",
    "exit code": "Exit codes",
    "column": "Columns of the tables that are no metric",
    "case": "Cases: what a benchmark measures",
    "parameter": "Parameters: how a case copies, as `params` and ids have it",
    "route": "Routes: how a copy between devices went",
    "verdict": "Verdicts on limits, and on what changed since a base",
    "concept": "Concepts",
    "code": "Codes of errors, warnings, notes and reasons, as JSON has them",
    "diagnosis": "Causes that `doctor` names: why a device is not used",  # gpumap.doctor.pages
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A word with one line, the sentences behind it, and what to do about it if anything is."""

    name: str
    kind: Kind
    summary: str
    text: str
    fix: str | None = None
