"""What moving bytes costs: host to device and device to host, alone and all names at once.

Each transfer is one synchronous call: queued, and waited for. Destinations are poisoned and
compared byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpumap.bench.figures import by_block, per_time, ratio, time_of
from gpumap.bench.sizes import Size
from gpumap.model import Binding, Case, Check, Group, Plan, Reason, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.backends.base import HostMemory, Session
    from gpumap.bench.spans import Spans
    from gpumap.model import Estimate, Limit, Param, Samples

KEY = "transfer"
CASES = ("h2d", "d2h")
_ROUTES = {"h2d": "host-to-device", "d2h": "device-to-host"}
_PART = 1 << 20  # bytes of a buffer that are made or compared at a time
_MEMORIES: tuple[HostMemory, ...] = ("pageable", "pinned")


@dataclass(frozen=True, slots=True)
class Params:
    """Which sizes to move, in which directions, and with which random bytes."""

    sizes: tuple[Size, ...]
    cases: tuple[str, ...] = CASES
    seed: int = 1


def plan(bindings: Sequence[Binding], sessions: Mapping[str, Session], params: Params) -> Plan:
    """Return the cases: a group for each size, direction and kind of host memory."""
    groups = tuple(
        Group(tuple(_cases(bindings, sessions, size, direction, memory)))
        for size in params.sizes
        for direction in CASES
        if direction in params.cases
        for memory in _MEMORIES
    )
    return replace(needs(bindings, params), groups=groups)


def needs(bindings: Sequence[Binding], params: Params) -> Plan:
    """Return a plan of no cases, with the memory that the largest size takes."""
    largest = max(size.nbytes for size in params.sizes)
    memory = dict.fromkeys((b.device.id for b in bindings), 0)
    for binding in bindings:
        memory[binding.device.id] += largest
    return Plan((), {**memory, "host": 2 * largest * len(bindings)}, largest)


class Transfer:
    """The copies of a plan, on opened sessions."""

    key = KEY

    def __init__(
        self, bindings: Sequence[Binding], sessions: Mapping[str, Session], params: Params
    ) -> None:
        self.plan = plan(bindings, sessions, params)
        self._sessions = sessions
        self._params = params
        self._names = [binding.name for binding in bindings]
        self._ends: dict[str, Ends] = {}

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Let go of the buffers of the group before."""
        self._ends = {}

    def round(self, case: Case) -> TransferRound:
        """Allocate both ends of each copy."""
        memory: Any = case.params["memory"]
        nbytes = int(case.params["bytes"])
        ends = [self._both_ends(name, nbytes, memory) for name in case.names]
        return TransferRound(ends, case.name)

    def metrics(
        self, group: Group, samples: Mapping[str, Samples], confidence: float
    ) -> Mapping[str, Mapping[str, Estimate]]:
        """Return time and bandwidth, and how much all at once move against one alone."""
        blocks = {id_: by_block(found) for id_, found in samples.items()}
        figures: dict[str, dict[str, Estimate]] = {}
        for case in group.cases:
            if case.id not in samples:
                continue
            time = time_of(samples[case.id], confidence)
            moved = case.work.bytes_to_device + case.work.bytes_to_host
            figures[case.id] = {"time": time, "bandwidth": per_time(moved, time, "B/s")}
            if case.against in blocks:
                n = len(case.names)
                alone = {block: n * seconds for block, seconds in blocks[case.against].items()}
                if gain := ratio(alone, blocks[case.id], confidence):
                    figures[case.id]["speedup"] = gain
        return figures

    def limit(self, case: Case) -> Limit | None:  # noqa: ARG002 - the contract's
        """Return None: what a copy can reach is not known here."""
        return None

    def _both_ends(self, name: str, nbytes: int, memory: HostMemory) -> Ends:
        if name not in self._ends:
            seed = (self._params.seed, self._names.index(name))
            self._ends[name] = Ends(self._sessions[name], nbytes, memory, seed)
        return self._ends[name]


class Ends:
    """Bytes on the host, room for them on a device, and room for them on the host again."""

    def __init__(
        self, session: Session, nbytes: int, memory: HostMemory, seed: tuple[int, int]
    ) -> None:
        import numpy as np

        self.session = session
        self.source = session.host((nbytes,), "uint8", memory)
        rng = np.random.default_rng(seed)
        for part in _parts(nbytes):
            self.source[part] = rng.integers(0, 256, self.source[part].size, dtype=np.uint8)
        self.buffer = session.empty((nbytes,), "uint8")
        self.landing = session.host((nbytes,), "uint8", memory)

    def poison(self, direction: str) -> None:
        """Make every byte of the destination wrong, and the source of a fetch right."""
        self._spoil()
        wrong_or_right = self.landing if direction == "h2d" else self.source
        self.session.upload(wrong_or_right, self.buffer)
        self.session.synchronize()

    def move(self, direction: str) -> None:
        """Queue the copy."""
        if direction == "h2d":
            self.session.upload(self.source, self.buffer)
        else:
            self.session.download(self.buffer, self.landing)

    def check(self, direction: str) -> Check:
        """Compare the destination with the source, byte for byte."""
        if direction == "h2d":
            self._spoil()
            self.session.download(self.buffer, self.landing)
            self.session.synchronize()
        first = self._first_difference()
        return Check("bytes", first is None, nbytes=self.source.nbytes, first_bad_offset=first)

    def _spoil(self) -> None:
        import numpy as np

        np.invert(self.source, out=self.landing)

    def _first_difference(self) -> int | None:
        for part in _parts(self.source.size):
            wrong = (self.landing[part] != self.source[part]).nonzero()[0]
            if wrong.size:
                return int(part.start + wrong[0])
        return None


def _parts(nbytes: int) -> Iterable[slice]:
    """Yield bytes in parts, so that looking at them takes no memory to speak of."""
    return (slice(start, start + _PART) for start in range(0, nbytes, _PART))


class TransferRound:
    """One synchronous copy for each name: all queued, then all waited for."""

    def __init__(self, ends: list[Ends], direction: str) -> None:
        self._ends = ends
        self._direction = direction

    def poison(self) -> None:
        """Make every destination wrong."""
        for ends in self._ends:
            ends.poison(self._direction)

    def queue(self, spans: Spans | None = None) -> None:  # noqa: ARG002 - the contract's
        """Copy, and wait: that is what a synchronous call costs."""
        for ends in self._ends:
            ends.move(self._direction)
        self.finish()

    def finish(self) -> None:
        """Wait for every device."""
        for ends in self._ends:
            ends.session.synchronize()

    def check(self) -> Check:
        """Return the first check that failed, or the last one, of all bytes."""
        checks = [ends.check(self._direction) for ends in self._ends]
        bad = next((check for check in checks if not check.passed), checks[-1])
        return (
            replace(bad, nbytes=sum(check.nbytes or 0 for check in checks)) if bad.passed else bad
        )


def _cases(
    bindings: Sequence[Binding],
    sessions: Mapping[str, Session],
    size: Size,
    direction: str,
    memory: HostMemory,
) -> Iterable[Case]:
    params: dict[str, Param] = {"bytes": size.nbytes, "memory": memory, "mode": "sync"}
    if size.name is not None:
        params["size_name"] = size.name
    alone = [_case(direction, {**params, "pattern": "alone"}, (b,), sessions) for b in bindings]
    yield from alone
    if len(bindings) > 1:
        together = _case(direction, {**params, "pattern": "together"}, tuple(bindings), sessions)
        yield replace(together, against=alone[0].id if together.skip is None else None)


def _case(
    direction: str,
    params: Mapping[str, Param],
    bindings: tuple[Binding, ...],
    sessions: Mapping[str, Session],
) -> Case:
    moved = int(params["bytes"]) * len(bindings)
    work = Work(bytes_to_device=moved) if direction == "h2d" else Work(bytes_to_host=moved)
    skip = _unsupported(bindings, sessions, str(params["memory"]))
    return Case(KEY, direction, params, bindings, work, None, skip, _ROUTES[direction])


def _unsupported(
    bindings: Iterable[Binding], sessions: Mapping[str, Session], memory: str
) -> Reason | None:
    lacking = [
        b for b in bindings if memory != "pageable" and memory not in sessions[b.name].features
    ]
    if not lacking:
        return None
    backends = ", ".join(dict.fromkeys(binding.device.backend for binding in lacking))
    return Reason("unsupported", f"no {memory} host memory ({backends})")
