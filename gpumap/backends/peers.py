"""Proof that a copy from one device straight to another moves what it should.

Some peer access moves nothing, and says so to no one: an IOMMU, a container, a switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_NBYTES = 1 << 20 | 1  # bytes that must arrive before peer access is believed; an odd number
_known: dict[tuple[str, str, str], bool] = {}  # backend and ids -> whether copies were proved right


def reached(here: Any, there: Any, able: Callable[[], bool] = lambda: True) -> bool:
    """Return whether copies from one session's device to another's arrive; tried once for each two.

    Args:
        here: the session that has the source, and queues the copy.
        there: the session that has the target, of the same backend.
        able: what the library answers, and does before.
    """
    pair = (here.device.backend, here.device.id, there.device.id)
    if pair not in _known:
        _known[pair] = able() and _proved(here, there)
    return _known[pair]


def _proved(here: Any, there: Any) -> bool:
    """Copy random bytes over a wrong target and compare."""
    sent = np.random.default_rng(_NBYTES).integers(0, 256, _NBYTES, dtype=np.uint8)
    landed = np.invert(sent)
    source, target = here.empty(sent.shape, "uint8"), there.empty(sent.shape, "uint8")
    here.upload(sent, source)
    there.upload(landed, target)
    there.synchronize()
    here._copy(source, target, 1)  # noqa: SLF001 - the part of `copy` that is proved by this
    here.synchronize()
    there.download(target, landed)
    there.synchronize()
    return bool((landed == sent).all())
