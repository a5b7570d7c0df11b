"""Products that are right, and those that a broken device would leave: what `verify` must tell."""

from functools import cached_property

import numpy as np

from gpumap.dtypes import numpy_dtype, storage
from gpumap.engine.verify import ROWS, Expected, Matrix

DTYPES = ("float16", "bfloat16", "float32", "tf32", "float64")
PIECE = 32  # blocks
TILE = 64  # rows and columns that are wrong at once, at most


def pieces(matrix):
    """Yield a matrix in float64, in fewer blocks than it is made in."""
    held = []
    for at, block in matrix.blocks():
        held.append(block.astype(float))
        if len(held) == PIECE or at.stop == matrix.size:
            whole, held = np.concatenate(held), []
            yield slice(at.stop - len(whole), at.stop), whole


def truncated(array):
    """Read as TF32, towards zero: the worst that a device does."""
    return (array.astype("float32").view("u4") & np.uint32(0xFFFFE000)).view("float32")


def nearest(array):
    scaled, exponent = np.frexp(array.astype(float))
    return np.ldexp(np.round(scaled * 2**11), exponent - 11)


def narrowed(dtype):
    return lambda array: array.astype(numpy_dtype(dtype)).astype(float)


def rounded(exact, dtype):
    with np.errstate(over="ignore"):
        return exact.astype(numpy_dtype(storage(dtype)))


class Planted:
    """One product that may be wrong, in float64."""

    def __init__(self, size, dtype, seed=(1, 0)):
        self.size, self.dtype = size, dtype
        self.a, self.b = Matrix((*seed, 0), size, dtype), Matrix((*seed, 1), size, dtype)
        self.expected = Expected(self.a, self.b)
        self.read = truncated if dtype == "tf32" else lambda array: array
        self.rng = np.random.default_rng((size, len(dtype)))

    @cached_property
    def left(self):
        return self.a.whole().astype(float)

    @cached_property
    def exact(self):
        return self.times(self.left, self.b)

    def known(self, sums=None):
        """Return the whole product without multiplying, or with other sums for its diagonals."""
        sums = self.expected._product if sums is None else sums
        whole = np.empty((self.size, self.size))
        for start in range(0, self.size, ROWS):
            rows = np.arange(start, min(start + ROWS, self.size))
            places = (np.arange(self.size) - rows[:, None]) % self.size
            turned = self.expected._rows[rows, None] ^ self.expected._columns
            whole[rows] = np.where(turned, -sums[places], sums[places])
        return whole

    def times(self, left, matrix, read=None):
        read = read or self.read
        whole, left = np.zeros((len(left), self.size)), read(left).astype(float)
        for at, block in pieces(matrix):
            whole += left[:, at] @ read(block).astype(float)
        return whole

    def turned(self, left, matrix):
        parts = [left @ self.read(block).astype(float).T for _, block in pieces(matrix)]
        return np.concatenate(parts, axis=1)

    def without(self, start, stop):
        kept = self.left.copy()
        kept[:, start:stop] = 0.0
        return self.times(kept, self.b)

    def changed(self, edit):
        out = rounded(self.exact, self.dtype)
        edit(out)
        return out

    def place(self):
        return self.rng.integers(len(self.exact)), self.rng.integers(self.size)

    def flipped(self, bit):
        out = rounded(self.exact, self.dtype)
        bits = out.view(f"u{out.itemsize}")
        bits[self.place()] ^= bits.dtype.type(1 << (8 * out.itemsize - 1 - bit))
        return out


def _put(place, value):
    def edit(out):
        out[place] = value(out[place]) if callable(value) else value

    return edit


def wrongs(p):
    n, tile, sd = p.size, min(TILE, p.size // 4), p.size**0.5
    corner = tuple(slice(at, at + tile) for at in (tile, 2 * tile))
    yield "half of the sums", lambda: p.without(n // 2, n)
    yield "a quarter of the sums", lambda: p.without(n // 4, n // 2)
    yield "eight steps", lambda: p.without(n // 2, n // 2 + 8)
    yield "one step", lambda: p.without(n - 1, n)
    yield "columns shifted", lambda: np.roll(p.exact, 1, axis=1)
    yield "rows shifted", lambda: np.roll(p.exact, 1, axis=0)
    yield "one exponent's high bit", lambda: p.flipped(1)
    yield "one fraction's high bit", lambda: p.flipped(FRACTION[storage(p.dtype)])
    yield "first factor turned", lambda: p.times(p.left.T, p.b)
    yield "second factor turned", lambda: p.turned(p.left, p.b)
    yield "result turned", lambda: p.turned(p.b.whole().astype(float).T, p.a)
    yield "factors changed places", lambda: p.times(p.b.whole().astype(float), p.a)
    yield "of another name's data", lambda: Planted(n, p.dtype, (1, 1)).exact
    yield "of another seed", lambda: Planted(n, p.dtype, (2, 0)).exact
    puts = [
        ("all zero", ..., 0), ("poison", ..., np.nan), ("one column", (..., n // 3), 0),
        ("an eighth of the columns", (..., slice(0, None, 8)), 0), ("one element zero", None, 0),
        ("one element off", None, lambda old: old + old.dtype.type(3 * sd)),
        ("one element negative", None, lambda old: -old),
        ("one element NaN", None, np.nan), ("one element infinite", None, np.inf),
    ]  # fmt: skip
    if len(p.exact) > tile:
        puts += [("tile zero", corner, 0), ("tile poisoned", corner, np.nan),
                 ("tile summed twice", corner, lambda old: 2 * old)]  # fmt: skip
        following = (slice(0, tile), slice(tile, 2 * tile))
        yield (
            "tile of the diagonal's next",
            lambda: p.changed(lambda out: _put(corner, out[following].copy())(out)),
        )
    for name, place, value in puts:
        yield name, lambda at=place, to=value: p.changed(_put(p.place() if at is None else at, to))
    for name, read in NARROWER[p.dtype].items():
        yield f"as {name}", lambda read=read: p.times(p.left, p.b, read)
    yield from _arithmetics(p)


def _arithmetics(p):
    if p.dtype == "float64":
        yield "a float32 product", lambda: p.exact.astype("float32")
    if storage(p.dtype) in ("float16", "bfloat16"):
        half = p.size // 2
        yield (
            "partial sums of 16 bits",
            lambda: (
                rounded(p.without(0, half), p.dtype) + rounded(p.without(half, p.size), p.dtype)
            ),
        )
    if p.dtype == "float16":
        yield "written as bfloat16", lambda: narrowed("bfloat16")(p.exact)


# its first bit, from the sign
FRACTION = {"float16": 6, "bfloat16": 9, "float32": 9, "float64": 12}
NARROWER = {
    "float16": {"bfloat16": narrowed("bfloat16")},
    "bfloat16": {},
    "float32": {"tf32": truncated, "tf32, to the nearest": nearest,
                "float16": narrowed("float16"), "bfloat16": narrowed("bfloat16")},
    "tf32": {"bfloat16": narrowed("bfloat16")},
    "float64": {"float32": narrowed("float32"), "tf32": truncated},
}  # fmt: skip
