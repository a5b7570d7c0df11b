"""Measured rows as tables of text, for every format that shows tables."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from gpumap.bench.registry import BenchmarkSpec, find, how, sizes
from gpumap.model import replace
from gpumap.report.table import Table
from gpumap.results import cells
from gpumap.text import listed, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Case, Fit, Measurement, Report

_ODD = "odd-pair"  # a cause
_NAMED = 3  # skipped rows that are named one by one


def tables(report: Report, *, verbose: bool = False) -> Iterator[Table]:
    """Yield a table for each benchmark, backend and size, then what follows from rows.

    `verbose`: with every row and column.
    """
    share = f"{report.settings.get('confidence', 0.95) * 100:g}%"
    requested = shown(report)
    mixed = any("+" in row.case.backend for row in requested)

    for whole in (False, True) if verbose else (False,):
        for (bench, title), found in groupby(requested, partial(_heading, mixed, whole)):
            spec, group = find(bench), list(found)
            if spec.side_by_side and not whole:
                yield _copies(title, group, spec, report.fits, verbose=verbose)
            elif whole == verbose:
                yield _measured(title, group, spec, share, verbose=verbose)
    yield from _following(report, requested, verbose=verbose)


def _following(report: Report, rows: Sequence[Measurement], *, verbose: bool) -> Iterator[Table]:
    """Yield what follows from rows; a module of tables is loaded where there are such rows."""
    if any(row.case.ordered for row in rows):
        from gpumap.results import copies

        yield from copies.matrix_tables(rows, whole=verbose)
    if any(row.case.swept for row in report.measurements):
        from gpumap.results import models

        yield from models.break_evens(report.measurements)


def _measured(
    title: str, rows: Sequence[Measurement], spec: BenchmarkSpec, share: str, *, verbose: bool
) -> Table:
    """Return the table of rows of one benchmark, size and backend."""
    shown_rows = cells.shown(rows, verbose=verbose)
    common, heads, lines = cells.table(shown_rows, spec.columns, share, verbose=verbose)
    count = max(len(row.case.names) for row in rows)
    each = f"{count} x " if spec.products and count > 1 else ""
    what, comma, backend = title.rpartition(", ")
    title = f"{each}{''.join((what, *(f', {text}' for text in common)))}{comma}{backend}"
    return Table(title, heads, lines, tuple(_remarks(rows, spec, verbose=verbose)))


def _copies(
    backend: str,
    rows: Sequence[Measurement],
    spec: BenchmarkSpec,
    fits: Sequence[Fit],
    *,
    verbose: bool,
) -> Table:
    """Return the table of all sizes of copies; with -v the tables of sizes have the remarks."""
    from gpumap.results import copies

    table = copies.table(rows, fits, backend)
    remarks = () if verbose else _remarks(rows, spec, verbose=False)
    return replace(table, remarks=(*table.remarks, *remarks))


def shown(report: Report) -> list[Measurement]:
    """Return the rows of tables: none of a size sweep."""
    return [row for row in report.measurements if tabled(row.case) and not row.case.swept]


def tabled(case: Case) -> bool:
    """Return whether a case has a row in a table."""
    spec = find(case.bench)
    return bool(spec.columns) and case.name not in spec.aside


def _heading(mixed: bool, whole: bool, row: Measurement) -> tuple[str, str]:  # noqa: FBT001
    case, spec = row.case, find(row.case.bench)
    backend = "mixed" if mixed else case.backend
    if spec.side_by_side and not whole:
        return case.bench, backend
    return case.bench, f"{spec.title(case) if spec.title else case.bench}, {backend}"


def _remarks(group: Sequence[Measurement], spec: BenchmarkSpec, *, verbose: bool) -> Iterator[str]:
    yield from spec.legend(group) if spec.legend and verbose else ()
    yield from () if verbose else cells.solo_rates(group)
    yield from _explanations(group, verbose=verbose)
    yield from cells.flags(group)
    yield from _reasons(group)


def _explanations(group: Sequence[Measurement], *, verbose: bool) -> Iterator[str]:
    """Yield why rows stay below what could be: each cause once, with its rows and one's figures.

    These are of the largest size, as the headline's are.
    """
    found: dict[str, dict[str, list[str]]] = {}
    explained = [row for row in group if row.explanation is not None]
    if not verbose:
        explained.sort(key=lambda row: -max(map(int, sizes(row.case).values()), default=0))
    for row in explained:
        if (why := row.explanation) is not None and why.cause != _ODD:  # below its matrix
            texts = found.setdefault(why.cause, {})
            texts.setdefault(why.text, []).append(row.case.name)
    for cause, texts in found.items():
        if len(texts) == 1 or verbose:
            for text, cases in texts.items():
                yield f"{', '.join(dict.fromkeys(cases))}: {cause}: {text}"
        else:
            text, (case, *_) = next(iter(texts.items()))
            cases = list(dict.fromkeys(name for names in texts.values() for name in names))
            yield f"{listed(cases, _NAMED)}: {cause}: {case}: {text}"


def _reasons(group: Sequence[Measurement]) -> Iterator[str]:
    """Yield each reason for which rows were skipped or failed, once, with the rows it holds for."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in group:
        if row.status != "ok" and row.reason is not None:
            what = " ".join((row.case.name, *map(str, how(row.case).values())))
            where = f"{what} on {short(row.case)}"
            found.setdefault((row.status, row.reason.text), []).append(where)
    for (status, text), all_ in found.items():
        cases = list(dict.fromkeys(all_))
        many = len(cases) > _NAMED and status == "skipped"
        yield f"{status}: {f'{len(all_)} rows' if many else ', '.join(cases)}: {text}"
