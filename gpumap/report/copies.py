"""Copies in one table: their sizes side by side, the largest first, and what the model makes of it.

Copies that are waited for, one at a time; -v has those in a queue too. Of many devices a row has
the range, and a remark below names those that fall out of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpumap import units
from gpumap.model import Fit, Measurement
from gpumap.report.cells import rates, ratio, spread, trust
from gpumap.report.table import Table, listed
from gpumap.text import middle, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import Estimate

    Lines = tuple[tuple[str, ...], ...]

EACH = 4  # devices that have a row of their own
_TWO = 2  # names, whose pairs have rows
_SIZES = 3  # side by side: of more the largest and the smallest
_NAMED = 3
_ODD = 0.9  # of the median, or 1/0.9 of it
_WORST = ("!", "?", "~", "o", "-")  # first signs of a row's trust
_MODEL = {"latency": "latency", "bandwidth": "peak_bandwidth"}
_HALF = "n1/2"
_HOST = "device"  # the memory of copies that do not touch the host's


@dataclass(frozen=True, slots=True)
class _Copy:
    """Copies of one way on one place: its rows by their bytes, and their model."""

    what: str
    rows: Mapping[int, Measurement]
    fit: Fit | None

    @property
    def trust(self) -> str:
        return min(map(trust, self.rows.values()), key=lambda word: _WORST.index(word[0]))

    @property
    def ordered(self) -> bool:
        return next(iter(self.rows.values())).case.ordered

    def time(self, nbytes: int) -> Estimate | None:
        return self.rows[nbytes].metrics.get("time") if nbytes in self.rows else None

    def rate(self, nbytes: int) -> Estimate | None:
        return self.rows[nbytes].metrics.get("bandwidth") if nbytes in self.rows else None

    def modelled(self, metric: str) -> Estimate | None:
        return self.fit.metrics.get(metric) if self.fit is not None and self.fit.fits else None


def table(rows: Sequence[Measurement], fits: Sequence[Fit], backend: str) -> Table:
    """Return the table of copies that one backend drives, or several mixed."""
    alone = [row for row in rows if _alone(row)]
    host = {str(row.case.params["memory"]) for row in alone} - {_HOST}
    way = "between host and device" if host else "between devices"
    memory = f", {middle(next(iter(host)), 16)} memory" if len(host) == 1 else ""
    every = list(_copies(alone, fits, several=len(host) > 1))
    sizes = sorted({nbytes for copy in every for nbytes in copy.rows}, reverse=True)
    shown = sizes if len(sizes) <= _SIZES else [sizes[0], sizes[-1]]
    ways = list(dict.fromkeys(copy.what for copy in every))
    names = {name for row in rows for name in row.case.names}
    if len(names) > EACH:
        found = [[copy for copy in every if copy.what == way] for way in ways]
        heads, lines = _ranges(found, shown, len(names))
        remarks = [text for group in found for text in _odd(group, shown[0])]
    else:  # pairs of three names and more have a matrix
        whole = [copy for copy in every if len(names) <= _TWO or not copy.ordered]
        heads, lines = _each(whole, shown)
        remarks = []
    if len(shown) < len(sizes):
        remarks.append(f"the largest and the smallest of {len(sizes)} sizes: -v shows all")
    remarks += _at_once(rows, several=len(host) > 1)
    return Table(f"copies {way}{memory}, {backend}", heads, lines, tuple(remarks))


def _alone(row: Measurement) -> bool:
    """Return whether a row is of one copy, waited for, that has a place in the table."""
    params = row.case.params
    timed = params.get("mode") == "sync" and params.get("pattern") != "together"
    return row.status != "skipped" and timed and "bytes" in params


def _copies(rows: Iterable[Measurement], fits: Iterable[Fit], *, several: bool) -> Iterator[_Copy]:
    models = {_key(fit): fit for fit in fits}
    found: dict[tuple[str, ...], dict[int, Measurement]] = {}
    for row in rows:
        found.setdefault(_key(row), {})[int(row.case.params["bytes"])] = row
    for key, sized in found.items():
        name, memory, *_ = key
        yield _Copy(_what(name, memory, several=several), sized, models.get(key))


def _what(name: str, memory: str, *, several: bool) -> str:
    """Return a way, with the kind of host memory where there are several."""
    return f"{name} {middle(memory, 16)}" if several and memory != _HOST else name


def _key(found: Measurement | Fit) -> tuple[str, ...]:
    case = found.case
    params = (str(case.params.get(key)) for key in ("memory", "mode"))
    return case.name, *params, case.backend, *case.names


def _each(every: Sequence[_Copy], sizes: Sequence[int]) -> tuple[tuple[str, ...], Lines]:
    """Return headings, and a line for each copy."""
    if not every:
        return (), ()
    columns: list[tuple[str, list[str]]] = [
        ("copy", [copy.what for copy in every]),
        ("on", [short(next(iter(copy.rows.values())).case) for copy in every]),
        *((amount(size), [spread(copy.time(size)) for copy in every]) for size in sizes),
    ]
    if any(copy.fit for copy in every):
        columns += [
            (head, [_modelled(copy, metric) for copy in every]) for head, metric in _MODEL.items()
        ]
        columns.append((_HALF, [_half(copy) for copy in every]))
    else:
        columns.append(rates([copy.rate(sizes[0]) for copy in every], "bandwidth", "B/s"))
    columns.append(("trust", [copy.trust for copy in every]))
    return tuple(head for head, _ in columns), tuple(zip(*(c for _, c in columns), strict=True))


def _modelled(copy: _Copy, metric: str) -> str:
    if copy.fit is None:
        return "-"
    return spread(copy.modelled(metric)) if copy.fit.fits else "no fit"


def _half(copy: _Copy) -> str:
    figure = copy.modelled("n_half")
    return "-" if figure is None else spread(figure).partition(" ±")[0]


def _ranges(
    groups: Sequence[Sequence[_Copy]], sizes: Sequence[int], names: int
) -> tuple[tuple[str, ...], Lines]:
    """Return headings, and a line for each way: the lowest and the highest of all devices."""
    metrics = _MODEL if any(copy.fit for group in groups for copy in group) else {}
    heads = ("copy", "on", *map(amount, sizes), *(metrics or ("bandwidth",)), "trust")
    lines = []
    for group in groups:
        noun = "pairs" if len(group) > names else "devices"
        times = (ranged(copy.time(size) for copy in group) for size in sizes)
        models = (ranged(copy.modelled(metric) for copy in group) for metric in metrics.values())
        rate = () if metrics else (ranged(copy.rate(sizes[0]) for copy in group),)
        worst = min((copy.trust for copy in group), key=lambda word: _WORST.index(word[0]))
        count = sum(copy.trust == worst for copy in group)
        few = f" {count} of {len(group)}" if worst != "ok" and count < len(group) else ""
        cells = (group[0].what, f"{len(group)} {noun}", *times, *models, *rate, f"{worst}{few}")
        lines.append(cells)
    return heads, tuple(lines)


def ranged(figures: Iterable[Estimate | None]) -> str:
    """Return the lowest and the highest of some figures: ``24.8 to 25.4 µs``."""
    known = [figure for figure in figures if figure is not None]
    if not known:
        return "-"
    values = [figure.value for figure in known]
    first, last = units.together((min(values), max(values)), known[0].unit)
    number, blank, unit = first.partition(" ")
    about = "" if all(figure.has_interval for figure in known) else "~"
    return f"{about}{first}" if number == last else f"{about}{number} to {last}{blank}{unit}"


def _odd(group: Sequence[_Copy], size: int) -> Iterator[str]:
    """Yield which devices take clearly more or less than the others; pairs are in the matrix."""
    times = {copy.rows[size].case.names: time.value for copy in group if (time := copy.time(size))}
    if len(times) <= EACH or any(len(names) > 1 for names in times):
        return
    usual = median(times.values())
    odd = {n: t / usual for (n,), t in times.items() if not _ODD <= t / usual <= 1 / _ODD}
    told = [f"{middle(name, 16)} takes {share:.2f} times the median" for name, share in odd.items()]
    if told:
        yield f"{group[0].what}, {amount(size)}: {listed(told, _NAMED)}"


def _at_once(rows: Sequence[Measurement], *, several: bool) -> Iterator[str]:
    """Yield what several copies at once gain, of the largest size."""
    known = [row for row in rows if row.case.params.get("pattern") == "together"]
    largest = max((int(row.case.params["bytes"]) for row in known), default=0)
    gains: dict[str, dict[str, list[Measurement]]] = {}
    for row in known:
        if row.case.params["bytes"] == largest and "speedup" in row.metrics:
            many = len(row.case.names)
            what = (
                f"all devices at once against one device ({many} is ideal)"
                if many > 1
                else "both ways at once against one after the other (2 is ideal)"
            )
            way = _what(row.case.name, str(row.case.params["memory"]), several=several)
            gains.setdefault(what, {}).setdefault(way, []).append(row)
    for what, ways in gains.items():
        yield f"{what}: {'; '.join(_gained(way, found) for way, found in ways.items())}"


def _gained(way: str, rows: Sequence[Measurement]) -> str:
    if len(rows) > EACH:
        return f"{way} {ranged(row.metrics['speedup'] for row in rows)}"
    own = (f"{short(row.case)} " if len(row.case.names) == 1 else "" for row in rows)
    return (
        f"{way} {', '.join(f'{name}{ratio(row, ())}' for name, row in zip(own, rows, strict=True))}"
    )


def amount(nbytes: float) -> str:
    """Return a size without zeros that tell nothing: ``400 kB``, ``16 MiB``."""
    binary = nbytes >= 1024 and nbytes % 1024 == 0  # noqa: PLR2004 - a KiB
    text = units.memory(int(nbytes)) if binary else units.together((nbytes,), "B")[0]
    number, _, unit = text.partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"
