"""Verdicts as tables: one of limits, one of changes."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import unquote

from gpumap.figures import estimate
from gpumap.report.table import Table
from gpumap.results.outcomes import LIMIT, figure
from gpumap.text import NAME, middle
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.model import Report, Verdict

_CONTROL = "vs control"
_NAMES = "names"  # the key of an id
_WRITTEN = 3  # names of a row: of more their number
COLUMNS = {
    "limits": ("limit", "row", "figure", "verdict"),
    "changes": ("row", "metric", "new/base", _CONTROL, "verdict"),
}
_WORST = ("regression", "missing", "inconclusive", "new", "improvement", "pass", "shown")
_NOUNS = ("regression", "improvement")  # words that have a plural


def judged(report: Report, *, verbose: bool = False) -> Iterator[Table]:
    """Yield a table of the verdicts on limits, and one of those on changes, where there are any.

    `verbose`: with the whole id of each row.
    """
    called: Mapping[str, str] = {} if verbose else _called(report.verdicts)
    limits = [verdict for verdict in report.verdicts if verdict.rule == LIMIT]
    others = [verdict for verdict in report.verdicts if verdict.rule != LIMIT]
    if limits:
        rows = ((v.text, _row(v, called), figure(v) or "-", v.verdict) for v in limits)
        yield Table("limits", COLUMNS["limits"], tuple(rows), ())
    if others:
        yield _changes(sorted(others, key=rank), called)


def _called(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Return a short name of each row, by its id: its case, its names, and what tells it apart."""
    from gpumap.judge.limits import split_id

    rows = {v.id: split_id(v.id) for v in verdicts if v.id}
    keys = {key for _, found in rows.values() for key in found if key != _NAMES}
    apart = sorted(key for key in keys if len({found.get(key) for _, found in rows.values()}) > 1)
    named = {
        id_: " ".join((head, *_names(found), *(f"{k}={found[k]}" for k in apart if k in found)))
        for id_, (head, found) in rows.items()
    }
    count = Counter(named.values())  # names that are alike when cut have their ids
    return {id_: text for id_, text in named.items() if count[text] == 1}


def _names(found: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of a row, if it has any, for a cell."""
    if names := found.get(_NAMES):
        every = re.split(r"([+>])", names)
        count = (len(every) + 1) // 2
        short = "".join(middle(unquote(part), NAME) for part in every)
        yield short if count <= _WRITTEN else f"{count} devices"


def _row(verdict: Verdict, called: Mapping[str, str]) -> str:
    return called.get(verdict.id or "", verdict.id or "-")


def _changes(verdicts: Sequence[Verdict], called: Mapping[str, str]) -> Table:
    from gpumap.judge.pairs import share

    rows = [
        (_row(v, called), v.metric, figure(v) or "-", estimate(v.relative), v.verdict)
        for v in verdicts
    ]
    limits = {v.threshold for v in verdicts if v.threshold is not None}
    title = f"changes, at a threshold of {share(max(limits))}" if limits else "changes"
    counts = Counter[str](verdict.verdict for verdict in verdicts)
    words = (word for word in (*_WORST, "skipped") if counts[word])
    total = ", ".join(_counted(counts[word], word) for word in words)  # 2 regressions, 64 pass
    remarks = (total, *_reasons(verdicts))
    return Table(title, COLUMNS["changes"], tuple(rows), remarks).full()


def rank(verdict: Verdict) -> int:
    """Return where a change stands: what is worst first; of one word as they come."""
    return _WORST.index(verdict.verdict) if verdict.verdict in _WORST else len(_WORST)


def _counted(count: int, word: str) -> str:
    return counted(count, word) if word in _NOUNS else f"{count} {word}"


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield each reason once, with the number of those that it holds for."""
    from gpumap.judge.compare import why

    reasons = Counter((v.verdict, why(v)) for v in verdicts if why(v) is not None)
    yield from (f"{_counted(count, word)}: {why_}" for (word, why_), count in reasons.items())
    if any(v.relative for v in verdicts):
        yield f"{_CONTROL}: new/base of the row over that of the control product beside it"
