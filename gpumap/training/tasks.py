"""Tasks of a training: a network of layers, or a class of the user's own.

A class of one's own has a list of arrays and two methods:

    parameters                 a list of float32 arrays; gpumap changes them in place
    batch(numbers)             examples by their numbers, an int64 array: (x, y), whatever they are
                               but that len(x) is as many as were asked for
    gradients(x, y, share)     a list of arrays as `parameters` has: the gradient of `share` times
                               the sum of the losses of these examples
    loss(x, y), accuracy(x, y)     of examples, for --learn; they may be missing

It is made without arguments, once for each worker, and must begin with the same parameters each
time. What it does it does where it likes; its parameters and gradients are exchanged and updated on
the worker's device.
"""

from __future__ import annotations

import sys
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from gpumap.backends.base import require
from gpumap.dtypes import Array, np
from gpumap.errors import QuestionError
from gpumap.training.examples import Order
from gpumap.training.network import ITEM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.backends.base import Buffer, Session
    from gpumap.training.workers import Model


_METHODS = ("batch", "gradients")
_INTERFACE = "a network of one's own has parameters, batch and gradients: see README"
_MODEL_CLASS = "train it by gpumap.BSP().init(devices, modelfile, modelclass), or gpumap run --cfg"
_FAILING = (Exception, SystemExit)  # whatever code of the user's comes to; a script may end itself


class Data(Protocol):
    """Examples by their numbers, in an order that is new in each epoch."""

    count: int

    def numbers(self, start: int, stop: int) -> Array:
        """Return which examples the places `start` to `stop` of an endless training hold."""

    def batch(self, numbers: Array) -> tuple[Any, Any]:
        """Return examples by their numbers."""


class Task(Protocol):
    """What is trained: its parameters are one array of float32."""

    name: str

    def __hash__(self) -> int: ...

    @property
    def parameters(self) -> int:
        """How many there are."""

    def initial(self, seed: int) -> Array:
        """Return the parameters to begin with."""

    def memory(self, examples: int) -> int:
        """Return the bytes that a worker takes on its device, without an optimizer."""

    def operations(self, examples: int) -> int:
        """Return the floating-point operations of a gradient; 0 where they are not known."""

    def about(self) -> Iterator[str]:
        """Yield a line for each layer, or array."""

    def blocks(self) -> Iterator[slice]:
        """Yield where the parameters are that belong together."""

    def data(self, count: int, seed: int) -> Data:
        """Return so many examples."""

    def model(self, session: Session, most: int) -> Model:
        """Return it on a session, for batches of up to `most` examples."""

    def gradient(self, parameters: Array, x: Any, y: Any, share: float) -> Array:
        """Return the gradient again, on the host."""

    def loss(self, parameters: Array, x: Any, y: Any) -> float | None:
        """Return the mean loss of examples, on the host; None where there is no way to know it."""

    def accuracy(self, parameters: Array, x: Any, y: Any) -> float | None:
        """Return the share of outputs that are right, on the host; None as above."""


class Own:
    """A class of the user's own, by ``module:Class``."""

    def __init__(self, text: str, name: str | None = None) -> None:
        """Load it, from the working directory too; `name` is its own, if not the text.

        Raises:
            QuestionError: it cannot be loaded or made, or lacks something.
        """
        self.name = name or text
        self._class = _loaded(text)
        self._first = self.made()
        self._arrays = _arrays(text, self._first)

    @cached_property
    def parameters(self) -> int:
        """Return how many there are."""
        return sum(array.size for array in self._arrays)

    def made(self) -> Any:
        """Return a new object of the class."""
        try:
            return self._class()
        except _FAILING as error:
            raise _refused(self.name, f"cannot be made: {_said(error)}") from error

    def initial(self, seed: int) -> Array:  # noqa: ARG002 - it knows its own
        """Return the parameters that it is made with.

        Raises:
            QuestionError: they are others each time.
        """
        found = _flat(_arrays(self.name, self.made()))
        if found.tobytes() != _flat(self._arrays).tobytes():
            said = "begins with other parameters each time that it is made"
            raise _refused(self.name, said)
        return found

    def memory(self, examples: int) -> int:  # noqa: ARG002 - it is elsewhere
        """Return the bytes of the parameters and their gradient."""
        return 2 * ITEM * self.parameters

    def operations(self, examples: int) -> int:  # noqa: ARG002 - nobody knows
        """Return 0: they are not known."""
        return 0

    def about(self) -> Iterator[str]:
        """Yield a line for each array."""
        for number, array in enumerate(self._arrays):
            yield f"parameters[{number}] {array.shape}, {array.size:,} of them"

    def blocks(self) -> Iterator[slice]:
        """Yield where each array is."""
        start = 0
        for array in self._arrays:
            yield slice(start, start + array.size)
            start += array.size

    def data(self, count: int, seed: int) -> OwnData:
        """Return examples that the class makes."""
        return OwnData(self.name, self._first, count, seed)

    def model(self, session: Session, most: int) -> OwnModel:  # noqa: ARG002 - it is elsewhere
        """Return an object of the class, with its parameters on a session."""
        return OwnModel(self.name, self.made(), session)

    def gradient(self, parameters: Array, x: Any, y: Any, share: float) -> Array:
        """Return the gradient by another object of the class."""
        other = self.made()
        _put(self.name, other, parameters)
        return _gradients(self.name, other, x, y, share)

    def loss(self, parameters: Array, x: Any, y: Any) -> float | None:
        """Return the mean loss of examples; None where the class has no method for that."""
        return self._judged("loss", parameters, x, y)

    def accuracy(self, parameters: Array, x: Any, y: Any) -> float | None:
        """Return the share of right outputs; None where the class has no method for that."""
        return self._judged("accuracy", parameters, x, y)

    def _judged(self, method: str, parameters: Array, x: Any, y: Any) -> float | None:
        other = self.made()
        if not callable(getattr(other, method, None)):
            return None
        _put(self.name, other, parameters)
        try:
            return float(getattr(other, method)(x, y))
        except _FAILING as error:
            raise _refused(self.name, f"{method} failed: {_said(error)}") from error


class OwnData(Order):
    """Examples that a class of the user's own makes."""

    def __init__(self, name: str, own: Any, count: int, seed: int) -> None:
        super().__init__(count, seed)
        self._name, self._own = name, own

    def batch(self, numbers: Array) -> tuple[Any, Any]:
        """Return examples by their numbers."""
        try:
            x, y = self._own.batch(numbers)
            count = len(x)
        except _FAILING as error:
            raise _refused(self._name, f"batch failed: {_said(error)}") from error
        if count != len(numbers):
            said = f"batch made {count} examples, and {len(numbers)} were requested"
            raise _refused(self._name, said)
        return x, y


class OwnModel:
    """An object of the user's class: it computes where it likes, and is exchanged on a session."""

    def __init__(self, name: str, own: Any, session: Session) -> None:
        require(session, "kernels", "training a network")
        self._name, self._own = name, own
        self.session = session
        size = sum(array.size for array in _arrays(name, own))
        self.weights: Buffer = session.empty((size,), "float32")
        self.gradient: Buffer = session.empty((size,), "float32")
        self.examples = 0
        self._batch: tuple[Any, Any] = (None, None)

    def put(self, parameters: Array) -> None:
        """Queue the copy of parameters to the device."""
        self.session.upload(parameters, self.weights)

    def load(self, x: Any, y: Any) -> None:
        """Keep a batch: the class brings it to where it computes."""
        self._batch, self.examples = (x, y), len(x)

    def compute(self, share: float) -> None:
        """Let the class compute, and queue the copy of its gradient to the device."""
        flat = np.empty(self.weights.shape, np.float32)
        self.session.download(self.weights, flat)
        self.session.synchronize()
        _put(self._name, self._own, flat)
        self.session.upload(_gradients(self._name, self._own, *self._batch, share), self.gradient)


def _loaded(text: str) -> Any:
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        fix = "write module:Class, as in my_network:MyNetwork"
        raise QuestionError(f'"{text}" names no class', fix)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name)
    except _FAILING as error:
        raise _refused(
            text, f"cannot be loaded: {_said(error)}", _missing(error, module)
        ) from error
    lacking = [method for method in _METHODS if not callable(getattr(found, method, None))]
    if lacking and callable(getattr(found, "train_iter", None)):
        raise _refused(text, "is Theano-MPI's ModelClass, and not measured", _MODEL_CLASS)
    if lacking:
        raise _refused(text, f"has no method {' and no method '.join(lacking)}")
    return found


def _arrays(name: str, own: Any) -> list[Array]:
    try:
        arrays = getattr(own, "parameters", None)
    except _FAILING as error:
        raise _refused(name, f"parameters failed: {_said(error)}") from error
    if not isinstance(arrays, list) or not arrays:
        raise _refused(name, "has no list of arrays that is called parameters")
    for number, array in enumerate(arrays):
        if (said := _no_parameters(array)) is not None:
            raise _refused(name, f"parameters[{number}] is {said}")
    if len({id(array) for array in arrays}) < len(arrays):
        raise _refused(name, "has an array twice among its parameters")
    return arrays


def _no_parameters(array: Any) -> str | None:
    """Return what is wrong with an array of parameters."""
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        return f"no float32 array: {getattr(array, 'dtype', type(array).__name__)}"
    if not array.size:
        return f"empty: its shape is {array.shape}"
    return None if array.flags.writeable else "read-only, and is to be changed in place"


def _gradients(name: str, own: Any, x: Any, y: Any, share: float) -> Array:
    shapes = [array.shape for array in _arrays(name, own)]
    try:
        found = [np.asarray(array) for array in own.gradients(x, y, share)]
    except _FAILING as error:
        raise _refused(name, f"gradients failed: {_said(error)}") from error
    given = [array.shape for array in found]
    if given != shapes:
        raise _refused(name, f"gradients are of shapes {given}, and its parameters of {shapes}")
    others = [str(array.dtype) for array in found if array.dtype.kind != "f"]
    if others:
        raise _refused(name, f"gradients are no floating-point numbers: {others[0]}")
    return _flat(found)


def _flat(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.asarray(array, np.float32).reshape(-1) for array in arrays])


def _put(name: str, own: Any, flat: Array) -> None:
    """Change the parameters of an object, wherever it has them now."""
    arrays, start = _arrays(name, own), 0
    if sum(array.size for array in arrays) != flat.size:
        raise _refused(name, "has other parameters than it was made with")
    for array in arrays:
        stop = start + array.size
        array[...] = flat[start:stop].reshape(array.shape)
        start = stop


def _said(error: BaseException) -> str:
    """Return an exception as one line: what it says is not ours."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _missing(error: BaseException, module: str) -> str:
    """Return the fix where it is the module itself that is not found, or a package around it."""
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        file = module.replace(".", "/") + ".py"
        return f"start it in the folder that {file} is in, or add that folder to PYTHONPATH"
    return _INTERFACE


def _refused(name: str, said: str, fix: str = _INTERFACE) -> QuestionError:
    return QuestionError(f"{name} {said}", fix)
