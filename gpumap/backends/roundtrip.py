"""The proof that a device is true: bytes that go there come back the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.errors import WrongDataError

if TYPE_CHECKING:
    from gpumap.backends.base import Session

NBYTES = 4096
_SEED = 20260101


def round_trip(session: Session) -> None:
    """Move 4 KiB of random bytes to the device and back, twice, into a poisoned destination.

    Raises:
        WrongDataError: a byte came back changed; the message says which.
    """
    import numpy as np

    rng = np.random.default_rng(_SEED)
    buffer = session.empty((NBYTES,), "uint8")
    for _ in range(2):  # stale memory may hold the first pattern, but not the second
        sent = rng.integers(0, 256, NBYTES, dtype=np.uint8)
        back = ~sent  # poisoned: every byte is wrong until it is written
        session.upload(sent, buffer)
        session.download(buffer, back)
        session.synchronize()
        _compare(sent, back, session)


def _compare(sent: Any, back: Any, session: Session) -> None:
    wrong = (sent != back).nonzero()[0]
    if wrong.size:
        at = int(wrong[0])
        raise WrongDataError(
            f"{session.device.ref} returned wrong bytes: {wrong.size} of {NBYTES}, first at {at} "
            f"(0x{sent[at]:02x} came back as 0x{back[at]:02x})",
            "do not trust this device: check its memory, cable and driver",
        )
