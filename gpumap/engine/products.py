"""Products of random matrices on devices, verified, as single ones and as iterations."""

from __future__ import annotations

from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Any

from gpumap.dtypes import ITEMSIZE, np, numpy_dtype, storage
from gpumap.engine.base import Iteration
from gpumap.engine.verify import ROWS, Expected, Matrix, hollow_array, is_hollow, played, worse

if TYPE_CHECKING:
    from gpumap.backends.base import Clock, Session
    from gpumap.dtypes import Arithmetic
    from gpumap.engine.base import Events
    from gpumap.model import Check

BUFFERS = 3  # a, b and out of a product
_AT_ONCE = 16  # products of a device before the next one's turn: each call takes the host's time


class Pair:
    """Two random matrices that belong to a name, wherever they are multiplied."""

    def __init__(self, seed: tuple[int, int], size: int, dtype: Arithmetic) -> None:
        self.shape = (size, size)
        self.dtype = storage(dtype)
        self.tf32 = dtype == "tf32"
        self.left = Matrix((*seed, 0), size, dtype)
        self.right = self.left.following

    @cached_property
    def expected(self) -> Expected:
        """What their product must be."""
        return Expected(self.left)

    @cached_property
    def destination(self) -> Any:
        """Room on the host for their product, whichever case fetches it."""
        return np.empty(self.shape, numpy_dtype(self.dtype))

    @property
    def nbytes(self) -> int:
        """The size of each matrix, and of their product."""
        return self.shape[0] * self.shape[1] * ITEMSIZE[self.dtype]


class Product:
    """A pair of matrices on a device, and room for their product."""

    def __init__(self, name: str, session: Session, pair: Pair) -> None:
        self.name = name
        self.session = session
        self.pair = pair
        self._hollow = None
        if is_hollow(session, pair.nbytes):
            self._hollow = hollow_array(pair.shape, numpy_dtype(pair.dtype))
        self._a, self._b = (m.uploaded(session, self._hollow) for m in (pair.left, pair.right))
        self.out = session.empty(pair.shape, pair.dtype)

    @property
    def destination(self) -> Any:
        """Room for the result on the host."""
        return self.pair.destination if self._hollow is None else self._hollow

    def poison(self) -> None:
        """Fill the result with NaN."""
        rows = np.full((min(ROWS, self.out.shape[0]), self.out.shape[1]), np.nan, self.out.dtype)
        for start in range(0, self.out.shape[0], ROWS):
            target = self.out[start : start + ROWS]
            self.session.upload(rows[: target.shape[0]], target)
        self.session.synchronize()

    def queue(self, events: Events | None = None, repeat: int = 1) -> None:
        """Queue the product `repeat` times, between two marks where its span is wanted."""
        if events is not None:
            events.begin(self.name, self.session)
        self.session.gemm(self._a, self._b, self.out, tf32=self.pair.tf32, repeat=repeat)
        if events is not None:
            events.end(self.name, self.session)

    def fetch(self) -> None:
        """Copy the result to the host, and wait for it as a program would."""
        self.session.download(self.out, self.destination)
        self.session.synchronize()

    def check(self, *, fetched: bool) -> Check:
        """Return whether the result, on the device or as it landed on the host, is right."""
        return self.pair.expected.check(self.destination if fetched else self.out)


class Products(Iteration):
    """One iteration of a case: its products, fetched or not, from one thread or from several."""

    def __init__(self, products: list[Product], threads: Clock | None, *, fetched: bool) -> None:
        self._products = products
        self._threads = threads
        self._fetched = fetched
        self.sessions = [*{product.name: product.session for product in products}.values()]
        devices = [session.device for session in self.sessions]
        self.launched = not fetched and all(device.kind.row.accelerators for device in devices)

    def poison(self) -> None:
        """Make every result wrong, on the devices and on the host."""
        for product in self._products:
            product.poison()
            if self._fetched:
                product.destination.fill(float("nan"))

    def queue(self, events: Events | None = None, iterations: int = 1) -> None:
        """Queue the products; where results are fetched, all are queued before the first fetch."""
        if self._threads is None and not self._fetched:
            for start in range(0, iterations, _AT_ONCE):
                for product in self._products:
                    product.queue(events, min(_AT_ONCE, iterations - start))
            return
        for _ in range(iterations):
            if self._threads is not None:
                self._threads.run_concurrently(
                    [partial(_queue_and_fetch, p, events) for p in self._products]
                )
                continue
            for product in self._products:
                product.queue(events)
            for product in self._products:
                product.fetch()

    def check(self) -> Check:
        """Return the worst of the products' checks."""
        return reduce(worse, (p.check(fetched=self._fetched) for p in self._products))


def multiplied(products: list[Product], threads: Clock | None, *, fetched: bool) -> Iteration:
    """Return the iteration of some products; of hollow ones it is scripted what comes of them."""
    work = Products(products, threads, fetched=fetched)
    return played(work, products[0].session, products[0].pair.nbytes)


def _queue_and_fetch(product: Product, events: Events | None) -> None:
    """Do what one host thread does for its device."""
    product.queue(events)
    product.fetch()
