"""Products that are right, and those that a broken device would leave: what `verify` must tell."""

from functools import cached_property

import numpy as np

from gpumap.dtypes import numpy_dtype, storage
from gpumap.engine.verify import Expected, Matrix

DTYPES = ("float16", "bfloat16", "float32", "tf32", "float64")
TILE = 64  # rows and columns that are wrong at once, at most


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
        self.left, self.right = self.a.whole(), self.b.whole()
        self.read = truncated if dtype == "tf32" else lambda array: array
        self.rng = np.random.default_rng((size, len(dtype)))

    @cached_property
    def exact(self):
        return self.times(self.left, self.right)

    def known(self, sums):
        """Return the whole product without multiplying, of these sums of its diagonals."""
        turned = self.expected._rows[:, None] ^ self.expected._columns
        numbers = np.arange(self.size)
        found = sums[(numbers - numbers[:, None]) % self.size]
        return np.where(turned, -found, found)

    def times(self, left, right, read=None):
        read = read or self.read
        return read(left).astype(float) @ read(right).astype(float)

    def without(self, start, stop):
        kept = self.left.copy()
        kept[:, start:stop] = 0.0
        return self.times(kept, self.right)

    def put(self, place, value):
        """Return the product with another value at a place, or with what is made of its own."""
        out = rounded(self.exact, self.dtype)
        out[place] = value(out[place]) if callable(value) else value
        return out

    def place(self):
        return self.rng.integers(self.size), self.rng.integers(self.size)

    def flipped(self, bit):
        out = rounded(self.exact, self.dtype)
        bits = out.view(f"u{out.itemsize}")
        bits[self.place()] ^= bits.dtype.type(1 << (8 * out.itemsize - 1 - bit))
        return out


def wrongs(p):
    """Yield the name and the product of each fault."""
    n, exact, left, right = p.size, p.exact, p.left, p.right
    yield "half of the sums", p.without(n // 2, n)
    yield "a quarter of the sums", p.without(n // 4, n // 2)
    yield "eight steps", p.without(n // 2, n // 2 + 8)
    yield "one step", p.without(n - 1, n)
    yield "columns shifted", np.roll(exact, 1, axis=1)
    yield "rows shifted", np.roll(exact, 1, axis=0)
    yield "one exponent's high bit", p.flipped(1)
    yield "one fraction's high bit", p.flipped(FRACTION[storage(p.dtype)])
    yield "first factor turned", p.times(left.T, right)
    yield "second factor turned", p.times(left, right.T)
    yield "result turned", exact.T
    yield "factors changed places", p.times(right, left)
    yield "of another name's data", Planted(n, p.dtype, (1, 1)).exact
    yield "of another seed", Planted(n, p.dtype, (2, 0)).exact
    yield from _places(p)
    for name, read in NARROWER[p.dtype].items():
        yield f"as {name}", p.times(left, right, read)
    yield from _arithmetics(p)


def _places(p):
    """Yield products of which elements, columns or tiles are wrong."""
    tile = min(TILE, p.size // 4)
    corner, following = (
        tuple(slice(at, at + tile) for at in ats) for ats in ((tile, 2 * tile), (0, tile))
    )
    yield "all zero", p.put(..., 0)
    yield "poison", p.put(..., np.nan)
    yield "one column", p.put((..., p.size // 3), 0)
    yield "an eighth of the columns", p.put((..., slice(0, None, 8)), 0)
    yield "one element zero", p.put(p.place(), 0)
    yield "one element off", p.put(p.place(), lambda old: old + old.dtype.type(3 * p.size**0.5))
    yield "one element negative", p.put(p.place(), np.negative)
    yield "one element NaN", p.put(p.place(), np.nan)
    yield "one element infinite", p.put(p.place(), np.inf)
    yield "tile zero", p.put(corner, 0)
    yield "tile poisoned", p.put(corner, np.nan)
    yield "tile summed twice", p.put(corner, lambda old: 2 * old)
    yield "tile of the diagonal's next", p.put(corner, rounded(p.exact, p.dtype)[following])


def _arithmetics(p):
    if p.dtype == "float64":
        yield "a float32 product", p.exact.astype("float32")
    if storage(p.dtype) in ("float16", "bfloat16"):
        half = p.size // 2
        parts = p.without(0, half), p.without(half, p.size)
        yield "partial sums of 16 bits", sum(rounded(part, p.dtype) for part in parts)
    if p.dtype == "float16":
        yield "written as bfloat16", narrowed("bfloat16")(p.exact)


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
