"""Training examples that are made when they are needed: seeded, float32, and worth learning.

An example is a function of the seed and of its own number: whoever makes it, in whatever batch,
gets the same one. Its numbers are uniform in [0, 1), its target is which side of a hidden plane
they are on (of a sigmoid), or which of several directions they lie in most (of a softmax).
"""

from __future__ import annotations

from gpumap.dtypes import Array, np

_HIDDEN, _ORDER, _EXAMPLES = 1, 2, 3  # what a stream of random numbers is for
_PER_COUNT = 8  # numbers of float32 that one count of Philox gives
_ROWS = 128  # of a batch, that are looked at at a time
_PARTS = 1 << 10  # of 1, that hidden numbers are multiples of
_KEYS = 1 << 64  # of Philox: a seed may be larger


class Order:
    """The numbers of so many examples, in an order that is new in each epoch."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self._seed = count, seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def numbers(self, start: int, stop: int) -> Array:
        """Return which examples the places `start` to `stop` of an endless training hold.

        Each epoch holds every example once.
        """
        found = []
        while start < stop:
            epoch, first = divmod(start, self.count)
            last = min(first + stop - start, self.count)
            found.append(self._shuffled(epoch)[first:last])
            start += last - first
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _shuffled(self, epoch: int) -> Array:
        if epoch != self._epoch:
            rng = np.random.default_rng((self._seed, _ORDER, epoch))
            self._epoch, self._order = epoch, rng.permutation(self.count)
        return self._order


class Examples(Order):
    """So many examples for a network."""

    def __init__(self, inputs: int, units: int, count: int, seed: int) -> None:
        super().__init__(count, seed)
        self._inputs = inputs
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
        seen = np.empty((len(x), self._hidden.shape[1]))
        for at in range(0, len(x), _ROWS):  # as numbers of 64 bits a batch is large
            part = slice(at, at + _ROWS)
            seen[part] = (x[part] - 0.5).astype(np.float64) @ self._hidden
        beyond: Array = seen > 0
        return beyond.astype(np.float32)
