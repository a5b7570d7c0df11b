"""Train a ModelClass and its DataClass, as Theano-MPI defines them, on the ranks of a launcher.

A ModelClass is trained by BSP, EASGD or GOSGD, one rank for each device. It has

    params                       NumPy arrays, or shared variables with get_value and set_value
    data                         a DataClass: n_batch_train, n_batch_val
    train_iter(count, recorder)  trains on a batch, and changes params
    val_iter(count, recorder)    validates on a batch
    compile_iter_fns, adjust_hyperp(epoch), cleanup, and where it likes n_epochs, reset_iter(mode)

It is made with `config` (rank, size, verbose) where it takes that, and then shards its data itself;
else each batch of an epoch is given to one rank. It reports losses and errors to the recorder.

The model itself does a batch's update, so ranks exchange parameters: by BSP each rank gets their
mean after every batch, which for SGD and momentum is the mean of gradients; EASGD and GOSGD are
asynchronous (`gpumap.training.rules`).
"""

from __future__ import annotations

import inspect
import json
import sys
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import Array, np
from gpumap.errors import GpumapError, QuestionError
from gpumap.escape import written
from gpumap.training.loop import average, broadcast, checkpoint, parts, rank, ranks, world
from gpumap.training.rules import RuleSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

_METHODS = ("compile_iter_fns", "train_iter", "val_iter", "adjust_hyperp", "cleanup")
_HAS = f"a ModelClass has params, data, {', '.join(_METHODS)}"


class Recorder:
    """Recorder of a model's losses and errors."""

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


class Session:
    """One rank's part of a training; every rank begins with the parameters of rank 0."""

    def __init__(self, model: Any, rule: RuleSpec, *, shards: bool) -> None:
        """Join the training; `shards`: each rank's model shards its data itself."""
        self._model, self._shards = model, shards
        self.comm = world()
        self._flat: Any = None  # all parameters as one array, from the first `read` on
        self._set(broadcast(self._get()))
        self._pace = self._at_own_pace if rule.asynchronous else self._in_step
        if rule.asynchronous and self.comm.size > 1 and (dtype := self.read().dtype) != np.float32:
            text = f"{rule.name} exchanges float32, and params are {dtype}"
            raise QuestionError(text, "make them float32, or choose BSP")
        self._rule = rule.of(self, (1,) * self.comm.size, 1, alone=self.comm.size == 1)
        self._rule.begin()

    # --- what the rule asks for

    def read(self) -> Array:
        """Return one array of all parameters, with what they are now."""
        every = [each.reshape(-1) for each in self._get()]
        self._flat = np.concatenate(every, out=self._flat)
        return self._flat  # type: ignore[no-any-return]

    def put(self) -> None:
        """Change all parameters to what the one array has."""
        self._set(parts(self._flat, self._get()))

    def spend(self, phase: str) -> None:
        """Do nothing: times are those of `gpumap bench train`."""

    def _get(self) -> list[Array]:
        """Return each parameter as an array."""
        params = self._model.params
        return [np.asarray(p.get_value() if hasattr(p, "get_value") else p) for p in params]

    def _set(self, arrays: Sequence[Array]) -> None:
        """Change each parameter."""
        for param, array in zip(self._model.params, arrays, strict=True):
            if hasattr(param, "set_value"):
                param.set_value(array)
            else:
                param[...] = array

    # --- epochs

    def epoch(self, number: int) -> dict[str, float | None]:
        """Train and validate an epoch; return losses and errors, the means over all batches."""
        model, recorder = self._model, Recorder()
        model.epoch, self._rank_batches, self._recorder = number, 0, recorder
        self._reset("train")
        self._pace(ceil(self._batches / self.comm.size))
        parameters = [array.copy() for array in self._get()]
        self._set(self.trained())
        self._reset("val")
        first, step = (0, 1) if self._shards else (self.comm.rank, self.comm.size)
        for count in range(first, int(model.data.n_batch_val), step):
            model.val_iter(count, recorder)
        self._set(parameters)
        model.adjust_hyperp(number)
        trained = _means(recorder.train, "loss", "error")
        validated = _means(recorder.val, "val_loss", "val_error", "val_error_top5")
        return {"epoch": number, **trained, **validated}

    def trained(self) -> list[Array]:
        """Return the trained parameters, the same on all ranks; by EASGD those of the center."""
        return parts(self.comm.broadcast(self._rule.parameters()), self._get())

    def _in_step(self, steps: int) -> None:
        """Take as many batches as every other rank."""
        for step in range(steps):
            taken = self._take(step * self.comm.size + self.comm.rank)
            self._set(average(self._get(), float(taken)))

    def _at_own_pace(self, steps: int) -> None:
        """Take this rank's share of `steps` batches of all ranks."""
        server = self._rule.server
        server.taken = server.until = 0
        server.extend(steps)
        with self.comm.serve(server.answer) as ask:
            while (batch := ask(1))[1]:
                self._rule.before_step()
                self._take(batch[0])
                self._rule.after_update(ask)
        self._rule.end()

    @property
    def _batches(self) -> int:
        """Return how many batches all ranks train on in an epoch."""
        return int(self._model.data.n_batch_train) * (self.comm.size if self._shards else 1)

    def _take(self, place: int) -> bool:
        """Train on the batch at a position; return whether the epoch has one there."""
        if place >= self._batches:
            return False
        count = self._rank_batches % int(self._model.data.n_batch_train) if self._shards else place
        self._model.train_iter(count, self._recorder)
        self._rank_batches += 1
        return True

    def _reset(self, mode: str) -> None:
        if hasattr(self._model, "reset_iter"):
            self._model.reset_iter(mode)


def train(rule: RuleSpec, modelfile: str, modelclass: str, path: str | Path = "") -> list[Any]:
    """Train a ModelClass for its epochs, on every rank; return the results of each epoch.

    Args:
        rule: bsp, easgd or gosgd.
        modelfile: its module, as models.modelfile.
        modelclass: its class.
        path: what rank 0 writes the parameters to, at the end.

    Raises:
        QuestionError: it cannot be loaded, or lacks something.
    """
    model, shards = _made(modelfile, modelclass)
    session, epochs = Session(model, rule, shards=shards), []
    for number in range(int(getattr(model, "n_epochs", 1))):
        epochs.append(session.epoch(number))
        if not rank():
            text = (f"{key} {value:.4g}" for key, value in epochs[-1].items() if value is not None)
            sys.stdout.write(f"{', '.join(text)}\n")
            sys.stdout.flush()
    if path:
        checkpoint(path, session.trained())
    model.cleanup()
    return epochs


def _made(modelfile: str, modelclass: str) -> tuple[Any, bool]:
    """Return a model, and whether it was given its rank."""
    try:
        model_class = getattr(import_module(modelfile), modelclass)
    except (ImportError, AttributeError) as error:
        fix = f"start it in the folder of {modelfile.replace('.', '/')}.py"
        raise QuestionError(f"{modelfile}.{modelclass} cannot be loaded: {error}", fix) from error
    shards = bool(inspect.signature(model_class).parameters)
    config = {"rank": rank(), "size": ranks(), "verbose": not rank()}
    model = model_class(config) if shards else model_class()
    if not hasattr(model, "params") and hasattr(model, "build_model"):
        model.build_model()
    lacking = [name for name in _METHODS if not callable(getattr(model, name, None))]
    lacking += [] if hasattr(model, "data") else ["data"]
    lacking += [] if len(getattr(model, "params", ())) else ["params"]
    if lacking:
        raise QuestionError(f"{modelfile}.{modelclass} has no {', no '.join(lacking)}", _HAS)
    takes = inspect.signature(model.compile_iter_fns).parameters
    model.compile_iter_fns(*(("avg",) if takes else ()))
    return model, shards


def _means(reported: Sequence[tuple[float, ...]], *names: str) -> dict[str, float | None]:
    """Return the mean of each column over the rows of all ranks; None without rows."""
    rows = np.array(reported, np.float64).reshape(-1, len(names))
    (sums,) = average([np.append(rows.sum(axis=0), len(rows))])
    means = [float(each / sums[-1]) if sums[-1] else None for each in sums[:-1]]
    return dict(zip(names, means, strict=True))


def main(arguments: Sequence[str]) -> int:
    """Run a rank: rule, module, class, and the files of the epochs and of the parameters."""
    rule, modelfile, modelclass, *files = arguments
    epochs, path = files or ("", "")
    try:
        results = train(RuleSpec(**json.loads(rule)), modelfile, modelclass, path)
    except GpumapError as error:
        if not rank():
            sys.stderr.write(written((f"error: {error}", f"  fix: {error.diagnostics[0].hint}")))
        return int(error.exit_code)
    if epochs and not rank():
        Path(epochs).write_text(json.dumps(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
