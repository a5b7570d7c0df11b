"""A multilayer perceptron: its layers, a replica of it on a session, its examples, and presets.

All parameters of a network are one array, layer by layer: the weights (inputs x units, C order),
then the biases. One array is exchanged and updated at once, in one call each.

A replica computes a = f(x.W + b) layer by layer, and back (Rumelhart, Hinton & Williams, Nature
323, 1986). The last layer's f is the sigmoid, with the binary cross-entropy as the loss, whose
derivative by x.W + b is output - target. The loss of a batch is the mean over its examples and over
the units of the last layer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpumap.backends.base import require
from gpumap.dtypes import Array, np
from gpumap.engine.verify import fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpumap.backends.base import Buffer, Session


Activation = Literal["relu", "tanh", "sigmoid"]
ITEM = 4  # bytes of a parameter, float32
_KERNELS = {"relu": "relu", "tanh": "tanh_each", "sigmoid": "sigmoid"}
_LEAST = 1e-7  # of a probability in the loss (Keras' epsilon)


class Layer(NamedTuple):
    """A dense layer: how many units, and what becomes of their sums."""

    units: int
    activation: Activation


@dataclass(frozen=True)
class Network:
    """A multilayer perceptron: the numbers of an example, and the layers behind them."""

    name: str
    inputs: int
    layers: tuple[Layer, ...]

    @property
    def last(self) -> Layer:
        """Return the layer whose activations are the output."""
        return self.layers[-1]

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Return the numbers of an example before the first layer, and behind each."""
        return (self.inputs, *(layer.units for layer in self.layers))

    @cached_property
    def parameters(self) -> int:
        """Return how many weights and biases there are."""
        return sum((inputs + 1) * units for inputs, units in pairwise(self.widths))

    def operations(self, examples: int) -> int:
        """Return the floating-point operations of a forward and a backward pass, products alone.

        Each weight is used three times, in a multiplication and an addition each, but those of the
        first layer twice: the derivative by the input is not needed.
        """
        weights = [inputs * units for inputs, units in pairwise(self.widths)]
        return examples * (6 * sum(weights) - 2 * weights[0])

    @cached_property
    def slots(self) -> list[tuple[slice, slice, tuple[int, int]]]:
        """Return where each layer's weights and biases are, and the shape of the weights."""
        result, start = [], 0
        for inputs, units in pairwise(self.widths):
            middle, stop = start + inputs * units, start + (inputs + 1) * units
            result.append((slice(start, middle), slice(middle, stop), (inputs, units)))
            start = stop
        return result

    def initial(self, seed: int) -> Array:
        """Return parameters to begin with: weights as Glorot & Bengio (AISTATS 2010), biases 0."""
        rng = np.random.default_rng((seed, 0))
        result = np.zeros(self.parameters, np.float32)
        for weights, _, (inputs, units) in self.slots:
            limit = np.float32((6.0 / (inputs + units)) ** 0.5)
            part = result[weights]
            rng.random(dtype=np.float32, out=part)
            part *= 2 * limit
            part -= limit
        return result

    def memory(self, examples: int) -> int:
        """Return the bytes that a replica takes for so many examples, without an optimizer."""
        widest = max(self.widths[1:])
        each = sum(self.widths) + self.last.units + 2 * widest + 1
        return ITEM * (2 * self.parameters + examples * each)

    def blocks(self) -> Iterator[slice]:
        """Yield where each layer's parameters are."""
        return (slice(weights.start, biases.stop) for weights, biases, _ in self.slots)

    def data(self, count: int, seed: int) -> Order:
        """Return so many examples."""
        return Order(count, seed, Examples(self.inputs, self.last.units, seed).batch)

    def model(self, session: Session, most: int) -> Replica:
        """Return a replica for batches of up to `most` examples."""
        return Replica(self, session, most)

    def gradient(self, parameters: Array, x: Array, y: Array, share: float) -> Array:
        """Return the gradient of `share` times the sum of the examples' losses, by NumPy alone.

        Args:
            parameters: shape (parameters,), of any type of float, which is computed in.
            x: examples, shape (examples, inputs).
            y: targets, shape (examples, units of the last layer).
            share: of a single example's loss.
        """
        activations = self.activations(parameters, x)
        delta = (activations[-1] - y) * share / self.last.units
        result = np.empty_like(parameters)
        for number, (weights, biases, shape) in reversed([*enumerate(self.slots)]):
            a = activations[number]
            result[weights] = (a.T @ delta).reshape(-1)
            result[biases] = delta.sum(axis=0)
            if number:
                delta = delta @ parameters[weights].reshape(shape).T
                relu = self.layers[number - 1].activation == "relu"
                delta *= a > 0 if relu else 1 - a * a  # the derivative of the activation
        return result

    def judged(self, method: str, parameters: Array, x: Array, y: Array) -> float | None:
        """Return the mean loss of examples, or the accuracy: the share of right sides."""
        found = self.activations(parameters, x)[-1]
        return cross_entropy(found, y) if method == "loss" else float((found.round() == y).mean())

    def activations(self, parameters: Array, x: Array) -> list[Array]:
        """Return the examples, and the activations behind each layer, by NumPy alone."""
        result = [x.astype(parameters.dtype)]
        for layer, (weights, biases, shape) in zip(self.layers, self.slots, strict=True):
            sums = result[-1] @ parameters[weights].reshape(shape) + parameters[biases]
            result.append(_applied(layer.activation, sums))
        return result


class Model:
    """Parameters on a session, and their gradient."""

    def __init__(self, session: Session, parameters: int) -> None:
        """Take memory; raises OutOfMemory, or Unsupported where the session runs no kernels."""
        require(session, "kernels", "training a network")
        self.session = session
        self.weights: Buffer = session.empty((parameters,), "float32")
        self.gradient: Buffer = session.empty((parameters,), "float32")

    def put(self, parameters: Array) -> None:
        """Queue the copy of parameters to the device."""
        self.session.upload(parameters, self.weights)


def fetched(buffer: Buffer) -> Array:
    """Return the numbers of a device's buffer of float32; waits."""
    result: Array = np.empty(buffer.shape, np.float32)
    fetch(buffer, result)
    return result


class Replica(Model):
    """A network on a session, with room for a batch: parameters, activations and gradient."""

    def __init__(self, network: Network, session: Session, most: int) -> None:
        """Take memory for batches of up to `most` examples.

        Raises:
            Unsupported: the session runs no kernels.
            OutOfMemory: there is no room.
        """
        super().__init__(session, network.parameters)
        self.network = network
        self._activations = [session.empty((most, n), "float32") for n in network.widths]
        self._target = session.empty((most, network.last.units), "float32")
        widest = max(network.widths[1:])
        self._deltas = [session.empty((most * widest,), "float32") for _ in range(2)]
        self._ones = session.empty((most, 1), "float32")
        session.run("fill", self._ones, 1.0, size=most)
        self.examples = 0

    def load(self, x: Array, y: Array) -> None:
        """Queue the copy of a batch to the device; x (examples, inputs), y (examples, units)."""
        self.examples = len(x)
        self.session.upload(x, self._activations[0][: self.examples])
        self.session.upload(y, self._target[: self.examples])

    def compute(self, share: float) -> None:
        """Queue the gradient of `share` times the sum of the examples' losses.

        Parts of a batch that are given 1 / (examples of the whole batch) sum up to its gradient.
        """
        rows = [activations[: self.examples] for activations in self._activations]
        self._forward(rows)
        self._backward(rows, share)

    def _forward(self, rows: Sequence[Buffer]) -> None:
        for number, layer in enumerate(self.network.layers):
            weights, biases, shape = self.network.slots[number]
            out, size = rows[number + 1], self.examples * layer.units
            self.session.gemm(rows[number], self.weights[weights].reshape(shape), out)
            b, units = self.weights[biases], layer.units
            self.session.run("add_cyclic", out, size, b, units, out, size=size)
            self.session.run(_KERNELS[layer.activation], out, out, size=size)

    def _backward(self, rows: Sequence[Buffer], share: float) -> None:
        run, gemm, layers = self.session.run, self.session.gemm, self.network.layers
        count, units = self.examples, layers[-1].units
        delta = self._delta(len(layers), units)
        run("residual", rows[-1], self._target[:count], share / units, delta, size=count * units)
        for number in reversed(range(len(layers))):
            weights, biases, shape = self.network.slots[number]
            gradient = self.gradient[weights].reshape(shape)
            gemm(rows[number], delta, gradient, transpose=(True, False))
            sums = self.gradient[biases].reshape((1, shape[1]))
            gemm(self._ones[:count], delta, sums, transpose=(True, False))
            if number:
                before = self._delta(number, shape[0])
                gemm(delta, self.weights[weights].reshape(shape), before, transpose=(False, True))
                back = f"{layers[number - 1].activation}_back"
                run(back, rows[number], before, before, size=count * shape[0])
                delta = before

    def _delta(self, number: int, units: int) -> Buffer:
        """Return room for derivatives by the sums of a layer; every other one shares it."""
        flat = self._deltas[number % 2][: self.examples * units]
        result: Buffer = flat.reshape((self.examples, units))
        return result


def cross_entropy(output: Array, target: Array) -> float:
    """Return the loss of outputs, shape (examples, units), by their targets."""
    p = output.astype(np.float64)
    if not np.isfinite(p).all():
        return float("nan")
    p = p.clip(_LEAST, 1.0 - _LEAST)
    return float(-(target * np.log(p) + (1.0 - target) * np.log1p(-p)).mean())


def _applied(activation: str, sums: Array) -> Array:
    if activation == "relu":
        return np.maximum(sums, 0)
    if activation == "tanh":
        return np.tanh(sums)
    with np.errstate(over="ignore"):  # the answer is 0 there
        return 1 / (1 + np.exp(-sums))


# How many float32 each device exchanges with the others after a step. The counts are exact; tests
# add them up from the layers. AlexNet, GoogLeNet, VGG16 and ResNet50 are the networks of
# Theano-MPI's table (`published.csv`), as its model files have them: AlexNet with its grouped
# convolutions, GoogLeNet with both auxiliary classifiers, which are trained and so exchanged;
# ResNet50 with scale and shift of its batch normalisation. mlp41m is the network of "Transparent
# Multi-GPU Training on TensorFlow with Keras" (8000 inputs; 4000, 2000, 500, 300 and 1 units).
# llama2-7b has the shapes of Llama 2's published configuration (Touvron et al., arXiv:2307.09288):
# 32 blocks of width 4096 with 11008 hidden units, and 32000 tokens.
PARAMETERS = {
    "alexnet": 60_965_224,
    "googlenet": 13_378_280,
    "vgg16": 138_357_544,
    "resnet50": 25_557_032,
    "mlp41m": 41_157_101,
    "llama2-7b": 6_738_415_616,
}
TRANSFORMER = "transformer"  # the preset that is a class: `gpumap.training.transformer`
BUCKET = 25 << 20  # bytes that PyTorch's DistributedDataParallel exchanges at once by default


def _mlp(name: str, inputs: int, *hidden: tuple[int, Activation]) -> Network:
    layers: tuple[tuple[int, Activation], ...] = (*hidden, (1, "sigmoid"))
    return Network(name, inputs, tuple(Layer(*layer) for layer in layers))


# networks that can be trained here, with an optimizer, and the examples of each device
PRESETS = {
    "mlp41m": (
        _mlp("mlp41m", 8000, (4000, "tanh"), (2000, "relu"), (500, "relu"), (300, "relu")),
        "adam",
        2048,
    ),
    "mlp-small": (_mlp("mlp-small", 512, (512, "tanh"), (128, "relu")), "adam", 256),
}
NAMES = (*PRESETS, TRANSFORMER)


_HIDDEN, _ORDER, _EXAMPLES = 1, 2, 3  # what a stream of random numbers is for
_PER_COUNT = 8  # numbers of float32 that one count of Philox gives
_ROWS = 128  # of a batch, that are processed at a time
_PARTS = 1 << 10  # of 1, that hidden numbers are multiples of
_KEYS = 1 << 64  # of Philox: a seed may be larger
_MAKING = threading.Lock()  # of batches: Python's own would change hands with each row of them


@lru_cache(maxsize=2)  # ranks share it; at an epoch's end some have the next one
def _order(seed: int, epoch: int, count: int) -> Array:
    return np.random.default_rng((seed, _ORDER, epoch)).permutation(count)


class Order:
    """So many examples, in an order that is new in each epoch."""

    def __init__(self, count: int, seed: int, make: Callable[[Array], tuple[Any, Any]]) -> None:
        self.count, self._seed, self._make = count, seed, make

    def batch(self, numbers: Array) -> tuple[Any, Any]:
        """Return examples by their numbers, for one rank of this process at a time."""
        with _MAKING:
            return self._make(numbers)

    def numbers(self, start: int, stop: int) -> Array:
        """Return which examples the places `start` to `stop` of an endless training hold.

        Each epoch holds every example once.
        """
        numbers = []
        while start < stop:
            epoch, first = divmod(start, self.count)
            last = min(first + stop - start, self.count)
            numbers.append(_order(self._seed, epoch, self.count)[first:last])
            start += last - first
        return np.concatenate(numbers) if numbers else np.empty(0, np.int64)


class Examples:
    """The examples of a network: seeded, float32, and worth learning.

    An example is a function of the seed and of its own number: whoever makes it, in whatever batch,
    gets the same one. Its numbers are uniform in [0, 1), its targets the sides of hidden planes.
    """

    def __init__(self, inputs: int, units: int, seed: int) -> None:
        self._inputs, self._seed = inputs, seed
        drawn = np.random.default_rng((seed, _HIDDEN)).standard_normal((inputs, units))
        self._hidden = np.rint(drawn * _PARTS) / _PARTS

    def batch(self, numbers: Array) -> tuple[Array, Array]:
        """Return examples by their numbers: x (count, inputs) and y (count, units), float32."""
        x = np.empty((len(numbers), self._inputs), np.float32)
        stream = np.random.Philox(key=np.array((self._seed % _KEYS, _EXAMPLES), np.uint64))
        state, rng = stream.state, np.random.Generator(stream)
        each = -(-self._inputs // _PER_COUNT)  # counts of an example: none shares one
        for row, number in zip(x, numbers.tolist(), strict=True):
            state["state"]["counter"][:] = (number * each, 0, 0, 0)
            stream.state = state
            rng.random(dtype=np.float32, out=row)
        return x, self._targets(x)

    def _targets(self, x: Array) -> Array:
        """Return the targets of examples, by sums that are exact, in whatever order they are added.

        A number of an example is a multiple of 2^-24, so a product is one of 2^-34: 53 bits hold
        every sum of up to 2^17 of them. A product of a batch adds in another order than that of a
        part of it, and rounding would put what is next to the plane here once, there once.
        """
        projections = np.empty((len(x), self._hidden.shape[1]))
        for at in range(0, len(x), _ROWS):  # as numbers of 64 bits a batch is large
            part = slice(at, at + _ROWS)
            projections[part] = (x[part] - 0.5).astype(np.float64) @ self._hidden
        return (projections > 0).astype(np.float32)
