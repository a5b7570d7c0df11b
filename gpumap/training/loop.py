"""Functions for a user's training loop on the ranks of a launcher.

A loop is over arrays of NumPy, PyTorch or JAX, or whatever has `__dlpack__` in host memory:

    parameters = gpumap.broadcast(parameters)           # all begin with those of rank 0
    part = batch[gpumap.rank() :: gpumap.ranks()]
    gradients = gpumap.average(gradients, len(part))    # of the whole batch, on every rank
    rate = gpumap.scaled_rate(0.1, step, warmup=100)
    gpumap.checkpoint("parameters.npz", parameters)     # written by rank 0

Ranks are processes of torch.distributed (torchrun, `gpumap run`) or of MPI (mpirun, srun). Where no
launcher has started several, there is one rank, which needs neither. Every function but `rank`,
`ranks` and `scaled_rate` is called by all ranks; what is wrong on one of them is raised on all, and
a rank that ends with an exception ends the others.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.comm.engines import engine_of, joined
from gpumap.comm.ranks import launched
from gpumap.comm.threads import Ranks
from gpumap.dtypes import Array, np
from gpumap.errors import DtypeError, GpumapError, QuestionError, ShapeError
from gpumap.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpumap.comm.base import Comm


_SUMMED = ("f2", "f4", "f8")
_JAX = ("jax", "jaxlib")
_FIX = "give every rank the same arrays, in the same order"


def rank() -> int:
    """Return the number of this process among all ranks; 0 where it runs alone."""
    launch = launched(os.environ)
    return launch.rank if launch else 0


def ranks() -> int:
    """Return how many ranks there are."""
    launch = launched(os.environ)
    return launch.size if launch else 1


def broadcast(arrays: Iterable[Any]) -> list[Any]:
    """Return copies of the arrays of rank 0, on every rank: of PyTorch, JAX or NumPy, as given.

    Raises:
        ShapeError, DtypeError: the arrays of a rank are others than those of rank 0, or no arrays.
    """
    given, result, _ = _same("broadcast", arrays)
    copies = world().broadcast([np.array(array, order="C") for array in result])
    return [_as(each, array) for each, array in zip(given, copies, strict=True)]


def average(arrays: Iterable[Any], weight: float = 1.0) -> list[Any]:
    """Return the mean of each array over all ranks, the same bits on each: as `broadcast`.

    Args:
        arrays: of floating-point numbers, as many and of the same shapes on every rank.
        weight: how much this rank's count: the examples of its part, where parts are uneven. With
            0 they count nothing, whatever they hold.

    Raises:
        ShapeError, DtypeError: the arrays of a rank are others than those of rank 0, or no arrays.
        QuestionError: a weight is negative or no number, or all are 0.
    """
    given, result, weights = _same("average", arrays, weight, _SUMMED)
    largest = max(weights)
    if not largest:
        raise QuestionError("the weights of all ranks are 0", "give each rank its examples")
    flat = np.concatenate([np.zeros(0, np.float32), *(array.reshape(-1) for array in result)])
    share = weight / largest / sum(each / largest for each in weights)  # no sum above a float
    flat = flat * flat.dtype.type(share) if share else np.zeros_like(flat)
    world().allreduce(flat)()
    return [
        _as(each, part.astype(array.dtype))
        for each, part, array in zip(given, parts(flat, result), result, strict=True)
    ]


def parts(flat: Array, arrays: Sequence[Array]) -> list[Array]:
    """Return one array in parts, each of the shape of one of `arrays`."""
    stops = np.cumsum([array.size for array in arrays])
    pieces = zip(np.split(flat, stops[:-1]), arrays, strict=False)  # of no arrays there is a piece
    return [piece.reshape(array.shape) for piece, array in pieces]


def checkpoint(path: str | Path, arrays: Mapping[str, Any] | Sequence[Any]) -> None:
    """Let rank 0 write its arrays to a file for `numpy.load`; return when it is written.

    A reader sees the old file or all of the new one. A list's arrays are called arr_0, arr_1 ...

    Raises:
        SourceError: it cannot be written; on every rank.
    """
    _gather("checkpoint", lambda: _write(Path(path), arrays))


def scaled_rate(rate: float, step: int = 0, warmup: int = 0) -> float:
    """Return the rate of a step of all ranks: linear in them, after a warm-up of so many steps.

    Over these it grows by the same factor each, from `rate` to `rate` times the ranks (Theano-MPI's
    warm-up; the rule is Goyal et al.'s, arXiv:1706.02677, section 2.1).

    Raises:
        QuestionError: the rate is no finite number, or one of the numbers is negative.
    """
    for name, value in (("rate", rate), ("step", step), ("warmup", warmup)):
        _number(name, value)
    return rate * math.pow(ranks(), min(step / warmup, 1.0) if warmup else 1.0)


def _write(path: Path, arrays: Mapping[str, Any] | Sequence[Any]) -> None:
    if rank():
        return
    named = arrays if isinstance(arrays, Mapping) else {f"arr_{n}": a for n, a in enumerate(arrays)}
    file = BytesIO()
    hosts: dict[str, Any] = {str(name): _host(name, array) for name, array in named.items()}
    np.savez(file, **hosts)
    write_atomic(path, file.getvalue())


@cache
def world() -> Comm:
    """Return all ranks; where this process runs alone, that one.

    Raises:
        AbsentError: a launcher has started several, and its engine cannot be used.
    """
    launch = launched(os.environ)
    if launch is None or launch.size == 1:
        return Ranks(1).comms[0]
    comm = joined(engine_of(launch, os.environ), launch)
    hook = sys.excepthook

    def abort(*error: Any) -> None:
        """Report an exception that ends this rank, and end all others: they would wait for it."""
        hook(*error)
        comm.abort()

    sys.excepthook = abort
    return comm


def _same(
    call: str, arrays: Iterable[Any], weight: float = 1.0, types: Sequence[str] = ()
) -> tuple[list[Any], list[Array], list[float]]:
    """Return the arrays, themselves and as NumPy's, and the weights of all ranks.

    What one rank lacks is raised on all.
    """
    given: list[Any] = []
    result: list[Array] = []

    def read() -> Any:
        _number("weight", weight)
        given.extend([arrays] if hasattr(arrays, "__dlpack__") else arrays)
        result.extend(_host(number, array, types) for number, array in enumerate(given))
        return [(array.shape, array.dtype.str) for array in result], weight

    every = _gather(call, read)
    for number, (about, _) in enumerate(every):
        _check_alike(number, about, every[0][0])
    return given, result, [each for _, each in every]


def _gather(call: str, action: Callable[[], Any]) -> list[Any]:
    """Return what an action comes to on all ranks; raise on all of them what is wrong on one.

    Raises:
        GpumapError: the problem of this rank, or of the first that has one.
        QuestionError: the ranks are not in one call.
    """
    problem: GpumapError | None = None
    facts = None
    try:
        facts = action()
    except GpumapError as error:
        problem = error
    except Exception as error:  # noqa: BLE001 - of the user's arrays; the others wait
        problem = DtypeError(f"the arrays cannot be used: {error}", _FIX)
    first = problem and problem.diagnostics[0]
    every = world().gather((call, first and (type(problem), first.message, first.hint), facts))
    if problem is not None:
        raise problem
    for number, (other, wrong, _) in enumerate(every):
        if other != call:
            what = f"rank {number} calls gpumap.{other}, and this rank calls gpumap.{call}"
            raise QuestionError(what, "let every rank make the same calls in the same order")
        if wrong is not None:
            kind, message, hint = wrong
            raise kind(f"rank {number}: {message}", hint)
    return [facts for _, _, facts in every]


def _number(name: str, value: Any) -> None:
    """Refuse what is no finite number of at least 0."""
    if not isinstance(value, (int, float, np.number)) or not math.isfinite(value) or value < 0:
        raise QuestionError(f"{name} is {value!r}", "give a finite number, 0 or more")


def _check_alike(number: int, facts: list[Any], first: list[Any]) -> None:
    """Refuse arrays of a rank that are not of the shapes and types of those of rank 0."""
    if len(facts) != len(first):
        message = f"rank {number} has {len(facts)} arrays, and rank 0 has {len(first)}"
        raise ShapeError(message, _FIX)
    for place, (one, other) in enumerate(zip(facts, first, strict=True)):
        if one != other:
            what = " and ".join(f"{dtype} {shape}" for shape, dtype in (one, other))
            kind = DtypeError if one[0] == other[0] else ShapeError
            raise kind(f"arrays[{place}] of rank {number} and of rank 0 are {what}", _FIX)


def _host(place: Any, array: Any, types: Sequence[str] = ()) -> Array:
    """Return an array as one of NumPy, in host memory; without a copy where it is there."""
    where = f"arrays[{place!r}]"
    if not hasattr(array, "__dlpack__"):
        fix = "give arrays of NumPy, PyTorch or JAX, or what has __dlpack__, in a list"
        raise DtypeError(f"{where} is no array: {type(array).__name__}", fix)
    try:
        result = _read(array)
    except Exception as error:  # whatever its library comes to
        message = f"{where} cannot be read from host memory: {' '.join(str(error).split())}"
        raise DtypeError(message, "copy it to the host first, as .cpu() or .get() do") from error
    if (types and result.dtype.str[1:] not in types) or result.dtype.hasobject:
        what = "float16, float32 or float64" if types else "numbers"
        raise DtypeError(f"{where} is {result.dtype}", f"give {what}")
    return result


def _library(array: Any) -> str:
    """Return whose array it is, without importing the library."""
    return type(array).__module__.partition(".")[0]


def _read(array: Any) -> Array:
    """Return an array as one of NumPy; of floats that NumPy has not, as float32."""
    if isinstance(array, np.ndarray):
        return array
    library = _library(array)
    if library == "torch":
        array = array.detach().cpu()
        return np.asarray(array.float() if str(array.dtype) == "torch.bfloat16" else array)
    result: Array = np.asarray(array) if library in _JAX else np.from_dlpack(array)
    return result if result.dtype.kind != "V" else result.astype(np.float32)


def _as(given: Any, result: Array) -> Any:
    """Return an array as the library of another one has it, of its type and on its device."""
    if _library(given) == "torch":
        return given.detach().new_tensor(result)
    if _library(given) in _JAX:
        return given.at[...].set(result.astype(given.dtype))
    return result
