"""Reports of preflight from several nodes: which may take a job, and why the others may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.model import Screened, worst
from gpumap.report.table import Table
from gpumap.results.several import table_as

if TYPE_CHECKING:
    from gpumap.model import Report
    from gpumap.report import Style


class Node(NamedTuple):
    """A node by the name of its report's file; `why` is its headline, or why it has no report."""

    name: str
    verdict: str
    why: str

    @classmethod
    def of(cls, name: str, report: Report) -> Node:
        """Return what a report says of its node; only a whole one that was fit passes."""
        text = report.headline.text if report.headline else "no headline"
        if not isinstance(report.result, Screened):
            return cls(name, "cannot-tell", f"it is a report of {report.kind}")
        if report.simulated:
            return cls(name, "cannot-tell", "it is simulated: of no node")
        fit = report.exit_code == 0 and not report.errors
        verdict = worst(report.result.checks)
        return cls(name, "fit" if fit else "cannot-tell" if verdict == "fit" else verdict, text)


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of a folder of reports."""

    every: Sequence[Node]

    def names(self, *, fit: bool) -> list[str]:
        """Return the names of those that are fit, or of all others."""
        return [node.name for node in self.every if (node.verdict == "fit") is fit]

    def table(self) -> Table:
        """Return a row for each, those that are not fit first."""
        nodes = sorted(self.every, key=lambda node: (node.verdict == "fit", node.name))
        title = f"{len(self.names(fit=True))} of {len(nodes)} nodes are fit"
        return Table(title, ("node", "verdict", "why"), tuple(map(tuple, nodes)), ())

    def data(self) -> dict[str, Any]:
        """Return the same as JSON has it."""
        return {"nodes": [node._asdict() for node in self.every]}

    def render(self, format_: str, style: Style) -> str:
        """Return the table in one of the formats of several reports."""
        return table_as(format_, style, self.table(), self.data)
