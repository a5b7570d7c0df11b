"""Copies between devices as a matrix: what goes from the name of a row to that of a column.

One for each backend, of the largest copies that are waited for; of each size with -v. Of many
devices there is the range of all pairs. Pairs that fall out of their group are named below it.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.report.table import Table
from gpumap.text import NAME, narrow, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.model import Measurement

    # From one name to another.
    Pairs = Mapping[tuple[str, str], Measurement]

ODD = "odd-pair"
_FEWEST = 3  # pairs; or two devices
_NAMES = 16  # of a chart
_TABLED = 12  # names of a table
_ODD = 8  # odd pairs that are named one by one
_ROUTES = {"peer": "P", "staged": "S", "same": "="}
_LEGEND = {
    "P": "P: peer, directly",
    "S": "S: staged, by way of the host",
    "=": "=: in one device",
    "!": "!: odd",
}
_NONE = "-"
_TWO = 2
_ROOM = 76  # columns for the names of a table


def tables(rows: Sequence[Measurement], *, whole: bool = True) -> Iterator[Table]:
    """Yield the matrices of the rows of copies from device to device.

    Without `whole` those of the largest size, of three names or more: two have rows of their own.
    """
    found = list(_matrices(rows))
    sizes = [int(group[0].case.params["bytes"]) for _, group, _ in found]
    for size, (title, group, pairs) in zip(sizes, found, strict=True):
        if whole or (size == max(sizes) and len(_every(pairs)) > _TWO):
            table = _matrix if len(_every(pairs)) <= _TABLED else _summary
            yield table(group, pairs, title)


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


def _matrix(group: Sequence[Measurement], pairs: Pairs, title: str) -> Table:
    names = _every(pairs)
    unit, shown = cells(pairs)
    odd = {row.case.names for row in group if _is_odd(row) and row.case.params["mode"] == "sync"}
    marked = {pair: f"{text.rstrip(''.join(_LEGEND))}!" if pair in odd else text
              for pair, text in shown.items()}  # fmt: skip
    short = {name: narrow(name, min(NAME, _ROOM // len(names))) for name in names}
    return Table(
        f"{title}, sync: {unit} from row to column",
        (unit, *short.values()),
        tuple((short[one], *(marked.get((one, other), _NONE) for other in names)) for one in names),
        (*_legend(marked), *_odd(group)),
        of_names=True,
    )


def _summary(group: Sequence[Measurement], pairs: Pairs, title: str) -> Table:
    """Return the range of all pairs, for more names than a matrix has room for."""
    figures = [f for row in pairs.values() if (f := row.metrics.get("bandwidth")) is not None]
    values = sorted(figure.value for figure in figures)
    routes = Counter(row.route or "unknown" for row in pairs.values() if row.status == "ok")
    remarks = [f"{len(values)} of {len(pairs)} pairs measured: by route "
               + ", ".join(f"{count} {route}" for route, count in routes.items())]  # fmt: skip
    if values:
        usual, low, high = units.together((median(values), values[0], values[-1]), "B/s")
        remarks.append(f"median {usual}, all from {low} to {high}")
    return Table(f"{title}, sync", (), (), (*remarks, *_odd(group)))


def cells(pairs: Pairs) -> tuple[str, dict[tuple[str, str], str]]:
    """Return the unit, that of the smallest figure, and the text of each cell."""
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


def _legend(cells: Mapping[tuple[str, str], str]) -> Iterator[str]:
    used = {text[-1] for text in cells.values()}
    if said := [words for letter, words in _LEGEND.items() if letter in used]:
        yield "; ".join(said)


def _is_odd(row: Measurement) -> bool:
    return row.explanation is not None and row.explanation.cause == ODD


def _odd(group: Sequence[Measurement]) -> Iterator[str]:
    """Yield each pair that falls out of its group, in either mode."""
    found = [(row, why) for row in group if (why := row.explanation) and why.cause == ODD]
    for row, why in found[:_ODD]:
        yield f"{why.cause}, {row.case.params['mode']}: {printable(why.text)}"
    if len(found) > _ODD:
        yield f"and {len(found) - _ODD} more of {ODD}: --format json has them all"


def _amount(nbytes: str) -> str:
    return f"{nbytes} {'byte' if nbytes == '1' else 'bytes'}"
