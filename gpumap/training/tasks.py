"""Trainable networks: a network of layers, or a class of the user.

A user's class has a list of arrays and two methods:

    parameters                 a list of float32 arrays; gpumap changes them in place
    batch(numbers)             examples by their numbers, an int64 array: (x, y), whatever they are
                               but that len(x) is as many as were requested
    gradients(x, y, share)     a list of arrays as `parameters` has: the gradient of `share` times
                               the sum of the losses of these examples
    loss(x, y), accuracy(x, y)     of examples, for --learn; they may be missing

A torch.nn.Module has `batch` and `loss`, and the rest by autograd (`gpumap.training.torch_module`).

It is made without arguments, once for each worker; all begin with the parameters of the first one.
What it does it does where it likes; its parameters and gradients are exchanged and updated on the
worker's device.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from functools import cached_property, partial
from importlib import import_module
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import Array, np
from gpumap.errors import QuestionError
from gpumap.training.loop import parts
from gpumap.training.network import ITEM, Model, Network, Order, fetched
from gpumap.training.torch_module import TorchNetwork, is_module

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.backends.base import Session


_INTERFACE = (
    "a network of one's own has parameters, batch and gradients, a torch.nn.Module batch and loss: "
    "see docs/training.md"
)
_FAILING = (Exception, SystemExit)  # errors of the user's code; a script may exit
_LOCK = threading.RLock()  # of objects of a user's class


class UserNetwork:
    """A network by the user's class, ``module:Class``, from the working directory too.

    It is loaded when it is first used, which raises QuestionError where it cannot be, or where it
    lacks something.
    """

    def __init__(self, text: str, name: str | None = None) -> None:
        self._text, self.name = text, name or text

    @cached_property
    def _first(self) -> Any:
        return self.made()

    @cached_property
    def parameters(self) -> int:
        """Return how many there are."""
        return self.initial(0).size

    def made(self) -> Any:
        """Return a new object of the class; one at a time: it may seed what threads share."""
        make = _loaded(self._text)
        with _LOCK, _running(self.name, "cannot be made"):
            return make()

    def initial(self, seed: int) -> Array:  # noqa: ARG002 - it knows its own
        """Return the parameters of the first object."""
        return _flat(_arrays(self.name, self._first))

    def memory(self, examples: int) -> int:  # noqa: ARG002 - it is elsewhere
        """Return the bytes of the parameters and their gradient."""
        return 2 * ITEM * self.parameters

    def operations(self, examples: int) -> int:  # noqa: ARG002 - unknown
        """Return 0: they are not known."""
        return 0

    def blocks(self) -> Iterator[slice]:
        """Yield where each array is."""
        sizes = (array.size for array in _arrays(self.name, self._first))
        return (slice(*ends) for ends in pairwise(accumulate(sizes, initial=0)))

    def data(self, count: int, seed: int) -> Order:
        """Return examples that the class makes."""
        return Order(count, seed, self._batch)

    def _batch(self, numbers: Array) -> tuple[Any, Any]:
        """Return examples by their numbers; ranks share the object, and come one at a time."""
        network = self._first
        with _running(self.name, "batch failed"):
            x, y = network.batch(numbers)
            count = len(x)
        if count != len(numbers):
            message = f"batch made {count} examples, and {len(numbers)} were requested"
            raise _refused(self.name, message)
        return x, y

    def model(self, session: Session, most: int) -> UserModel:  # noqa: ARG002 - it is elsewhere
        """Return an object of the class, with its parameters on a session."""
        return UserModel(self.name, self.made(), session)

    def gradient(self, parameters: Array, x: Any, y: Any, share: float) -> Array:
        """Return the gradient by another object of the class."""
        other = self.made()
        _put(self.name, other, parameters)
        return _gradients(self.name, other, x, y, share)

    def judged(self, method: str, parameters: Array, x: Any, y: Any) -> float | None:
        """Return loss or accuracy of examples; None where the class has no method for that."""
        other = self.made()
        if not callable(getattr(other, method, None)):
            return None
        _put(self.name, other, parameters)
        with _running(self.name, f"{method} failed"):
            return float(getattr(other, method)(x, y))


class UserModel(Model):
    """An object of the user's class: it computes where it likes, and is exchanged on a session."""

    def __init__(self, name: str, net: Any, session: Session) -> None:
        super().__init__(session, sum(array.size for array in _arrays(name, net)))
        self._name, self._net = name, net
        self._batch: tuple[Any, Any] = (None, None)

    def load(self, x: Any, y: Any) -> None:
        """Store a batch: the class copies it to where it computes."""
        self._batch = x, y

    def compute(self, share: float) -> None:
        """Let the class compute, and queue the copy of its gradient to the device."""
        _put(self._name, self._net, fetched(self.weights))
        self.session.upload(_gradients(self._name, self._net, *self._batch, share), self.gradient)


Trainable = Network | UserNetwork  # what can be trained: its parameters are one array of float32


def _loaded(text: str) -> Any:
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        fix = "write module:Class, as in my_network:MyNetwork; one of gpumap's is a --preset"
        raise QuestionError(f'"{text}" names no class', fix)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        user_class = getattr(import_module(module), name)
    except _FAILING as error:
        fix = f"start it in the folder of {module.replace('.', '/')}.py, or set PYTHONPATH to it"
        raise QuestionError(f"{text} cannot be loaded: {_error_text(error)}", fix) from error
    is_torch = is_module(user_class)
    needed = ("batch", "loss" if is_torch else "gradients")
    lacking = [method for method in needed if not callable(getattr(user_class, method, None))]
    if lacking:
        raise _refused(text, f"has no method {' and no method '.join(lacking)}")
    return partial(TorchNetwork, user_class) if is_torch else user_class


def _arrays(name: str, net: Any) -> list[Array]:
    with _running(name, "parameters failed"):
        arrays = getattr(net, "parameters", None)
    if not isinstance(arrays, list) or not arrays:
        raise _refused(name, "has no list of arrays that is called parameters")
    for number, array in enumerate(arrays):
        if not isinstance(array, np.ndarray) or array.dtype != np.float32:
            kind = getattr(array, "dtype", type(array).__name__)
            raise _refused(name, f"parameters[{number}] is no float32 array: {kind}")
    return arrays


def _gradients(name: str, net: Any, x: Any, y: Any, share: float) -> Array:
    shapes = [array.shape for array in _arrays(name, net)]
    with _running(name, "gradients failed"):
        gradients = [np.asarray(array, np.float32) for array in net.gradients(x, y, share)]
    given = [array.shape for array in gradients]
    if given != shapes:
        raise _refused(name, f"gradients are of shapes {given}, and its parameters of {shapes}")
    return _flat(gradients)


def _flat(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.asarray(array, np.float32).reshape(-1) for array in arrays])


def _put(name: str, net: Any, flat: Array) -> None:
    """Change the parameters of an object, wherever it has them now."""
    arrays = _arrays(name, net)
    with _running(name, "parameters cannot be changed"):
        for array, part in zip(arrays, parts(flat, arrays), strict=True):
            array[...] = part


@contextmanager
def _running(name: str, failed: str) -> Iterator[None]:
    """Refuse the user's class where its code, run inside the `with`, fails."""
    try:
        yield
    except _FAILING as error:
        raise _refused(name, f"{failed}: {_error_text(error)}") from error


def _error_text(error: BaseException) -> str:
    """Return an exception as one line: what it says is not ours."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _refused(name: str, message: str) -> QuestionError:
    return QuestionError(f"{name} {message}", _INTERFACE)
