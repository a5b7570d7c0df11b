"""The number of threads that BLAS works with, which belongs to the whole process.

Nested limits restore wrongly, so there is one owner: the first session sets the limit to 1, the
last one lifts it, and who wants all cores for a moment asks here.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_lock = threading.Lock()
_holders = 0
_limit: Any = None


def hold() -> None:
    """Let each product run on the thread that calls it, until `release`.

    OpenBLAS is loaded first: it sizes itself then, and before that has no threads to limit.
    """
    import numpy  # noqa: F401, ICN001 - as above
    from threadpoolctl import ThreadpoolController

    global _holders, _limit
    with _lock:
        if _limit is None:
            _limit = ThreadpoolController().limit(limits=1, user_api="blas")
        _holders += 1


def release() -> None:
    """Give BLAS its threads back, if no one else holds them."""
    global _holders, _limit
    with _lock:
        _holders -= 1
        if _holders == 0:
            limit, _limit = _limit, None
            limit.restore_original_limits()


class Cores:
    """BLAS on as many threads as the program may use cores: what a product of the host's own has.

    Finding the loaded libraries takes a millisecond, so a `Cores` is made once and entered often.
    """

    def __init__(self, threads: int) -> None:
        from threadpoolctl import ThreadpoolController

        self._threads = threads
        self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers

    @contextmanager
    def all(self) -> Iterator[None]:
        """Lift the limit inside the `with`; what else multiplies then would use all cores too."""
        before = [library.get_num_threads() for library in self._libraries]
        self._set([self._threads] * len(before))
        try:
            yield  # without the lock: an interrupt here may leave this function standing
        finally:
            with _lock:
                self._set(before if _limit is None else [1] * len(before))

    def _set(self, threads: list[int]) -> None:
        for library, count in zip(self._libraries, threads, strict=True):
            library.set_num_threads(count)
