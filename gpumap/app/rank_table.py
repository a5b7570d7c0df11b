"""Which rank sits on which device of which machine: what the ranks say of themselves, put together.

A device is known by what stays the same whatever is visible to a process: two ranks may both call
theirs cuda0 and have different ones, or have one under two names.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpumap.distributed.watchdog import Seat
from gpumap.errors import AbsentError, Diagnostic, Exit, QuestionError
from gpumap.model import Binding, Rank

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from gpumap.model import Device


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rank says when it has looked for its device."""

    seat: Seat
    binding: Binding | None
    problems: tuple[Diagnostic, ...] = ()
    code: Exit = Exit.OK
    local: int = 0  # its number among the ranks of its machine


def ranks(answers: Sequence[Answer]) -> tuple[Rank, ...]:
    """Return each rank, with its device."""
    bindings = iter(named(answers))
    return tuple(
        Rank(
            a.seat.rank, a.local, a.seat.host, a.seat.process, next(bindings) if a.binding else None
        )
        for a in answers
    )


def refuse(answers: Sequence[Answer]) -> None:
    """Refuse ranks of which one has no device, or two have the same.

    Raises:
        QuestionError: two ranks have one device, or there are more of them than names.
        AbsentError: the device of a rank is not there.
    """
    if problems := tuple(problem for answer in answers for problem in told(answer)):
        code = max(answer.code for answer in answers)
        kind = AbsentError if code == Exit.ABSENT else QuestionError
        raise kind(problems)
    if clashes := tuple(twice(answers)):
        raise QuestionError(clashes)


def told(answer: Answer) -> Iterator[Diagnostic]:
    """Yield what is wrong with a rank, with its name."""
    for problem in answer.problems:
        message = f"{answer.seat.words}: {problem.message}"
        yield replace(problem, message=message, span=None, entry=None)


def twice(answers: Iterable[Answer]) -> Iterator[Diagnostic]:
    """Yield each device that two ranks have."""
    found: defaultdict[Hashable, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.binding is not None:
            found[answer.seat.host, _identity(answer.binding.device)].append(answer)
    for sharing in found.values():
        if len(sharing) > 1:
            who = " and ".join(answer.seat.words for answer in sharing)
            device = sharing[0].binding.device if sharing[0].binding else None
            which = device and (device.uuid or device.pci or device.id)
            fix = "map each name to a device of its own"
            yield Diagnostic("question", f"{who} have one device, {which}", hint=fix)


def _identity(device: Device) -> Hashable:
    """Return what tells a device from the others of its machine, whoever looks at it."""
    if (
        device.in_host_memory
    ):  # cores: where a rank may run on some alone, their numbers are its own
        return device.hardware or device.id
    if device.ref.part is None and (known := device.uuid or device.pci):
        return known
    return device.id


def left(names: Iterable[str], answers: Sequence[Answer]) -> Iterator[Diagnostic]:
    """Yield which names of the map no rank has taken: nothing is known of them."""
    taken = {answer.seat.name for answer in answers}
    if free := [name for name in names if name not in taken]:
        said = f"no rank was started for {', '.join(free)}: not measured"
        yield Diagnostic(
            "unassigned-names", said, hint="start a rank for each name", severity="note"
        )


def nodes(seats: Sequence[Seat]) -> Iterator[Diagnostic]:
    """Yield which host each node of the names is, where there are several."""
    hosts = list(dict.fromkeys(seat.host for seat in seats))
    if len(hosts) > 1:
        which = ", ".join(f"node{number} is {host}" for number, host in enumerate(hosts))
        yield Diagnostic("nodes", which, severity="note")


def named(answers: Sequence[Answer]) -> Iterator[Binding]:
    """Yield the binding of each rank that has one, by names and ids that no other one has.

    On several machines the number of its node stands before them; and that of the rank before the
    id of a device that is another one than a rank before calls so.
    """
    hosts = list(dict.fromkeys(answer.seat.host for answer in answers))
    seen: dict[str, Hashable] = {}
    for answer in answers:
        if answer.binding is None:
            continue
        name, device = answer.binding.name, answer.binding.device
        if len(hosts) > 1:
            node = f"node{hosts.index(answer.seat.host)}"
            hardware = frozenset(f"{node}/{part}" for part in device.hardware)
            name = f"{node}/{name}"
            device = replace(device, id=f"{node}/{device.id}", hardware=hardware)
        known = (answer.seat.host, _identity(answer.binding.device))
        if seen.setdefault(device.id, known) != known:
            device = replace(device, id=f"rank{answer.seat.rank}/{device.id}")
        yield Binding(name, device)
