"""Rows as cells: figures with what they are worth, names that fit, and one word of trust."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.figures import estimate, spread
from gpumap.judge.inconclusive import too_few
from gpumap.text import NAME, listed, middle, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpumap.bench.registry import Column
    from gpumap.model import Case, Check, Estimate, Measurement

_RATES = {"rate": "FLOP/s", "bandwidth": "B/s"}
_VERBOSE = ("of peak", "overlap", "error", "check", "route", "status")
_RATIO = "speed-up"
_FLAGGED = 4  # rows that a flag's line names
_NOISY = "unstable"  # the flag of a row of more than one value
_DO = {  # what a reader does about rows that are not ok
    "few": "fewer than 6 samples, no interval: raise --budget",
    "noisy": "the samples drift or have two modes: repeat on an idle machine",
}


def shown(rows: Sequence[Measurement], *, verbose: bool) -> list[Measurement]:
    """Return the rows of a table: those of devices alone only where there are no others."""
    found = [row for row in rows if row.status != "skipped"]
    chosen = [row for row in found if not _is_solo(row) or row.status != "ok"]
    return found if verbose or not chosen else chosen


def _is_solo(row: Measurement) -> bool:
    return row.case.role == "solo"


def table(
    rows: Sequence[Measurement], columns: Iterable[str | Column], share: str, *, verbose: bool
) -> tuple[list[str], tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return what all rows have in common, and the headings and the cells of what tells them apart.

    Args:
        rows: of one table.
        columns: as the benchmark has them.
        share: the confidence of intervals, in percent.
        verbose: with every column.
    """
    common: list[str] = []
    found: list[tuple[str, list[str]]] = []
    for column in columns:
        name = column if isinstance(column, str) else column.name
        if not verbose and (name in _VERBOSE if isinstance(column, str) else column.verbose):
            continue
        head, cells = _column(column, rows)
        if not isinstance(column, str) and column.param and len({*cells}) == 1 and not verbose:
            common += [] if cells[0] == "-" else [f"{name} {cells[0]}"]
        elif any(cell != "-" for cell in cells):  # a column of dashes tells nothing
            found.append((f"{_RATIO} [{share} CI]" if head == _RATIO else head, cells))
    heads = tuple(head for head, _ in found)
    return common, heads, tuple(zip(*(cells for _, cells in found), strict=True))


def _column(column: str | Column, rows: Sequence[Measurement]) -> tuple[str, list[str]]:
    """Return the heading of a column, and its cells."""
    if isinstance(column, str) and column in _RATES:
        return rates([row.metrics.get(column) for row in rows], column, _RATES[column])
    if isinstance(column, str) and column == _RATIO:
        references = {row.case.against for row in rows}
        return column, [ratio(row, references) for row in rows]
    if isinstance(column, str):
        return column, list(map(_CELLS[column], rows))
    return column.name, [_own(row, column) for row in rows]


def _own(row: Measurement, column: Column) -> str:
    """Return a cell of a column that other tables do not have."""
    if column.cell is not None:
        return column.cell(row)
    if column.param is not None:
        return column.value(row.case)
    if column.metric == "speedup":
        return ratio(row, ())
    return spread(row.metrics.get(column.metric or ""))


def trust(row: Measurement) -> str:
    """Return what a reader may do with a row's figures: a sign and a word."""
    if row.status != "ok":
        return f"! {row.status}"
    if row.time is None:
        return "-"
    if too_few(row):
        return "? few"
    return "~ noisy" if _NOISY in row.flags else "ok"


def rates(figures: Sequence[Estimate | None], head: str, unit: str) -> tuple[str, list[str]]:
    """Return figures in one unit, which is their heading; with ``~`` those of few samples."""
    known = [f.value for f in figures if f is not None and not f.impossible]
    if not known:
        return head, [estimate(figure) for figure in figures]
    unit, texts = units.column(known, unit)
    left = iter(texts)
    return unit, [
        estimate(f) if f is None or f.impossible else f"{'' if f.has_interval else '~'}{next(left)}"
        for f in figures
    ]


def ratio(row: Measurement, references: Iterable[str | None]) -> str:
    """Return a speed-up with its interval, or that others are relative to the row."""
    figure = row.metrics.get("speedup")
    if figure is None:
        return "1 (reference)" if row.case.id in references else "-"
    if figure.impossible or figure.has_interval:
        return estimate(figure)
    n = len(row.samples.seconds) if row.samples else 0
    return f"{units.about(figure.value, '1')} ({units.counted(n, 'sample')})"


def _of_ideal(row: Measurement) -> str:
    """Return a speed-up as a share of its ideal, and that: ``97% of 1.96``; no share of doubts."""
    found = row.metrics
    ideal, gain = found.get("ideal_balanced") or found.get("ideal"), found.get("speedup")
    share, known = found.get("efficiency"), gain is not None and gain.has_interval
    if gain is None or not known or share is None or not share.has_interval:
        return "-"
    if ideal is None or not ideal.value > 0.0:
        return f"{share.value:.0%}"
    return f"{gain.value / ideal.value:.0%} of {units.single(ideal.value, '1')}"


def _checked(check: Check | None) -> str:
    if check is None:
        return "-"
    if check.nbytes is not None:
        right = "all bytes" if check.method == "bytes" else check.method
        return right if check.passed else f"wrong at byte {check.first_bad_offset}"
    return f"{check.max_error:.3f} < {check.bound:g}" if check.passed else "wrong"


# Columns that tables have in common.
_CELLS: dict[str, Callable[[Measurement], str]] = {
    "case": lambda row: row.case.name,
    "on": lambda row: short(row.case),
    "time": lambda row: spread(row.time),
    "of ideal": _of_ideal,
    "n": lambda row: str(len(row.samples.seconds)) if row.samples else "-",
    "trust": trust,
    "of peak": lambda row: f"{row.ceiling.share:.0%}" if row.ceiling else "-",
    "route": lambda row: row.route or "-",
    "status": lambda row: " ".join(row.flags) or row.status,
    "error": lambda row: _checked(row.check),
    "check": lambda row: _checked(row.check),
    "overlap": lambda row: estimate(row.metrics.get("overlap")),
}


def solo_rates(rows: Iterable[Measurement]) -> Iterator[str]:
    """Yield how fast each device is with its own part, in a line: the range, and the slowest."""
    solo = [r for r in rows if _is_solo(r) and r.status == "ok" and "rate" in r.metrics]
    found = {row.case.names[0]: row.metrics["rate"] for row in solo}
    values = sorted(figure.value for figure in found.values())
    by_cpu_time = {"cpu" in row.flags for row in solo}
    if len(values) < 2 or len(by_cpu_time) > 1:  # noqa: PLR2004 - a range, of one clock
        return
    unit, texts = units.column(values, "FLOP/s")
    few_ = "" if all(figure.has_interval for figure in found.values()) else "~"
    slowest = min(found, key=lambda name: found[name].value)
    which = f"; slowest {middle(slowest, NAME)} ({values[0] / values[-1]:.2f} of the fastest)"
    same = texts[0] == texts[-1]
    ends = f"{few_}{texts[0]}" if same else f"{few_}{texts[0]} to {texts[-1]}"
    yield f"alone: {ends} {unit}{' each' if same else which}"


def flags(rows: Sequence[Measurement]) -> Iterator[str]:
    """Yield what to do about rows that are not ok, and what each other flag means, once."""
    doubts = {word: [row for row in rows if trust(row).endswith(word)] for word in _DO}
    lines = [f"{word}: {_which(few)}: {_DO[word]}" for word, few in doubts.items() if few]
    if lines:
        yield "; ".join(lines)
    found = dict.fromkeys(flag for row in rows for flag in row.flags if flag != _NOISY)
    if not found:
        return
    from gpumap.explain import read

    summaries = {topic.name: topic.summary for topic in read("flags") if topic.kind == "flag"}
    for flag in found:
        flagged = (row for row in rows if flag in row.flags)
        yield f"{_which(flagged)}: {flag}: {summaries.get(flag, flag)}"


def _which(rows: Iterable[Measurement]) -> str:
    names = (f"{r.case.name} {short(r.case)}" if _is_solo(r) else r.case.name for r in rows)
    return listed([*dict.fromkeys(names)], _FLAGGED)


def named(case: Case) -> str:
    """Return the names that a case ran on, with an arrow where they have an order."""
    return ("->" if case.ordered else "+").join(case.names)
