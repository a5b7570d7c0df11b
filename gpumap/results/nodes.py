"""Reports of preflight from several nodes: which may take a job, and why the others may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumap.model import Report, Screened, worst
from gpumap.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence


class Node(NamedTuple):
    """A node by the name of its report's file; `why` is its headline, or why it has no report."""

    name: str
    verdict: str
    why: str

    @property
    def fit(self) -> bool:
        """Return whether it may take a job."""
        return self.verdict == "fit"

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


def table(nodes: Sequence[Node]) -> Table:
    """Return a row for each node, those that are not fit first."""
    rows = tuple(map(tuple, sorted(nodes, key=lambda node: (node.fit, node.name))))
    title = f"{sum(node.fit for node in nodes)} of {len(nodes)} nodes are fit"
    return Table(title, ("node", "verdict", "why"), rows, ())
