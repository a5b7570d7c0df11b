"""Proof that a copy from one device straight to another moves what it should.

Some peer access moves nothing, and says so to no one: an IOMMU, a container, a switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpumap.backends.base import Session

if TYPE_CHECKING:
    from gpumap.backends.base import Route

_NBYTES = 1 << 20 | 1  # bytes that must arrive before peer access is believed; an odd number
_known: dict[tuple[str, str, str], bool] = {}  # backend and ids -> whether copies were proved right


class PeerSession(Session):
    """A session whose device may write straight to others of its library; each is tried once."""

    def _route(self, there: Any) -> Route:
        if type(there) is not type(self):
            return "staged"
        if there.device.id == self.device.id:
            return "same"
        pair = (self.device.backend, self.device.id, there.device.id)
        if pair not in _known:
            _known[pair] = self._able(there) and _proved(self, there)
        return "peer" if _known[pair] else "staged"

    def _able(self, there: Any) -> bool:  # noqa: ARG002 - for those whose library tells
        """Let the device write another's memory; False where the library says that it cannot."""
        return True


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
