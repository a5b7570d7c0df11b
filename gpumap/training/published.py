"""Published tables of data-parallel training: read, computed anew from their cells, and predicted.

A table is CSV (RFC 4180) with a header; lines before it that begin with # name its source:

    network    what was trained; one of the presets is known by its name
    devices    how many, from 1 on
    train_s    seconds of training alone
    comm_s     seconds of the exchanges besides; empty where nothing was exchanged or reported
    batch      examples on each device in a step       (optional)
    examples   that the times are for                  (optional)
    bytes      that each device exchanges in a step    (optional: a preset's are known, in float32)

A row of the table is a network at a batch, ``AlexNet-128b``. Its speed-up is the time of one device
over train_s + comm_s, its efficiency that over the number of devices; both are computed from the
cells, whatever was printed next to them. What is above 1 is labelled, never clipped.

The model of the exchanges is a fixed cost for each and 2 (n - 1) / n of the bytes over a bandwidth.
Each row is predicted by a line that was fitted to all others, at the smallest two numbers of
devices that exchange at all. Where more devices take longer than that by over 15 % in every row,
they need a second, slower link, such as that between two sockets.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING

from gpumap.comm.algorithms import bus_factor
from gpumap.dtypes import np
from gpumap.engine.fit import FITS, straight
from gpumap.errors import Diagnostic, SourceError
from gpumap.files import read_text
from gpumap.model import Cell, Estimate, Exchanged, LeftOut, OtherLink, Published, replace
from gpumap.text import fix
from gpumap.training.network import PARAMETERS
from gpumap.training.network import nbytes as bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_COLUMNS = ("network", "devices", "train_s", "comm_s", "batch", "examples", "bytes")
_NEEDED = _COLUMNS[:3]
_LIMIT = 2**20  # bytes of a table
_MOST = 10_000  # cells
_WHOLE = re.compile(r"[1-9][0-9]{0,15}", re.ASCII), "write a whole number from 1 on"
_SECONDS = (
    re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII), "write seconds above 0, such as 10.35"
)  # fmt: skip
_SHOWN = 60  # characters of what is wrong
_FITTED = 2  # numbers of devices
_FEWEST = 2  # other rows that a row is predicted from


def shipped() -> str:
    """Return the text of the table that gpumap ships: Theano-MPI's, from its README."""
    from importlib.resources import files

    return files("gpumap.training").joinpath("published.csv").read_text(encoding="utf-8")


def read(path: Path) -> Published:
    """Return the table of a file.

    Raises:
        SourceError: it cannot be read, or is no such table; one diagnostic for each problem.
    """
    return table(read_text(path, "table", _LIMIT), str(path))


def table(text: str, origin: str) -> Published:
    """Return the table that a text holds, with what follows from its cells.

    Raises:
        SourceError: it is no such table; one diagnostic for each problem, with its line.
    """
    lines = text.splitlines()
    above = 0
    while above < len(lines) and lines[above].startswith("#"):
        above += 1
    source = tuple(line.removeprefix("#").strip() for line in lines[:above])
    return with_models(Published(origin, source, _Reader(origin, above).cells(lines[above:])))


def select_rows(table: Published, rows: Sequence[str]) -> Published:
    """Return the table with only these rows, their metrics and models.

    Raises:
        SourceError: it has no such row.
    """
    known = dict.fromkeys(cell.row for cell in table.cells)
    for row in rows:
        if row not in known:
            there = f"choose of {', '.join(known)}"
            message = f"{table.origin} has no row {row[:_SHOWN]}"
            raise SourceError(message, fix(row, known, there))
    selected = tuple(cell for cell in table.cells if cell.row in rows)
    return with_models(Published(table.origin, table.source, selected))


def with_models(table: Published) -> Published:
    """Return the table with metrics and models, computed from its cells."""
    single = {cell.row: _total(cell) for cell in table.cells if cell.devices == 1}
    cells = tuple(_figured(cell, single.get(cell.row)) for cell in table.cells)
    exchanging = [cell for cell in cells if _exchanges(cell)]
    counts = sorted({cell.devices for cell in exchanging})
    fitted = tuple(counts[:_FITTED])
    models = tuple(_left_out(exchanging, fitted))
    others = (_other_link(n, models, cells) for n in counts[_FITTED:]) if models else ()
    return replace(
        table,
        cells=cells,
        fitted=fitted if models else (),
        models=models,
        others=tuple(other for other in others if other is not None),
    )


# --- cells -------------------------------------------------------------------------------------


def cell(
    network: str,
    devices: int,
    text: str,
    batch: int | None = None,
    examples: int | None = None,
    nbytes: int | None = None,
) -> Cell:
    """Return a cell of a table; `text` is as published, ``10.35+0.78`` or ``20.50``."""
    train, _, comm = text.partition("+")
    row = network if batch is None else f"{network}-{batch}b"
    if nbytes is None and network.lower() in PARAMETERS:
        nbytes = bytes_of(network.lower())
    times = float(train), float(comm) if comm else None
    return Cell(row, network, devices, *times, text, batch, examples, nbytes)


class _Reader:
    """Reads the cells of a table, and collects what is wrong with them."""

    def __init__(self, origin: str, above: int) -> None:
        self.place = f"cannot read the table {origin}"
        self.above = above
        self.problems: list[Diagnostic] = []

    def cells(self, lines: Sequence[str]) -> tuple[Cell, ...]:
        """Return the cells.

        Raises:
            SourceError: with one diagnostic for each problem.
        """
        reader = csv.reader(lines, strict=True)
        line, cells_or_none = self.above + 1, list[Cell | None]()
        try:
            header = [name.strip() for name in next(reader, [])]
            self._check(header)
            for row in reader if not self.problems else ():
                line = self.above + reader.line_num
                if row:
                    cells_or_none.append(self._cell(header, row, line))
        except csv.Error as error:
            self.problems.clear()
            self._note(str(error), "save it as CSV", self.above + reader.line_num)
        cells = tuple(cell for cell in cells_or_none if cell is not None)
        self._check_all(cells)
        if not cells_or_none and not self.problems:
            self._note("there is no cell", "add lines below the header", self.above + 1)
        if self.problems:
            raise SourceError(tuple(self.problems))
        return cells

    def _note(self, what: str, fix: str, line: int | None = None) -> None:
        where = "" if line is None else f"line {line}: "
        message = f"{self.place}: {where}{what}"
        self.problems.append(Diagnostic(SourceError.code, message, hint=fix))

    def _check(self, header: Sequence[str]) -> None:
        wrong = [name for name in header if name not in _COLUMNS or header.count(name) > 1]
        missing = [name for name in _NEEDED if name not in header]
        fix = f"the columns are {', '.join(_COLUMNS)}, the first three needed"
        if missing:
            self._note(f"no column {', '.join(missing)}", fix, self.above + 1)
        elif wrong:
            shown = wrong[0][:_SHOWN]
            self._note(f'a column "{shown}" that cannot be', fix, self.above + 1)

    def _cell(self, header: Sequence[str], row: Sequence[str], line: int) -> Cell | None:
        """Return a cell; None, and note a problem, where something is wrong with it."""
        values = {name: value.strip() for name, value in zip(header, row, strict=False)}
        if len(row) != len(header) or not values.get("network"):
            fix = "give every column a value; those that are not known stay empty"
            self._note("a network or a column is missing", fix, line)
            return None
        for name, value in values.items():
            pattern, fix = _SECONDS if name.endswith("_s") else _WHOLE
            known = name == "network" or (not value and name not in _NEEDED)
            if not known and not (pattern.fullmatch(value) and float(value) > 0.0):
                self._note(f'{name} is "{value[:_SHOWN]}"', fix, line)
        if self.problems:
            return None
        text = "+".join(filter(None, (values["train_s"], values.get("comm_s"))))
        whole = (int(values.get(name) or 0) or None for name in ("batch", "examples", "bytes"))
        return cell(values["network"], int(values["devices"]), text, *whole)

    def _check_all(self, cells: Sequence[Cell]) -> None:
        for (row, devices), count in Counter((c.row, c.devices) for c in cells).items():
            if count > 1:
                twice = f"{row[:_SHOWN]} is there twice at {devices} devices"
                self._note(twice, "drop one of them")
        if len(cells) > _MOST:
            self._note(f"it has more than {_MOST} cells", "take a part of it")


def _total(cell: Cell) -> float:
    """Return the seconds in all, as a decimal would add them up."""
    return float(sum(map(Decimal, cell.text.split("+"))))


def _figured(cell: Cell, single: float | None) -> Cell:
    """Return a cell with its metrics; `single` is the time of one device."""
    total = _total(cell)
    metrics = {"time": Estimate.exact(total, "s")}
    if cell.examples is not None:
        metrics["examples_per_s"] = Estimate.exact(cell.examples / total, "1/s")
    if single is None:
        return replace(cell, metrics=metrics)
    metrics["speedup"] = Estimate.exact(single / total, "1")
    metrics["efficiency"] = Estimate.exact(single / total / cell.devices, "1")
    metrics["compute_efficiency"] = Estimate.exact(single / cell.train / cell.devices, "1")
    labels = {"efficiency": "super-linear", "compute_efficiency": "super-linear-compute"}
    flags = tuple(label for name, label in labels.items() if metrics[name].value > 1.0)
    return replace(cell, metrics=metrics, flags=flags)


# --- the model of the exchanges ----------------------------------------------------------------


def _exchanges(cell: Cell) -> float:
    """Return how many exchanges the times of a cell are for; 0: not known, or none."""
    if cell.devices == 1 or not (cell.comm and cell.batch and cell.examples and cell.nbytes):
        return 0.0
    return cell.examples / (cell.batch * cell.devices)


def _moved(cell: Cell) -> float:
    """Return the bytes that each device sends in an exchange."""
    assert cell.nbytes is not None
    return bus_factor(cell.devices) * cell.nbytes


def _left_out(cells: Sequence[Cell], fitted: Sequence[int]) -> Iterator[LeftOut]:
    """Yield each row as predicted by a line that was fitted to all others."""
    rows = {row: list(row_cells) for row, row_cells in groupby(cells, lambda cell: cell.row)}
    for row, row_cells in rows.items():
        points = [c for c in cells if c.row != row and c.devices in fitted]
        if len({c.row for c in points}) < _FEWEST or len({_moved(c) for c in points}) < _FITTED:
            continue
        times = [(c.comm or 0.0) / _exchanges(c) for c in points]
        line = straight([_moved(c) for c in points], np.array(times)).lines[0]
        fixed, per_byte = line.latency, line.per_byte
        exchanged = (
            Exchanged(c.devices, _exchanges(c) * (fixed + per_byte * _moved(c)), c.comm or 0.0)
            for c in row_cells
        )
        bandwidth = 1.0 / per_byte if per_byte > 0.0 else None
        yield LeftOut(row, fixed, bandwidth, tuple(exchanged))


def _other_link(devices: int, models: Sequence[LeftOut], cells: Sequence[Cell]) -> OtherLink | None:
    """Return that the exchanges of so many devices are off the model in every row, if they are."""
    off = {m.row: e for m in models for e in m.exchanged if e.devices == devices}
    ratios = [each.measured / each.predicted for each in off.values()]
    if not ratios or min(ratios) <= 1.0 + FITS:
        return None
    fixed = {model.row: model.fixed for model in models}
    taken = [
        _moved(c) / rest
        for c in cells
        if c.devices == devices and c.row in off
        and (rest := (c.comm or 0.0) / _exchanges(c) - fixed[c.row]) > 0.0
    ]  # fmt: skip
    bandwidth = (min(taken), max(taken)) if len(taken) == len(off) else None
    return OtherLink(devices, (min(ratios), max(ratios)), bandwidth)
