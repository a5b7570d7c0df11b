"""Copies as tables: their sizes side by side, and pairs of devices as a matrix.

Copies that are waited for, one at a time; -v has those in a queue too. A matrix has what goes from
the name of a row to that of a column: one for each backend, of the largest copies that are waited
for; of each size with -v. Pairs that fall out of their group are named below it.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from gpumap import units
from gpumap.bench.keys import CopyKey
from gpumap.figures import spread
from gpumap.report.table import Table
from gpumap.results.cells import rates, ratio, trust
from gpumap.text import NAME, middle, short
from gpumap.units import amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.model import Case, Estimate, Explanation, Fit, Measurement

    Lines = tuple[tuple[str, ...], ...]

    # From one name to another.
    Pairs = Mapping[tuple[str, str], Measurement]
    Matrix = tuple[int, str, Sequence[Measurement], Pairs]


_SIZES = 3  # side by side: of more the largest and the smallest
_WORST = ("!", "?", "~", "o", "-")  # first signs of a row's trust
_MODEL = {"latency": "latency", "bandwidth": "peak_bandwidth"}
_HALF = "n1/2"
_HOST = "device"  # the memory of copies that do not touch the host's


class _Copy(NamedTuple):
    """Copies of one way on one place: its rows by their bytes, and their model."""

    what: str
    rows: Mapping[int, Measurement]
    fit: Fit | None

    @property
    def trust(self) -> str:
        return min(map(trust, self.rows.values()), key=lambda word: _WORST.index(word[0]))

    @property
    def case(self) -> Case:
        return next(iter(self.rows.values())).case

    def figure(self, metric: str, nbytes: int) -> Estimate | None:
        return self.rows[nbytes].metrics.get(metric) if nbytes in self.rows else None

    def modelled(self, metric: str) -> str:
        if self.fit is None:
            return "-"
        return spread(self.fit.metrics.get(metric)) if self.fit.fits else "no fit"


def table(rows: Sequence[Measurement], fits: Sequence[Fit], backend: str) -> Table:
    """Return the table of copies that one backend drives, or several mixed."""
    alone = [row for row in rows if _alone(row)]
    host = {CopyKey.of(row.case).memory for row in alone} - {_HOST}
    way = "between host and device" if host else "between devices"
    memory = f", {next(iter(host))} memory" if len(host) == 1 else ""
    every = list(_copies(alone, fits, several=len(host) > 1))
    sizes = sorted({nbytes for copy in every for nbytes in copy.rows}, reverse=True)
    shown = sizes if len(sizes) <= _SIZES else [sizes[0], sizes[-1]]
    names = {name for row in rows for name in row.case.names}
    # pairs of three names and more have a matrix
    whole = [copy for copy in every if len(names) <= _PAIR or not copy.case.ordered]
    heads, lines = _each(whole, shown)
    remarks = []
    if len(shown) < len(sizes):
        remarks.append(f"the largest and the smallest of {len(sizes)} sizes: -v shows all")
    if any(copy.fit is not None and not copy.fit.fits for copy in whole):
        remarks.append("no fit: neither one line nor two describe its sizes: raise --budget")
    remarks += _at_once(rows, several=len(host) > 1)
    return Table(f"copies {way}{memory}, {backend}", heads, lines, tuple(remarks))


def _alone(row: Measurement) -> bool:
    """Return whether a row is of one copy, waited for, that has a place in the table."""
    copy = CopyKey.of(row.case)
    return row.status != "skipped" and copy.mode == "sync" and copy.pattern != "together"


def _copies(rows: Iterable[Measurement], fits: Iterable[Fit], *, several: bool) -> Iterator[_Copy]:
    models = {_key(fit): fit for fit in fits}
    found: dict[tuple[str, ...], dict[int, Measurement]] = {}
    for row in rows:
        found.setdefault(_key(row), {})[CopyKey.of(row.case).bytes] = row
    for which, sized in found.items():
        name, memory, *_ = which
        yield _Copy(_what(name, memory, several=several), sized, models.get(which))


def _what(name: str, memory: str, *, several: bool) -> str:
    """Return a way, with the kind of host memory where there are several."""
    return f"{name} {memory}" if several and memory != _HOST else name


def _key(found: Measurement | Fit) -> tuple[str, ...]:
    case = found.case
    copy = CopyKey.of(case)
    return case.name, copy.memory, copy.mode, case.backend, *case.names


def _each(every: Sequence[_Copy], sizes: Sequence[int]) -> tuple[tuple[str, ...], Lines]:
    """Return headings, and a line for each copy."""
    if not every:
        return (), ()
    found = [copy.figure("bandwidth", sizes[0]) for copy in every]
    rate, rated = rates(found, "bandwidth", "B/s")
    fitted, lines = any(copy.fit for copy in every), []
    for copy, speed in zip(every, rated, strict=True):
        times = (spread(copy.figure("time", size)) for size in sizes)
        models = (*map(copy.modelled, _MODEL.values()), copy.modelled("n_half").partition(" ±")[0])
        last = models if fitted else (speed,)
        lines.append((copy.what, short(copy.case), *times, *last, copy.trust))
    last_heads = (*_MODEL, _HALF) if fitted else (rate,)
    return ("copy", "on", *map(amount, sizes), *last_heads, "trust"), tuple(lines)


def _at_once(rows: Sequence[Measurement], *, several: bool) -> Iterator[str]:
    """Yield what several copies at once gain, of the largest size."""
    found = [(row, CopyKey.of(row.case)) for row in rows]
    known = [(row, copy) for row, copy in found if copy.pattern == "together"]
    largest = max((copy.bytes for _, copy in known), default=0)
    gains: dict[str, dict[str, list[Measurement]]] = {}
    for row, copy in known:
        if copy.bytes == largest and "speedup" in row.metrics:
            many = len(row.case.names)
            what = (
                f"all devices at once against one device ({many} is ideal)"
                if many > 1
                else "both ways at once against one after the other (2 is ideal)"
            )
            way = _what(row.case.name, copy.memory, several=several)
            gains.setdefault(what, {}).setdefault(way, []).append(row)
    for what, ways in gains.items():
        yield f"{what}: {'; '.join(_gained(way, found) for way, found in ways.items())}"


def _gained(way: str, rows: Sequence[Measurement]) -> str:
    own = (f"{short(row.case)} " if len(row.case.names) == 1 else "" for row in rows)
    return (
        f"{way} {', '.join(f'{name}{ratio(row, ())}' for name, row in zip(own, rows, strict=True))}"
    )


ODD = "odd-pair"
_FEWEST = 3  # pairs; or two devices
_TABLED = 12  # names of a table
_ODD_NAMED = 8  # odd pairs that are paired one by one
_ROUTES = {"peer": "P", "staged": "S", "same": "="}
_LEGEND = {
    "P": "P: peer, directly",
    "S": "S: staged, by way of the host",
    "=": "=: in one device",
    "!": "!: odd",
}
_NO_PAIR = "-"
_PAIR = 2
_ROOM = 76  # columns for the names of a table


def matrix_tables(rows: Sequence[Measurement], *, whole: bool = True) -> Iterator[Table]:
    """Yield the matrices of the rows of copies from device to device.

    Without `whole` those of the largest size, of three names or more: two have rows of their own.
    """
    found = list(matrices(rows))
    largest = max((nbytes for nbytes, *_ in found), default=0)
    for nbytes, title, group, pairs in found:
        if whole or (nbytes == largest and len(paired(pairs)) > _PAIR):
            table = _matrix if len(paired(pairs)) <= _TABLED else _summary
            yield table(group, pairs, title)


def paired(pairs: Pairs) -> list[str]:
    """Return the names that have a row and a column."""
    return list(dict.fromkeys(name for pair in pairs for name in pair))


def matrices(rows: Iterable[Measurement]) -> Iterator[Matrix]:
    """Yield a size and a title, the copies of both, and of them the pairs that are waited for."""
    ordered = (row for row in rows if row.case.ordered and len(row.case.names) == _PAIR)
    copies = [row for row in ordered if row.status != "skipped"]
    mixed = any("+" in row.case.backend for row in copies)
    groups: dict[tuple[int, str], list[Measurement]] = {}
    for row in copies:
        place = CopyKey.of(row.case).bytes, "mixed" if mixed else row.case.backend
        groups.setdefault(place, []).append(row)
    for (nbytes, backend), group in groups.items():
        pairs = {(row.case.names[0], row.case.names[1]): row for row in group if _waited(row)}
        devices = {binding.device.id for row in pairs.values() for binding in row.case.bindings}
        if len(devices) > 1 or len(pairs) >= _FEWEST:
            title = f"device to device, {units.counted(nbytes, 'byte')}, {backend}"
            yield nbytes, title, group, pairs


def _waited(row: Measurement) -> bool:
    return CopyKey.of(row.case).mode == "sync"


def _matrix(group: Sequence[Measurement], pairs: Pairs, title: str) -> Table:
    names = paired(pairs)
    unit, shown = pair_cells(pairs)
    odd = {row.case.names for row, _ in _outliers(group) if _waited(row)}
    marked = {pair: f"{text.rstrip(''.join(_LEGEND))}!" if pair in odd else text
              for pair, text in shown.items()}  # fmt: skip
    short = {name: middle(name, min(NAME, _ROOM // len(names))) for name in names}
    return Table(
        f"{title}, sync: {unit} from row to column",
        (unit, *short.values()),
        tuple(
            (short[one], *(marked.get((one, other), _NO_PAIR) for other in names)) for one in names
        ),
        (*_legend(marked), *_outlier_pairs(group)),
        right=(),
    )


def _summary(group: Sequence[Measurement], pairs: Pairs, title: str) -> Table:
    """Return the range of all pairs, for more names than a matrix has room for."""
    figures = (row.metrics.get("bandwidth") for row in pairs.values())
    values = sorted(figure.value for figure in figures if figure is not None)
    remarks = [f"{len(values)} of {len(pairs)} pairs measured"]
    if values:
        usual, low, high = units.same_prefix((median(values), values[0], values[-1]), "B/s")
        remarks.append(f"median {usual}, all from {low} to {high}")
    return Table(f"{title}, sync", (), (), (*remarks, *_outlier_pairs(group)))


def pair_cells(pairs: Pairs) -> tuple[str, dict[tuple[str, str], str]]:
    """Return the unit, that of the smallest figure, and the text of each cell."""
    figures = {pair: row.metrics.get("bandwidth") for pair, row in pairs.items()}
    values = {pair: figure.value for pair, figure in figures.items() if figure is not None}
    smallest = min(values.values(), default=0.0)
    first, *texts = units.same_prefix((smallest, *values.values()), "B/s")
    shown = dict(zip(values, texts, strict=True))
    found = {pair: shown[pair] + _ROUTES.get(row.route or "", "") if pair in shown else row.status
             for pair, row in pairs.items()}  # fmt: skip
    return first.rpartition(" ")[2], found


def _legend(pair_cells: Mapping[tuple[str, str], str]) -> Iterator[str]:
    used = {text[-1] for text in pair_cells.values()}
    if meanings := [words for letter, words in _LEGEND.items() if letter in used]:
        yield "; ".join(meanings)


def _outliers(group: Sequence[Measurement]) -> list[tuple[Measurement, Explanation]]:
    return [(row, why) for row in group if (why := row.explanation) and why.cause == ODD]


def _outlier_pairs(group: Sequence[Measurement]) -> Iterator[str]:
    """Yield each pair that falls out of its group, in either mode."""
    found = _outliers(group)
    for row, why in found[:_ODD_NAMED]:
        yield f"{why.cause}, {CopyKey.of(row.case).mode}: {why.text}"
    if len(found) > _ODD_NAMED:
        yield f"and {len(found) - _ODD_NAMED} more of {ODD}: --format json has them all"
