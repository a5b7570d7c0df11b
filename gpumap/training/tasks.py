"""Trainable networks: a network of layers, or a class of the user.

A user's class has a list of arrays and two methods:

    parameters                 a list of float32 arrays; gpumap changes them in place
    batch(numbers)             examples by their numbers, an int64 array: (x, y), whatever they are
                               but that len(x) is as many as were requested
    gradients(x, y, share)     a list of arrays as `parameters` has: the gradient of `share` times
                               the sum of the losses of these examples
    loss(x, y), accuracy(x, y)     of examples, for --learn; they may be missing

A torch.nn.Module has `batch` and `loss`, and the rest by autograd (`gpumap.training.torch_module`).

It is made without arguments, once for each worker, and must begin with the same parameters each
time. What it does it does where it likes; its parameters and gradients are exchanged and updated on
the worker's device.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from gpumap.backends.base import require
from gpumap.dtypes import Array, np
from gpumap.errors import QuestionError
from gpumap.training.network import ITEM, Order
from gpumap.training.torch_module import METHODS as MODULE_METHODS
from gpumap.training.torch_module import TorchNetwork, is_module

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.backends.base import Buffer, Session


_METHODS = ("batch", "gradients")
_INTERFACE = "a network of one's own has parameters, batch and gradients: see README"
_MODULE = "a torch.nn.Module has batch and loss, too: see docs/training.md"
_MODEL_CLASS = "train it by gpumap.BSP().init(devices, modelfile, modelclass), or gpumap run --cfg"
_FAILING = (Exception, SystemExit)  # errors of the user's code; a script may exit
_MAKING = threading.RLock()  # of objects of a user's class


class Data(Protocol):
    """Examples by their numbers, in an order that is new in each epoch."""

    count: int

    def numbers(self, start: int, stop: int) -> Array:
        """Return which examples the places `start` to `stop` of an endless training hold."""

    def batch(self, numbers: Array) -> tuple[Any, Any]:
        """Return examples by their numbers."""


class Model(Protocol):
    """A network on a session: all of its parameters in one buffer, their gradient in another."""

    session: Session
    weights: Buffer
    gradient: Buffer
    examples: int

    def put(self, parameters: Array) -> None:
        """Queue the copy of parameters to the device."""

    def load(self, x: Any, y: Any) -> None:
        """Queue the copy of a batch to the device."""

    def compute(self, share: float) -> None:
        """Queue the gradient of `share` times the sum of the examples' losses."""


class Trainable(Protocol):
    """A network that can be trained: its parameters are one array of float32."""

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
        """Yield the slice of each block of parameters."""

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


class UserNetwork:
    """A network by the user's class, ``module:Class``."""

    def __init__(self, text: str, name: str | None = None) -> None:
        """Load it, from the working directory too; `name`: if it is not the text.

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
        """Return a new object of the class; one at a time: it may seed what threads share."""
        with _MAKING, _running(self.name, "cannot be made"):
            return self._class()

    def initial(self, seed: int) -> Array:  # noqa: ARG002 - it knows its own
        """Return the parameters of a new object.

        Raises:
            QuestionError: they differ each time.
        """
        result = _flat(_arrays(self.name, self.made()))
        if result.tobytes() != _flat(self._arrays).tobytes():
            message = "begins with other parameters each time that it is made"
            raise _refused(self.name, message)
        return result

    def memory(self, examples: int) -> int:  # noqa: ARG002 - it is elsewhere
        """Return the bytes of the parameters and their gradient."""
        return 2 * ITEM * self.parameters

    def operations(self, examples: int) -> int:  # noqa: ARG002 - unknown
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

    def data(self, count: int, seed: int) -> UserData:
        """Return examples that the class makes."""
        return UserData(self.name, self._first, count, seed)

    def model(self, session: Session, most: int) -> UserModel:  # noqa: ARG002 - it is elsewhere
        """Return an object of the class, with its parameters on a session."""
        return UserModel(self.name, self.made(), session)

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
        with _running(self.name, f"{method} failed"):
            return float(getattr(other, method)(x, y))


class UserData(Order):
    """Examples that the user's class makes."""

    def __init__(self, name: str, net: Any, count: int, seed: int) -> None:
        super().__init__(count, seed)
        self._name, self._net = name, net
        self._lock = threading.Lock()  # ranks of one process share the object

    def batch(self, numbers: Array) -> tuple[Any, Any]:
        """Return examples by their numbers."""
        with self._lock, _running(self._name, "batch failed"):
            x, y = self._net.batch(numbers)
            count = len(x)
        if count != len(numbers):
            message = f"batch made {count} examples, and {len(numbers)} were requested"
            raise _refused(self._name, message)
        return x, y


class UserModel:
    """An object of the user's class: it computes where it likes, and is exchanged on a session."""

    def __init__(self, name: str, net: Any, session: Session) -> None:
        require(session, "kernels", "training a network")
        self._name, self._net = name, net
        self.session = session
        size = sum(array.size for array in _arrays(name, net))
        self.weights: Buffer = session.empty((size,), "float32")
        self.gradient: Buffer = session.empty((size,), "float32")
        self.examples = 0
        self._batch: tuple[Any, Any] = (None, None)

    def put(self, parameters: Array) -> None:
        """Queue the copy of parameters to the device."""
        self.session.upload(parameters, self.weights)

    def load(self, x: Any, y: Any) -> None:
        """Store a batch: the class copies it to where it computes."""
        self._batch, self.examples = (x, y), len(x)

    def compute(self, share: float) -> None:
        """Let the class compute, and queue the copy of its gradient to the device."""
        flat = np.empty(self.weights.shape, np.float32)
        self.session.download(self.weights, flat)
        self.session.synchronize()
        _put(self._name, self._net, flat)
        self.session.upload(_gradients(self._name, self._net, *self._batch, share), self.gradient)


def _loaded(text: str) -> Any:
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        fix = "write module:Class, as in my_network:MyNetwork"
        raise QuestionError(f'"{text}" names no class', fix)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        user_class = getattr(import_module(module), name)
    except _FAILING as error:
        raise _refused(
            text, f"cannot be loaded: {_error_text(error)}", _missing(error, module)
        ) from error
    is_torch = is_module(user_class)
    needed, fix = (MODULE_METHODS, _MODULE) if is_torch else (_METHODS, _INTERFACE)
    lacking = [method for method in needed if not callable(getattr(user_class, method, None))]
    if lacking and callable(getattr(user_class, "train_iter", None)):
        raise _refused(text, "is Theano-MPI's ModelClass, and not measured", _MODEL_CLASS)
    if lacking:
        raise _refused(text, f"has no method {' and no method '.join(lacking)}", fix)
    return partial(TorchNetwork, user_class) if is_torch else user_class


def _arrays(name: str, net: Any) -> list[Array]:
    with _running(name, "parameters failed"):
        arrays = getattr(net, "parameters", None)
    if not isinstance(arrays, list) or not arrays:
        raise _refused(name, "has no list of arrays that is called parameters")
    for number, array in enumerate(arrays):
        if (message := _no_parameters(array)) is not None:
            raise _refused(name, f"parameters[{number}] is {message}")
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


def _gradients(name: str, net: Any, x: Any, y: Any, share: float) -> Array:
    shapes = [array.shape for array in _arrays(name, net)]
    with _running(name, "gradients failed"):
        gradients = [np.asarray(array) for array in net.gradients(x, y, share)]
    given = [array.shape for array in gradients]
    if given != shapes:
        raise _refused(name, f"gradients are of shapes {given}, and its parameters of {shapes}")
    others = [str(array.dtype) for array in gradients if array.dtype.kind != "f"]
    if others:
        raise _refused(name, f"gradients are no floating-point numbers: {others[0]}")
    return _flat(gradients)


def _flat(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.asarray(array, np.float32).reshape(-1) for array in arrays])


def _put(name: str, net: Any, flat: Array) -> None:
    """Change the parameters of an object, wherever it has them now."""
    arrays, start = _arrays(name, net), 0
    if sum(array.size for array in arrays) != flat.size:
        raise _refused(name, "has other parameters than it was made with")
    for array in arrays:
        stop = start + array.size
        array[...] = flat[start:stop].reshape(array.shape)
        start = stop


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


def _missing(error: BaseException, module: str) -> str:
    """Return the fix where it is the module itself that is not found, or a package around it."""
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        file = module.replace(".", "/") + ".py"
        return f"start it in the folder that {file} is in, or add that folder to PYTHONPATH"
    return _INTERFACE


def _refused(name: str, message: str, fix: str = _INTERFACE) -> QuestionError:
    return QuestionError(f"{name} {message}", fix)


TOKENS, WIDTH, HEADS, HIDDEN = 16, 64, 4, 256
_LEAST = 1e-5  # what a layer norm adds to the variance


class Transformer:
    """A transformer block in NumPy, as a user's class: `--preset transformer`.

    Attention and a multilayer perceptron, each behind a layer norm and beside what goes around it
    (the order of Xiong et al., arXiv:2002.04745; attention as Vaswani et al., arXiv:1706.03762),
    then the mean over the tokens and a sigmoid. Its examples are sequences of random tokens, and
    the question is on which side of a plane their mean is.
    """

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        d = WIDTH
        shapes = [(d, 3 * d), (d, d), (d, HIDDEN), (HIDDEN, d), (d, 1)]
        qkv, out, up, down, last = (rng.standard_normal(s) * s[0] ** -0.5 for s in shapes)
        ones, zeros = np.ones(d), np.zeros(d)
        parameters = [ones, zeros, qkv, out, ones, zeros, up, np.zeros(HIDDEN), down, zeros, last]
        self.parameters = [np.array(each, np.float32) for each in [*parameters, np.zeros(1)]]
        self._plane = rng.standard_normal(d)

    def batch(self, numbers: Array) -> tuple[Array, Array]:
        """Return sequences by their numbers, the same ones each time, and the answers."""
        x = np.empty((len(numbers), TOKENS, WIDTH), np.float32)
        for sequence, number in zip(x, numbers.tolist(), strict=True):
            np.random.default_rng(number).standard_normal(out=sequence, dtype=np.float32)
        y = x.mean(axis=1, dtype=np.float64) @ self._plane > 0
        return x, y.astype(np.float32)

    def loss(self, x: Array, y: Array) -> float:
        """Return the mean cross-entropy of examples."""
        p = self._forward(x)[0].astype(np.float64).clip(1e-7, 1 - 1e-7)
        return float(-(y * np.log(p) + (1 - y) * np.log(1 - p)).mean())

    def accuracy(self, x: Array, y: Array) -> float:
        """Return the share of examples that are answered right."""
        return float((self._forward(x)[0].round() == y).mean())

    def gradients(self, x: Array, y: Array, share: float) -> list[Array]:
        """Return the gradient of `share` times the sum of the losses."""
        gain1, shift1, qkv, out, gain2, shift2, up, _, down, _, last, _ = self.parameters
        p, (norm1, heads, attention, joined, norm2, hidden, pooled) = self._forward(x)
        wrong = ((p - y) * p.dtype.type(share))[:, None]
        dz = np.broadcast_to((wrong @ last.T)[:, None] / TOKENS, x.shape)
        dhidden = (dz @ down.T) * (hidden > 0)
        dnorm2 = dhidden @ up.T
        more, dgain2, dshift2 = _norm_back(dnorm2, gain2, *norm2)
        dh = dz + more
        dheads = _heads_back(_split(dh @ out.T, 1)[0], attention, heads)
        dqkv = dheads.transpose(1, 3, 0, 2, 4).reshape(*x.shape[:2], 3 * WIDTH)
        _, dgain1, dshift1 = _norm_back(dqkv @ qkv.T, gain1, *norm1)
        first, second, each = norm1[0] * gain1 + shift1, norm2[0] * gain2 + shift2, (0, 1)
        return [dgain1, dshift1, _product(first, dqkv), _product(joined, dh), dgain2, dshift2,
                _product(second, dhidden), dhidden.sum(each), _product(hidden, dz), dz.sum(each),
                pooled.T @ wrong, wrong.sum(0)]  # fmt: skip

    def _forward(self, x: Array) -> tuple[Array, tuple]:  # type: ignore[type-arg]
        """Return the output of each example, and what the way back needs."""
        gain1, shift1, qkv, out, gain2, shift2, up, bias, down, end, last, c = self.parameters
        norm1 = _norm(x)
        heads = _split((norm1[0] * gain1 + shift1) @ qkv, 3)
        scores = heads[0] @ heads[1].swapaxes(-1, -2) * (WIDTH // HEADS) ** -0.5
        attention = np.exp(scores - scores.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        joined = (attention @ heads[2]).swapaxes(1, 2).reshape(x.shape)
        h = x + joined @ out
        norm2 = _norm(h)
        hidden = np.maximum((norm2[0] * gain2 + shift2) @ up + bias, 0)
        pooled = (h + hidden @ down + end).mean(axis=1)
        p = 1 / (1 + np.exp(-(pooled @ last + c)[:, 0]))
        return p, (norm1, heads, attention, joined, norm2, hidden, pooled)


def _norm(x: Array) -> tuple[Array, Array]:
    """Return tokens of mean 0 and variance 1, and what they were multiplied by."""
    scale = (x.var(axis=-1, keepdims=True) + _LEAST) ** -0.5
    return (x - x.mean(axis=-1, keepdims=True)) * scale, scale


def _norm_back(d: Array, gain: Array, n: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Return the derivatives by what was normed, by the gain and by the shift."""
    dn = d * gain
    rest = dn.mean(-1, keepdims=True) + n * (dn * n).mean(-1, keepdims=True)
    return scale * (dn - rest), (d * n).sum((0, 1)), d.sum((0, 1))


def _split(x: Array, parts: int) -> Array:
    """Return (parts, examples, heads, tokens, numbers of a head)."""
    result: Array = x.reshape(*x.shape[:2], parts, HEADS, -1).transpose(2, 0, 3, 1, 4)
    return result


def _heads_back(d: Array, attention: Array, heads: Array) -> Array:
    """Return the derivatives by queries, keys and values."""
    query, key, value = heads
    dp = d @ value.swapaxes(-1, -2)
    ds = attention * (dp - (dp * attention).sum(-1, keepdims=True)) * (WIDTH // HEADS) ** -0.5
    return np.stack([ds @ key, ds.swapaxes(-1, -2) @ query, attention.swapaxes(-1, -2) @ d])


def _product(a: Array, b: Array) -> Array:
    """Return the sum over examples and tokens of a number of one by a number of the other."""
    result: Array = a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])
    return result
