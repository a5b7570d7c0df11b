"""Operands on devices: copies that are proved, and scripted devices, which hold no large data.

A scripted session `holds` no array above HOLDS. Whoever prepares a case for it gives it hollow
arrays in the place of data, so that nothing is drawn, moved or multiplied; and the round asks the
session which command was due to go wrong, in the place of comparing results.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gpumap.bench.base import Round
from gpumap.bench.verify import compared
from gpumap.dtypes import np
from gpumap.errors import WrongDataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumap.backends.base import Session
    from gpumap.bench.base import Spans
    from gpumap.model import Binding, Check

HOLDS = 1 << 14  # bytes of an array: products of no more are quick, and take one thread
_PART = 1 << 24  # bytes that are compared at a time
METHOD = "scripted"  # how a result was found right or wrong


def lighten(session: Session, holds: int = HOLDS) -> None:
    """Let a scripted session hold no data above so many bytes: whoever measures looks at none."""
    if session.device.backend == "fake":
        scripted: Any = session
        scripted.holds = holds


def is_hollow(session: Session, nbytes: int) -> bool:
    """Return whether an array of so many bytes has no data on a session."""
    return nbytes > getattr(session, "holds", nbytes)


def hollow_array(shape: tuple[int, ...], dtype: Any = "float32") -> Any:
    """Return a host array that holds no data."""
    from gpumap.backends.host_memory import hollow_array as made

    return made(shape, dtype)


def one_of_each(bindings: Iterable[Binding]) -> list[Binding]:
    """Return the first name of each device: another name of it would tell the same."""
    found: dict[str, Binding] = {}
    for binding in bindings:
        found.setdefault(binding.device.id, binding)
    return list(found.values())


def moved(array: Any, session: Session, *, proved: bool = True) -> Any:
    """Return a copy of a host array on a device, when it is there.

    Raises:
        WrongDataError: it is `proved`, and a byte of it did not arrive.
    """
    buffer = session.empty(array.shape, array.dtype.name)
    session.upload(array, buffer)
    session.synchronize()
    if proved:
        prove(array, buffer)
    return buffer


def prove(right: Any, buffer: Any) -> None:
    """Fetch an operand in parts, and compare every byte: a result hides one in its rounding.

    Raises:
        WrongDataError: one is another than on the host.
    """
    session = buffer.session
    if is_hollow(session, sys.maxsize) or not right.size:  # a script's faults: `Played`
        return
    step = max(_PART // (right.nbytes // right.shape[0]), 1)
    for start in range(0, right.shape[0], step):
        wanted = np.ascontiguousarray(right[start : start + step])
        landed = np.invert(wanted.reshape(-1).view(np.uint8)).view(wanted.dtype)
        landed = landed.reshape(wanted.shape)
        session.download(buffer[start : start + step], landed)
        session.synchronize()
        if landed.tobytes() != wanted.tobytes():
            where = f"{session.device.ref} ({session.device.backend})"
            raise WrongDataError(f"{where}: an operand of {right.nbytes} bytes arrived wrong")


def played(work: Round, session: Session, nbytes: int, checked: int | None = None) -> Round:
    """Return a round; on scripted devices one that does nothing twice, or for nothing.

    Args:
        work: the round.
        session: one of its devices.
        nbytes: of its largest array.
        checked: bytes that are right or wrong, where those are others.
    """
    if not is_hollow(session, sys.maxsize):
        return work
    told = nbytes if checked is None else checked
    return Played(work, session, told, hollow=is_hollow(session, nbytes))


class Played(Round):
    """A round on scripted devices: what makes no difference is not done again."""

    def __init__(self, work: Round, session: Any, nbytes: int, *, hollow: bool) -> None:
        self._work, self._clock, self._nbytes = work, session.clock, nbytes
        self._hollow = hollow
        self._wrong: int | None = None

    @property
    def route(self) -> str | None:  # type: ignore[override]
        """How its copies went."""
        return self._work.route

    def poison(self) -> None:
        """Make every destination wrong, where there is one."""
        if not self._hollow:
            self._work.poison()

    def renew(self) -> None:
        """Let go of what the round before has made."""
        self._work.renew()

    def queue(self, spans: Spans | None = None, rounds: int = 1) -> None:
        """Queue the work `rounds` times, and ask what of it went wrong."""
        self._clock.spoilt = None
        if rounds == 1 or self._work.phased:  # which counts what each of them took
            self._work.queue(spans, rounds)
        else:
            self._clock.repeat(self._work.queue, rounds)
        self._wrong = self._clock.spoilt

    def finish(self) -> None:
        """Wait for what is queued."""
        self._work.finish()

    def phases(self) -> Mapping[str, float]:
        """Return the seconds of each phase."""
        return self._work.phases()

    def check(self) -> Check:
        """Return whether everything went as it should."""
        if not self._hollow:
            return self._work.check()
        return compared(self._nbytes, self._wrong, METHOD)
