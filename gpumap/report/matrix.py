"""Copies between devices as a matrix: what goes from the name of a row to that of a column.

One for each size and backend, of the copies that are waited for. No name holds "->", so no name is
taken for the heading of another column. Pairs that fall out of their group are named below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.escape import printable
from gpumap.report.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.model import Measurement

    # From one name to another.
    Pairs = Mapping[tuple[str, str], Measurement]

ODD = "odd-pair"
_FEWEST = 3  # pairs; or two devices
_NAMES = 16
_COLUMNS = 8  # as many stand side by side in 80 columns
_ODD = 8  # odd pairs that are named one by one
_ROUTES = {"peer": "P", "staged": "S", "same": "="}
_LEGEND = {"P": "P: peer, directly", "S": "S: staged, by way of the host", "=": "=: in one device"}
_NONE = "-"


def tables(rows: Sequence[Measurement]) -> Iterator[Table]:
    """Yield the matrices of the rows of copies from device to device, each in parts that fit."""
    for title, group, pairs in _matrices(rows):
        yield from _matrix(group, pairs, title)


def matrices(rows: Sequence[Measurement]) -> Iterator[tuple[str, Pairs]]:
    """Yield the same as pairs under a title, of no more names than fit."""
    for title, _, pairs in _matrices(rows):
        names = named(pairs)
        yield title, {pair: row for pair, row in pairs.items() if set(pair) <= set(names)}


def named(pairs: Pairs) -> list[str]:
    """Return the names that have a row and a column."""
    return _every(pairs)[:_NAMES]


def _every(pairs: Pairs) -> list[str]:
    return list(dict.fromkeys(name for pair in pairs for name in pair))


def _matrices(
    rows: Sequence[Measurement],
) -> Iterator[tuple[str, Sequence[Measurement], Pairs]]:
    """Yield a title, the copies it is of, and of them the pairs that are waited for."""
    copies = [row for row in rows if _is_pair(row) and row.status != "skipped"]
    mixed = any("+" in row.case.backend for row in copies)
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for row in copies:
        key = str(row.case.params["bytes"]), "mixed" if mixed else row.case.backend
        groups.setdefault(key, []).append(row)
    for (nbytes, backend), group in groups.items():
        pairs = {
            (row.case.names[0], row.case.names[1]): row
            for row in group
            if row.case.params["mode"] == "sync"
        }
        devices = {binding.device.id for row in pairs.values() for binding in row.case.bindings}
        if len(devices) > 1 or len(pairs) >= _FEWEST:
            yield f"device to device, {_amount(nbytes)}, {backend}", group, pairs


def _is_pair(row: Measurement) -> bool:
    """Return whether a row is of a copy from one name to another; a saved one may be anything."""
    keys = row.case.params.keys() >= {"bytes", "mode"}
    return row.case.name == "d2d" and len(row.case.names) == 2 and keys  # noqa: PLR2004 - a pair


def _matrix(group: Sequence[Measurement], pairs: Pairs, title: str) -> Iterator[Table]:
    every, names = _every(pairs), named(pairs)
    unit, shown = cells({p: row for p, row in pairs.items() if set(p) <= set(names)})
    head = f"{title}, sync: {unit} from row to column"
    for start in range(0, len(names), _COLUMNS):
        part = names[start : start + _COLUMNS]
        last = start + _COLUMNS >= len(names)
        remarks = (*_legend(shown), *_left_out(every), *_odd(group)) if last else ()
        yield Table(head, ("->", *(f"->{printable(name)}" for name in part)),
                    tuple(_row(name, part, shown) for name in names), tuple(remarks))  # fmt: skip
        head = f"{title}, sync, more columns"


def cells(pairs: Pairs) -> tuple[str, dict[tuple[str, str], str]]:
    """Return the unit, that of the smallest figure, and what stands in each cell."""
    figures = {pair: row.metrics.get("bandwidth") for pair, row in pairs.items()}
    values = {pair: figure.value for pair, figure in figures.items() if figure is not None}
    smallest = min(values.values(), default=0.0)
    first, *texts = units.together((smallest, *values.values()), "B/s")
    shown = dict(zip(values, texts, strict=True))
    found = {pair: f"{shown[pair]}{_route(row)}" if pair in shown else row.status
             for pair, row in pairs.items()}  # fmt: skip
    return first.rpartition(" ")[2], found


def _route(row: Measurement) -> str:
    return _ROUTES.get(row.route or "", "")


def _row(
    name: str, columns: Sequence[str], cells: Mapping[tuple[str, str], str]
) -> tuple[str, ...]:
    return printable(name), *(cells.get((name, other), _NONE) for other in columns)


def _legend(cells: Mapping[tuple[str, str], str]) -> Iterator[str]:
    used = {text[-1] for text in cells.values()}
    if said := [words for letter, words in _LEGEND.items() if letter in used]:
        yield "; ".join(said)


def _left_out(every: Sequence[str]) -> Iterator[str]:
    if len(every) > _NAMES:
        yield f"of {len(every)} names the first {_NAMES}: --format json has every pair"


def _odd(group: Sequence[Measurement]) -> Iterator[str]:
    """Yield each pair that falls out of its group, in either mode."""
    found = [(row, why) for row in group if (why := row.explanation) and why.cause == ODD]
    for row, why in found[:_ODD]:
        yield f"{why.cause}, {row.case.params['mode']}: {printable(why.text)}"
    if len(found) > _ODD:
        yield f"and {len(found) - _ODD} more of {ODD}: --format json has them all"


def _amount(nbytes: str) -> str:
    return f"{nbytes} {'byte' if nbytes == '1' else 'bytes'}"
