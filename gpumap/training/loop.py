"""A training loop of one's own on several ranks, over NumPy arrays and what has `__dlpack__`.

    parameters = gpumap.broadcast(parameters)           # all begin with those of rank 0
    part = batch[gpumap.rank() :: gpumap.ranks()]
    gradients = gpumap.average(gradients, len(part))    # of the whole batch, on every rank
    rate = gpumap.scaled_rate(0.1, step, warmup=100)
    gpumap.checkpoint("parameters.npz", parameters)     # written by rank 0

Ranks are the processes of MPI (mpirun, srun, `gpumap run --launcher mpi`). Where no launcher has
started several, there is one rank, which needs no mpi4py. Every function but `rank`, `ranks` and
`scaled_rate` is called by all ranks; what is wrong on one of them is raised on all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.distributed.launch import launched
from gpumap.distributed.mpi import load
from gpumap.dtypes import Array, np
from gpumap.errors import (
    AbsentError,
    DtypeError,
    GpumapError,
    QuestionError,
    ShapeError,
    SourceError,
)
from gpumap.files import write_atomic
from gpumap.training.optimizers import scaled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SUMMED = ("f2", "f4", "f8")
_FIX = "give every rank the same arrays, in the same order"


def rank() -> int:
    """Return the number of this process among all ranks; 0 where it runs alone."""
    comm = _world()
    return 0 if comm is None else int(comm.Get_rank())


def ranks() -> int:
    """Return how many ranks there are.

    Raises:
        AbsentError: a launcher has started several, and MPI cannot be used.
    """
    comm = _world()
    return 1 if comm is None else int(comm.Get_size())


def broadcast(arrays: Iterable[Any]) -> list[Array]:
    """Return copies of the arrays of rank 0, on every rank.

    Raises:
        ShapeError, DtypeError: the arrays of a rank are others than those of rank 0, or no arrays.
    """
    found, _ = _same(arrays)
    copies = [np.array(array, order="C") for array in found]
    comm = _world()
    for copy in copies if comm is not None else ():
        comm.Bcast(copy.reshape(-1).view(np.uint8))
    return copies


def average(arrays: Iterable[Any], weight: float = 1.0) -> list[Array]:
    """Return the mean of each array over all ranks, the same bits on each.

    Args:
        arrays: of floating-point numbers, as many and of the same shapes on every rank.
        weight: how much this rank's count: the examples of its part, where parts are uneven.

    Raises:
        ShapeError, DtypeError: the arrays of a rank are others than those of rank 0, or no arrays.
        QuestionError: a weight is negative or no number, or all are 0.
    """
    found, weights = _same(arrays, float(weight), _SUMMED)
    if not all(isfinite(each) and each >= 0 for each in weights) or not sum(weights):
        raise QuestionError(f"the weights of the ranks are {weights}", "give each its examples")
    comm = _world()
    if comm is None:
        return [np.array(array) for array in found]
    flat = np.concatenate([np.zeros(0, np.float32), *(array.reshape(-1) for array in found)])
    flat *= flat.dtype.type(weight / sum(weights))
    comm.Allreduce(load().IN_PLACE, flat)
    ends = np.cumsum([array.size for array in found])
    parts = np.split(flat, ends[:-1]) if found else []
    return [p.reshape(a.shape).astype(a.dtype) for p, a in zip(parts, found, strict=True)]


def checkpoint(path: str | Path, arrays: Mapping[str, Any] | Sequence[Any]) -> None:
    """Let rank 0 write its arrays to a file for `numpy.load`; return when it is written.

    A reader sees the old file or all of the new one. A list's arrays are called arr_0, arr_1 ...

    Raises:
        SourceError: it cannot be written; on every rank.
    """
    problem: GpumapError | None = None
    try:
        if not rank():
            _write(Path(path), arrays)
    except GpumapError as error:
        problem = error
    except Exception as error:  # noqa: BLE001 - the others wait, and it is raised below
        problem = SourceError(f"cannot write the arrays: {type(error).__name__}: {error}")
    comm = _world()
    said = None if problem is None else (str(problem), problem.diagnostics[0].hint)
    said = said if comm is None else comm.bcast(said)
    if said is not None:
        raise problem or SourceError(f"rank 0: {said[0]}", said[1])


def scaled_rate(rate: float, step: int = 0, warmup: int = 0) -> float:
    """Return the rate of a step of all ranks: linear in them, after a warm-up of so many steps."""
    return scaled(rate, ranks(), step, warmup)


def _write(path: Path, arrays: Mapping[str, Any] | Sequence[Any]) -> None:
    named = arrays if isinstance(arrays, Mapping) else {f"arr_{n}": a for n, a in enumerate(arrays)}
    file = BytesIO()
    hosts: dict[str, Any] = {str(name): _host(name, array) for name, array in named.items()}
    np.savez(file, **hosts)
    write_atomic(path, file.getvalue())


@cache
def _world() -> Any:
    """Return MPI's communicator of all ranks; None where this process runs alone."""
    launch = launched(os.environ)
    if launch is None or launch.size == 1:
        return None
    comm = load().COMM_WORLD
    if comm.Get_size() != launch.size:
        said = f"{launch.by} has started {launch.size} processes, and MPI knows {comm.Get_size()}"
        raise AbsentError(said, "start them with mpirun, or gpumap run --launcher mpi")
    return comm


def _same(
    arrays: Iterable[Any], weight: float = 1.0, types: Sequence[str] = ()
) -> tuple[list[Array], list[float]]:
    """Return the arrays as NumPy's, and the weights of all ranks; raise on all what one lacks."""
    problem: DtypeError | None = None
    found: list[Array] = []
    try:
        given = (arrays,) if hasattr(arrays, "__dlpack__") else arrays
        found = [_host(number, array, types) for number, array in enumerate(given)]
    except DtypeError as error:
        problem = error
    said = problem and problem.diagnostics[0].message
    own = (said, [(array.shape, array.dtype.str) for array in found], weight)
    comm = _world()
    every = [own] if comm is None else comm.allgather(own)
    if problem is not None:
        raise problem
    for number, (said, about, _) in enumerate(every):
        if said is not None:
            raise DtypeError(f"rank {number}: {said}", _FIX)
        _check_alike(number, about, every[0][1])
    return found, [each for _, _, each in every]


def _check_alike(number: int, found: list[Any], first: list[Any]) -> None:
    """Refuse arrays of a rank that are not of the shapes and types of those of rank 0."""
    if len(found) != len(first):
        said = f"rank {number} has {len(found)} arrays, and rank 0 has {len(first)}"
        raise ShapeError(said, _FIX)
    for place, (one, other) in enumerate(zip(found, first, strict=False)):
        for kind, error, what in ((0, ShapeError, "shape"), (1, DtypeError, "dtype")):
            if one[kind] != other[kind]:
                said = f"arrays[{place}] has {what} {one[kind]} on rank {number}"
                raise error(f"{said}, and {other[kind]} on rank 0", _FIX)


def _host(place: Any, array: Any, types: Sequence[str] = ()) -> Array:
    """Return an array as one of NumPy, in host memory; without a copy where it is there."""
    where = f"arrays[{place!r}]"
    if not hasattr(array, "__dlpack__"):
        fix = "give NumPy arrays, or what has __dlpack__, in a list"
        raise DtypeError(f"{where} is no array: {type(array).__name__}", fix)
    try:
        found: Array = array if isinstance(array, np.ndarray) else np.from_dlpack(array)
    except Exception as error:  # whatever its library comes to
        said = f"{where} cannot be read from host memory: {' '.join(str(error).split())}"
        raise DtypeError(said, "copy it to the host first, as .cpu() or .get() do") from error
    if (types and found.dtype.str[1:] not in types) or found.dtype.hasobject:
        what = "float16, float32 or float64" if types else "numbers"
        raise DtypeError(f"{where} is {found.dtype}", f"give {what}")
    return found
