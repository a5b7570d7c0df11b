"""Device code as data: the arguments of each kernel, and what it computes, in NumPy.

Its texts are in this folder. The reference is the numpy backend and the gold answer of every other
one. Arguments are written as a kernel sees them: `buffer` in and out, `short` a buffer that may
have fewer elements than the call has, `scalar` and `count` by value. All buffers of a call share a
dtype. `size` is the number of elements that a kernel works on, and no `buffer` may have fewer. A
`matrix` is whole and keeps its shape: `size` is then the number of its rows, and the text is built
for the other extents, which NumPy sees and a compiler can unroll.

What ends in `_cyclic` repeats the shorter of its operands: each comes with its number of elements.
Elements are of float32 or float64.
"""

from __future__ import annotations

from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gpumap.dtypes import np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Argument = Literal["buffer", "short", "matrix", "scalar", "count"]
Dialect = Literal["opencl", "cuda"]

GROUP = 256  # work-items of a reduction: what any device can have in one group
WEIGHTS = 256  # of a chain at most: each work-item holds them in registers
_SHARE = 1 << 15  # elements of a reduction, for which another group is worth it
_PARTS = 1024  # groups of a reduction at most: one group then reduces what they leave
_ROWS = 4096  # of a chain, that go through all of its operations before the next ones
_CACHED = 1 << 14  # and those of training, which are many: they stay in a cache


class Kernel(NamedTuple):
    """A kernel's name, its arguments in order, and its meaning."""

    name: str
    arguments: tuple[Argument, ...]
    # on flat arrays, sliced to `size`; on matrices, and elementwise on the host, as they are
    reference: Callable[..., None]
    group: int | None = None  # work-items of a group that reduces its share; None: one by one
    file: str = "elementwise.c"
    # what the text is built for, by the call's buffers and size; ValueError where they do not fit
    constants: Callable[[Sequence[Any], int], Mapping[str, int]] = lambda _given, _size: {}
    grain: int | None = None  # of `size`, what one work-item of a processor takes; None: as others

    def element(self, given: Sequence[Any], size: int) -> Any:
        """Return the type that the buffers of a call share.

        Raises:
            ValueError: they share none, or are too short.
        """
        pairs = list(zip(self.arguments, given, strict=True))
        buffers = [argument for kind, argument in pairs if kind == "buffer"]
        every = [argument for kind, argument in pairs if kind in ("buffer", "short", "matrix")]
        shorts = [argument for kind, argument in pairs if kind == "short"]
        shared = every[0].dtype
        if any(other.dtype != shared for other in every):
            raise ValueError(f"{self.name}: buffers of one call share a type")
        if self.group is not None and any(not short.nbytes for short in shorts):  # its result
            raise ValueError(f"{self.name}: there is no room for the result")
        if any(buffer.nbytes < size * shared.itemsize for buffer in buffers):
            raise ValueError(f"{self.name}: a buffer has fewer than {size} elements")
        return shared

    def parts(self, size: int) -> int:
        """Return among how many groups a reduction is divided; several leave a result each."""
        if self.group is None:
            return 1
        return min(-(-size // _SHARE), _PARTS) or 1

    def reference_views(self, given: Sequence[Any], size: int) -> list[Any]:
        """Return the arguments for the reference: arrays flat and sliced, matrices whole.

        Of a buffer it is its library's own array.

        What a reduction leaves is there without an element, too: the sum of nothing is 0.
        """
        natives = (getattr(argument, "native", argument) for argument in given)
        lengths = {"buffer": size, "short": max(size, 1)}
        return [
            native.reshape(-1)[: lengths[kind]] if kind in lengths else native
            for kind, native in zip(self.arguments, natives, strict=True)
        ]

    def text(self, dialect: Dialect) -> str:
        """Return the text that has this kernel, in a dialect of C."""
        return "".join(map(text, (f"{dialect}.h", "each.h", self.file)))


def _fill(out: Any, value: Any) -> None:
    out[:] = value


def _sum(a: Any, out: Any) -> None:
    with np.errstate(all="ignore"):  # as a device, which warns of nothing
        out[0] = a.sum()


def _ufunc(name: str) -> Callable[..., None]:
    """Return NumPy's function of a name, writing to its last argument; imported when called."""

    def reference(*arguments: Any) -> None:
        with np.errstate(all="ignore"):  # as a device, which warns of nothing
            getattr(np, name)(*arguments[:-1], out=arguments[-1])

    return reference


def cyclic(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function of two flat arrays, the shorter repeated; of NumPy's, or of its like."""

    def repeating(a: Any, a_count: int, b: Any, b_count: int, out: Any) -> None:
        size = len(out)
        if not size:
            return
        width = max(min(a_count, b_count), 1)
        pairs = ((a, a_count), (b, b_count))
        if size % width == 0 and all(n in (width, size) for _, n in pairs):
            rows = (size // width, width)  # whole rows are repeated without a copy
            every = [x[:n].reshape(rows) if n == size else x[:n] for x, n in pairs]
            function(*every, out.reshape(rows))
        else:
            function(*(_repeated(x[:n], size) for x, n in pairs), out)

    return repeating


def _repeated(array: Any, size: int) -> Any:
    return array if len(array) == size else array[np.arange(size) % len(array)]


def _chain(x: Any, w: Any, b: Any, out: Any) -> None:
    """Write log(exp(relu(x.w + b))), operation by operation; exp overflows where it overflows."""
    with np.errstate(all="ignore"):  # as a device, which warns of nothing
        for start in range(0, len(x), _ROWS):
            rows = slice(start, start + _ROWS)
            y = x[rows] @ w
            y += b
            np.maximum(y, y.dtype.type(0), out=y)
            np.exp(y, out=y)
            np.log(y, out=out[rows])


def _chain_constants(given: Sequence[Any], size: int) -> Mapping[str, int]:
    x, w, b, out = (tuple(buffer.shape) for buffer in given)
    inner, columns = w if len(w) == 2 else (0, 0)  # noqa: PLR2004 - a matrix
    if not inner * columns or (x, b, out) != ((size, inner), (columns,), (size, columns)):
        raise ValueError(f"chain: shapes do not fit: {x}, {w}, {b} -> {out}, {size} rows")
    if inner * columns > WEIGHTS:
        raise ValueError(f"chain: {inner} x {columns} weights; registers hold at most {WEIGHTS}")
    return {"INNER": inner, "COLUMNS": columns}


# --- training


def in_parts(function: Callable[..., None]) -> Callable[..., None]:
    """Let a function have one part of its arrays at a time: temporaries stay in a core's cache.

    As a device it warns of nothing.
    """

    @wraps(function)
    def by_parts(*arguments: Any) -> None:
        with np.errstate(all="ignore"):
            for at in range(0, arguments[0].size, _CACHED):
                part = slice(at, at + _CACHED)
                function(*(a[part] if isinstance(a, np.ndarray) else a for a in arguments))

    return by_parts


def sigmoid(a: Any, out: Any) -> None:
    """Write 1 / (1 + e^-a)."""
    np.exp(np.negative(a, out=out), out=out)
    out += 1
    np.divide(1, out, out=out, dtype=out.dtype)


def relu_back(a: Any, d: Any, out: Any) -> None:
    """Write d where the activation a is above 0, and else 0."""
    out[:] = np.where(a > 0, d, d.dtype.type(0))  # a product would make NaN of infinity


def tanh_back(a: Any, d: Any, out: Any) -> None:
    """Write d (1 - a^2), a the activation."""
    slope = a * a
    slope -= 1
    slope *= d
    out[:] = -slope


def residual(a: Any, b: Any, scale: float, out: Any) -> None:
    """Write (a - b) scale."""
    np.subtract(a, b, out=out)
    out *= _as(out, scale)


def sgd(w: Any, g: Any, rate: float) -> None:
    """Take rate g from w."""
    w -= _as(g, rate) * g


def adam(
    w: Any, m: Any, v: Any, g: Any, rate: float, first: float, second: float, epsilon: float
) -> None:
    """Let m and v move towards g and its square, and take rate m / (sqrt(v) + epsilon) from w.

    `first` and `second` are what they move by, 1 - beta of the paper: 0.999 of 32 bits is off by
    1e-8, which is 1e-5 of what it leaves of 1.
    """
    step = g - m
    step *= _as(m, first)
    m += step
    np.multiply(g, g, out=step)
    step -= v
    step *= _as(v, second)
    v += step
    np.sqrt(v, out=step)
    step += _as(v, epsilon)
    np.divide(m, step, out=step)
    step *= _as(w, rate)
    w -= step


def _as(array: Any, number: float) -> Any:
    """Return a number of the array's own type, as a kernel is given it."""
    return array.dtype.type(number)


# --- the table


_BINARY = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide",
           "maximum": "maximum"}  # fmt: skip
_training = partial(Kernel, file="training.c")
_CYCLIC: tuple[Argument, ...] = ("short", "count", "short", "count", "buffer")


def _relu(a: Any, out: Any) -> None:
    np.maximum(a, a.dtype.type(0), out=out)


KERNELS = {
    kernel.name: kernel
    for kernel in (
        *(Kernel(name, ("buffer",) * 3, _ufunc(of)) for name, of in _BINARY.items()),
        *(Kernel(f"{name}_cyclic", _CYCLIC, cyclic(_ufunc(of))) for name, of in _BINARY.items()),
        # a kernel may not be called as the C function that it calls
        *(Kernel(f"{of}_each", ("buffer",) * 2, _ufunc(of)) for of in ("exp", "log", "tanh")),
        Kernel("relu", ("buffer",) * 2, _relu),
        Kernel("sum", ("buffer", "short"), _sum, GROUP),
        _training("sigmoid", ("buffer",) * 2, in_parts(sigmoid)),
        _training("relu_back", ("buffer",) * 3, in_parts(relu_back)),
        _training("tanh_back", ("buffer",) * 3, in_parts(tanh_back)),
        _training("residual", ("buffer", "buffer", "scalar", "buffer"), in_parts(residual)),
        _training("sgd", ("buffer", "buffer", "scalar"), in_parts(sgd)),
        _training("adam", (*("buffer",) * 4, *("scalar",) * 4), in_parts(adam)),
        Kernel("fill", ("buffer", "scalar"), _fill),
        Kernel(
            "chain", ("matrix",) * 4, _chain, file="chain.c", constants=_chain_constants, grain=512
        ),
    )
}


@cache
def text(name: str) -> str:
    """Return the source text `name` of this folder, such as ``gemm.cl``."""
    from importlib.resources import files

    return files("gpumap.kernels").joinpath(name).read_text(encoding="utf-8")
