"""The published table of data-parallel training that gpumap ships, and what its cells say.

`published.csv` names its source in the lines that begin with #. A row of the table is a network at
a batch, ``AlexNet-128b``; its cells are seconds of training, and of the exchanges beside it.

Its speed-up is the time of one device over that of both, its efficiency that over the number of
devices; both are computed from the cells, whatever was printed next to them. What is above 1 is
labelled, never clipped.
"""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import TYPE_CHECKING

from gpumap.model import Cell, Estimate, Published, replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def table() -> Published:
    """Return the table of Theano-MPI's README."""
    text = files("gpumap").joinpath("published.csv").read_text(encoding="utf-8")
    lines = text.splitlines()
    source = tuple(line.removeprefix("# ") for line in lines if line.startswith("#"))
    rows = csv.DictReader(lines[len(source) :])
    return Published("theano-mpi", source, with_metrics([_cell(row) for row in rows]))


def with_metrics(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return cells with their metrics; each row has one of one device."""
    alone = {cell.row: _total(cell) for cell in cells if cell.devices == 1}
    return tuple(_with_metrics(cell, alone[cell.row]) for cell in cells)


def _cell(row: Mapping[str, str]) -> Cell:
    train, comm = row["train_s"], row["comm_s"]
    return Cell(
        row=f"{row['network']}-{row['batch']}b",
        network=row["network"],
        devices=int(row["devices"]),
        train=float(train),
        comm=float(comm) if comm else None,
        text=f"{train}+{comm}" if comm else train,  # as published
        examples=int(row["examples"]),
    )


def _total(cell: Cell) -> float:
    """Return the seconds in all; they were published in hundredths."""
    return round(cell.train + (cell.comm or 0.0), 2)


def _with_metrics(cell: Cell, alone: float) -> Cell:
    """Return a cell with its metrics; `alone` is the time of one device."""
    total = _total(cell)
    metrics = {
        "time": Estimate.exact(total, "s"),
        "examples_per_s": Estimate.exact(cell.examples / total, "1/s"),
        "speedup": Estimate.exact(alone / total, "1"),
        "efficiency": Estimate.exact(alone / total / cell.devices, "1"),
    }
    flags = ("super-linear",) if metrics["efficiency"].value > 1.0 else ()
    return replace(cell, metrics=metrics, flags=flags)
