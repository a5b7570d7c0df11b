"""Ranks of a user's program: four functions for a training loop, and Theano-MPI's ModelClass.

A loop is over NumPy arrays and what has `__dlpack__`:

    parameters = gpumap.broadcast(parameters)           # all begin with those of rank 0
    part = batch[gpumap.rank() :: gpumap.ranks()]
    gradients = gpumap.average(gradients, len(part))    # of the whole batch, on every rank
    rate = gpumap.scaled_rate(0.1, step, warmup=100)
    gpumap.checkpoint("parameters.npz", parameters)     # written by rank 0

Ranks are the processes of MPI (mpirun, srun, `gpumap run --launcher mpi`). Where no launcher has
started several, there is one rank, which needs no mpi4py. Every function but `rank`, `ranks` and
`scaled_rate` is called by all ranks; what is wrong on one of them is raised on all, and a rank that
ends with an exception ends the others.

A ModelClass is trained by BSP, EASGD or GOSGD, one rank for each device. It has

    params                       NumPy arrays, or shared variables with get_value and set_value
    data                         a DataClass: n_batch_train, n_batch_val
    train_iter(count, recorder)  trains on a batch, and changes params
    val_iter(count, recorder)    validates on a batch
    compile_iter_fns, adjust_hyperp(epoch), cleanup, and where it likes n_epochs, reset_iter(mode)

It is made with `config` (rank, size, verbose) where it takes that, and then shards its data itself;
else each batch of an epoch is given to one rank. It tells the recorder of losses and errors.

A batch's update is the model's own, so that ranks exchange parameters: by BSP each rank gets their
mean after every batch, which for SGD and momentum is the mean of gradients; EASGD and GOSGD are
asynchronous (`gpumap.training.mpi_asynchronous`).
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from io import BytesIO
from math import ceil, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gpumap.distributed.mpi import load
from gpumap.distributed.ranks import launched
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
from gpumap.training.workers import Chosen, scaled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.training.mpi_asynchronous import Apart


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
    found, _ = _same("broadcast", arrays)
    copies = [np.array(array, order="C") for array in found]
    comm = _world()
    for copy in copies if comm is not None else ():
        comm.Bcast(copy.reshape(-1).view(np.uint8))
    return copies


def average(arrays: Iterable[Any], weight: float = 1.0) -> list[Array]:
    """Return the mean of each array over all ranks, the same bits on each.

    Args:
        arrays: of floating-point numbers, as many and of the same shapes on every rank.
        weight: how much this rank's count: the examples of its part, where parts are uneven. With
            0 they count nothing, whatever they hold.

    Raises:
        ShapeError, DtypeError: the arrays of a rank are others than those of rank 0, or no arrays.
        QuestionError: a weight is negative or no number, or all are 0.
    """
    found, weights = _same("average", arrays, weight, _SUMMED)
    largest = max(weights)
    if not largest:
        raise QuestionError("the weights of all ranks are 0", "give each rank its examples")
    comm = _world()
    if comm is None:
        return [np.array(array) for array in found]
    flat = np.concatenate([np.zeros(0, np.float32), *(array.reshape(-1) for array in found)])
    share = weight / largest / sum(each / largest for each in weights)  # no sum above a float
    flat = flat * flat.dtype.type(share) if share else np.zeros_like(flat)
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
    _gather("checkpoint", problem)


def scaled_rate(rate: float, step: int = 0, warmup: int = 0) -> float:
    """Return the rate of a step of all ranks: linear in them, after a warm-up of so many steps.

    Raises:
        QuestionError: the rate is no finite number, or one of the numbers is negative.
    """
    for name, value in (("rate", rate), ("step", step), ("warmup", warmup)):
        _number(name, value)
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
    hook = sys.excepthook

    def abort(*error: Any) -> None:
        """Report an exception that ends this rank, and end all others: they would wait for it."""
        hook(*error)
        comm.Abort(1)

    sys.excepthook = abort
    return comm


def _same(
    call: str, arrays: Iterable[Any], weight: float = 1.0, types: Sequence[str] = ()
) -> tuple[list[Array], list[float]]:
    """Return the arrays as NumPy's, and the weights of all ranks; raise on all what one lacks."""
    problem: GpumapError | None = None
    found: list[Array] = []
    try:
        _number("weight", weight)
        given = (arrays,) if hasattr(arrays, "__dlpack__") else arrays
        found = [_host(number, array, types) for number, array in enumerate(given)]
    except GpumapError as error:
        problem = error
    except Exception as error:  # noqa: BLE001 - of an iterator of the user's; the others wait
        problem = DtypeError(f"the arrays cannot be read: {error}", _FIX)
    every = _gather(call, problem, ([(a.shape, a.dtype.str) for a in found], weight))
    for number, (about, _) in enumerate(every):
        _check_alike(number, about, every[0][0])
    return found, [each for _, each in every]


def _gather(call: str, problem: GpumapError | None, facts: Any = None) -> list[Any]:
    """Return the facts of all ranks; raise on all of them what is wrong on one.

    Raises:
        GpumapError: the problem of this rank, or of the first that has one.
        QuestionError: the ranks are not in one call.
    """
    comm = _world()
    first = problem and problem.diagnostics[0]
    own = (call, first and (type(problem), first.message, first.hint), facts)
    every = [own] if comm is None else comm.allgather(own)
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
    if not isinstance(value, (int, float, np.number)) or not isfinite(value) or value < 0:
        raise QuestionError(f"{name} is {value!r}", "give a finite number, 0 or more")


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


_METHODS = ("compile_iter_fns", "train_iter", "val_iter", "adjust_hyperp", "cleanup")
_HAS = "a ModelClass has params, data, " + ", ".join(_METHODS)


class Recorder:
    """What a model tells of its batches: losses and errors."""

    def __init__(self) -> None:
        self.train: list[tuple[float, ...]] = []
        self.val: list[tuple[float, ...]] = []

    def start(self) -> None:
        """Accept that a phase begins; times are those of `gpumap bench train`."""

    def end(self, mode: str) -> None:
        """Accept that a phase ends."""

    def train_error(self, count: int, cost: Any, error: Any) -> None:  # noqa: ARG002 - Theano-MPI's
        """Note the loss and the error of a training batch."""
        self.train.append((float(cost), float(error)))

    def val_error(self, count: int, cost: Any, error: Any, error_top5: Any = 0.0) -> None:  # noqa: ARG002 - the same
        """Note the loss and the errors of a validation batch."""
        self.val.append((float(cost), float(error), float(error_top5)))


class Weights:
    """The parameters of a model, as arrays, and as the one array that ranks exchange."""

    def __init__(self, params: Sequence[Any]) -> None:
        self._params = params
        self.array = np.concatenate([each.reshape(-1) for each in self.get()])

    def get(self) -> list[Array]:
        """Return each as an array."""
        return [np.asarray(p.get_value() if hasattr(p, "get_value") else p) for p in self._params]

    def set(self, arrays: Sequence[Array]) -> None:
        """Change each."""
        for param, array in zip(self._params, arrays, strict=True):
            if hasattr(param, "set_value"):
                param.set_value(array)
            else:
                param[...] = array

    def fetch(self) -> Array:
        """Return the one array, with what they are now."""
        np.concatenate([each.reshape(-1) for each in self.get()], out=self.array)
        return self.array

    def put(self) -> None:
        """Change all to what the one array has."""
        arrays = self.get()
        parts = np.split(self.array, np.cumsum([array.size for array in arrays])[:-1])
        self.set([p.reshape(a.shape) for p, a in zip(parts, arrays, strict=True)])


class Session:
    """One rank's part of a training; every rank begins with the parameters of rank 0."""

    def __init__(self, model: Any, rule: Chosen, *, shards: bool) -> None:
        """Take part; `shards`: each rank's model has batches of its own."""
        self._model, self._shards = model, shards
        self._rank, self._ranks = rank(), ranks()
        self.weights = Weights(model.params)
        self.weights.set(broadcast(self.weights.get()))
        self._recorder = Recorder()
        self._begun = self._own = 0  # batches before this epoch; this rank's of it
        self._apart: Apart | None = None
        if rule.asynchronous and self._ranks > 1:
            if self.weights.array.dtype != np.float32:
                said = f"{rule.name} exchanges float32, and params are {self.weights.array.dtype}"
                raise QuestionError(said, "make them float32, or choose BSP")
            from gpumap.training.mpi_asynchronous import Apart
            from gpumap.training.steps import Course

            nothing = cast("Any", None)  # a course of no task: the model has its own data
            course = Course(nothing, nothing, rule, (1,) * self._ranks, 0.0)
            self._apart = Apart(course, load().COMM_WORLD, self)

    def room(self) -> Array:
        """Return room for the parameters of another rank."""
        return np.empty_like(self.weights.array)

    def epoch(self, number: int) -> dict[str, float | None]:
        """Train and validate an epoch; return losses and errors, the means over all batches."""
        model, recorder = self._model, self._recorder
        model.epoch, self._own = number, 0
        self._reset("train")
        steps = ceil(self._batches / self._ranks)
        if self._apart is not None:
            self._apart.run(steps, self._take, lambda _: None)
        for step in range(0 if self._apart is not None else steps):
            taken = self._take(self._begun + step * self._ranks + self._rank)
            self.weights.set(average(self.weights.get(), float(taken)))
        self._begun += steps * self._ranks
        own = [array.copy() for array in self.weights.get()]
        self.weights.set(self.trained())
        self._reset("val")
        first, step = (0, 1) if self._shards else (self._rank, self._ranks)
        for count in range(first, int(model.data.n_batch_val), step):
            model.val_iter(count, recorder)
        self.weights.set(own)
        model.adjust_hyperp(number)
        loss, error = _means(recorder.train, 2)
        val_loss, val_error, top5 = _means(recorder.val, 3)
        recorder.train, recorder.val = [], []
        return {
            "epoch": number,
            "loss": loss,
            "error": error,
            "val_loss": val_loss,
            "val_error": val_error,
            "val_error_top5": top5,
        }

    def trained(self) -> list[Array]:
        """Return the parameters that all ranks have come to; by EASGD those of the center."""
        if self._apart is None:
            return [array.copy() for array in self.weights.get()]
        found = self._apart.parameters()
        own = self.weights.fetch().copy()
        (self.weights.array[:],) = broadcast([own if self._rank else found])
        self.weights.put()
        trained = [array.copy() for array in self.weights.get()]
        self.weights.array[:] = own
        self.weights.put()
        return trained

    @property
    def _batches(self) -> int:
        """Return how many batches all ranks train on in an epoch."""
        return int(self._model.data.n_batch_train) * (self._ranks if self._shards else 1)

    def _take(self, place: int) -> bool:
        """Train on the batch at a place; return whether the epoch has one there."""
        place -= self._begun
        if place >= self._batches:
            return False
        count = self._own % int(self._model.data.n_batch_train) if self._shards else place
        self._model.train_iter(count, self._recorder)
        self._own += 1
        return True

    def _reset(self, mode: str) -> None:
        if hasattr(self._model, "reset_iter"):
            self._model.reset_iter(mode)


def train(rule: Chosen, modelfile: str, modelclass: str, path: Path | None = None) -> list[Any]:
    """Train a ModelClass for its epochs, on every rank; return what each epoch came to.

    Args:
        rule: bsp, easgd or gosgd.
        modelfile: its module, as models.modelfile.
        modelclass: its class.
        path: what rank 0 writes the parameters to, at the end.

    Raises:
        QuestionError: it cannot be loaded, or lacks something.
    """
    model, shards = _made(modelfile, modelclass)
    session, found = Session(model, rule, shards=shards), []
    for number in range(int(getattr(model, "n_epochs", 1))):
        found.append(session.epoch(number))
        if not rank():
            said = (f"{key} {value:.4g}" for key, value in found[-1].items() if value is not None)
            sys.stdout.write(f"{', '.join(said)}\n")
            sys.stdout.flush()
    if path is not None:
        checkpoint(path, session.trained())
    model.cleanup()
    return found


def _made(modelfile: str, modelclass: str) -> tuple[Any, bool]:
    """Return a model, and whether it was given its rank."""
    try:
        found = getattr(import_module(modelfile), modelclass)
    except (ImportError, AttributeError) as error:
        fix = f"start it in the folder of {modelfile.replace('.', '/')}.py"
        raise QuestionError(f"{modelfile}.{modelclass} cannot be loaded: {error}", fix) from error
    lacking = [name for name in _METHODS if not callable(getattr(found, name, None))]
    if lacking:
        raise QuestionError(f"{modelfile}.{modelclass} has no {', no '.join(lacking)}", _HAS)
    shards = bool(inspect.signature(found).parameters)
    config = {"rank": rank(), "size": ranks(), "verbose": not rank()}
    model = found(config) if shards else found()
    if not hasattr(model, "params") and hasattr(model, "build_model"):
        model.build_model()
    lacking = [name for name in ("params", "data") if not hasattr(model, name)]
    if lacking or not model.params:
        raise QuestionError(f"{modelfile}.{modelclass} has no {' and no '.join(lacking)}", _HAS)
    takes = inspect.signature(model.compile_iter_fns).parameters
    model.compile_iter_fns(*(("avg",) if takes else ()))
    return model, shards


def _means(told: Sequence[tuple[float, ...]], columns: int) -> list[float | None]:
    """Return the mean of each column over what all ranks were told; None where that is nothing."""
    rows = np.array(told, np.float64).reshape(-1, columns)
    (sums,) = average([np.append(rows.sum(axis=0), len(rows))])
    return [float(each / sums[-1]) if sums[-1] else None for each in sums[:-1]]


def main(words: Sequence[str]) -> int:
    """Be a rank: rule, module, class, and the files of the epochs and of the parameters."""
    rule, modelfile, modelclass, *files = words
    epochs, path = files or ("", "")
    try:
        found = train(
            Chosen(**json.loads(rule)), modelfile, modelclass, Path(path) if path else None
        )
    except GpumapError as error:
        if not rank():
            sys.stderr.write(f"error: {error}\n  fix: {error.diagnostics[0].hint}\n")
        return int(error.exit_code)
    if epochs and not rank():
        Path(epochs).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
