"""The published table of data-parallel training that gpumap ships, and what its cells say.

`published.csv` names its source in the lines that begin with #. A row of the table is a network at
a batch, ``AlexNet-128b``; its cells are seconds of training, and of the exchanges beside it.

Its speed-up is the time of one device over that of both, its efficiency that over the number of
devices; both are computed from the cells, whatever was printed next to them. What is above 1 is
labelled, never clipped.
"""

from __future__ import annotations

import csv
from decimal import Decimal
from importlib.resources import files
from typing import TYPE_CHECKING

from gpumap.model import Cell, Estimate, Published, replace
from gpumap.training.network import nbytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TABLES = ("theano-mpi",)  # from its README


def table(name: str) -> Published:
    """Return a table of TABLES."""
    text = files("gpumap").joinpath("published.csv").read_text(encoding="utf-8")
    lines = text.splitlines()
    source = tuple(line.removeprefix("# ") for line in lines if line.startswith("#"))
    rows = csv.DictReader(lines[len(source) :])
    return Published(name, source, with_metrics([_cell(row) for row in rows]))


def with_metrics(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Return cells with their metrics; each row has one of one device."""
    alone = {cell.row: _total(cell) for cell in cells if cell.devices == 1}
    return tuple(_with_metrics(cell, alone[cell.row]) for cell in cells)


def _cell(row: Mapping[str, str]) -> Cell:
    name, batch = row["network"], int(row["batch"])
    train, comm = row["train_s"], row["comm_s"]
    return Cell(
        row=f"{name}-{batch}b",
        network=name,
        devices=int(row["devices"]),
        train=float(train),
        comm=float(comm) if comm else None,
        text=f"{train}+{comm}" if comm else train,  # as published
        batch=batch,
        examples=int(row["examples"]),
        nbytes=nbytes(name.lower()),
    )


def _total(cell: Cell) -> float:
    """Return the seconds in all, as a decimal would add them up."""
    return float(sum(map(Decimal, cell.text.split("+"))))


def _with_metrics(cell: Cell, alone: float) -> Cell:
    """Return a cell with its metrics; `alone` is the time of one device."""
    total = _total(cell)
    assert cell.examples is not None  # the file has them
    metrics = {
        "time": Estimate.exact(total, "s"),
        "examples_per_s": Estimate.exact(cell.examples / total, "1/s"),
        "speedup": Estimate.exact(alone / total, "1"),
        "efficiency": Estimate.exact(alone / total / cell.devices, "1"),
        "compute_efficiency": Estimate.exact(alone / cell.train / cell.devices, "1"),
    }
    labels = {"efficiency": "super-linear", "compute_efficiency": "super-linear-compute"}
    flags = tuple(label for name, label in labels.items() if metrics[name].value > 1.0)
    return replace(cell, metrics=metrics, flags=flags)
