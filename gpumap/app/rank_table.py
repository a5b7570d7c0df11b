"""The rank table of a job: which rank has which device, and what is wrong with that."""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from gpumap.app.program import several
from gpumap.errors import BY_EXIT, Diagnostic, Exit, QuestionError
from gpumap.model import Binding, Device, Rank, replace

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from gpumap.app.program import Program
    from gpumap.app.recording import Draft
    from gpumap.comm.base import ProcessComm


class Answer(NamedTuple):
    """A rank, and why it has no device."""

    rank: Rank
    problems: tuple[Diagnostic, ...] = ()
    code: Exit = Exit.OK


def this_rank(comm: ProcessComm, program: Program, binding: Binding | None = None) -> Rank:
    """Return this rank's row of the rank table."""
    launch = several(program)
    local = launch.local_rank if launch else 0
    return Rank(comm.rank, local, socket.gethostname(), os.getpid(), binding)


def record(draft: Draft, names: Iterable[str], ranks: Sequence[Rank]) -> tuple[Binding, ...]:
    """Put all ranks into a report; return what devices they have.

    `names` are those of the map.
    """
    draft.remarks += unassigned(names, ranks)
    bindings = tuple(unique_bindings(ranks))
    pairs = zip(ranks, bindings, strict=True)
    draft.ranks = tuple(replace(rank, binding=binding) for rank, binding in pairs)
    return bindings


def refuse(answers: Sequence[Answer]) -> None:
    """Refuse ranks of which one has no device, or two have the same.

    Raises:
        QuestionError: two ranks have one device, or there are more of them than names.
        AbsentError: the device of a rank is not there.
    """
    if problems := tuple(_problems(answers)):
        code = max(answer.code for answer in answers)
        raise BY_EXIT.get(code, QuestionError)(problems)
    if clashes := tuple(shared_devices([answer.rank for answer in answers])):
        raise QuestionError(clashes)


def _problems(answers: Sequence[Answer]) -> Iterator[Diagnostic]:
    """Yield the problems of all ranks, with their names."""
    for answer in answers:
        for problem in answer.problems:
            message = f"{answer.rank.label}: {problem.message}"
            yield replace(problem, message=message, span=None, entry=None)


def _bound(ranks: Iterable[Rank]) -> Iterator[tuple[Rank, Binding]]:
    """Yield each rank with its binding."""
    return ((rank, rank.binding) for rank in ranks if rank.binding is not None)


def shared_devices(ranks: Iterable[Rank]) -> Iterator[Diagnostic]:
    """Yield each device that two ranks have."""
    ranks_by_device: defaultdict[Hashable, list[tuple[Rank, Device]]] = defaultdict(list)
    for rank, binding in _bound(ranks):
        ranks_by_device[_identity(rank, binding.device)].append((rank, binding.device))
    for sharing in ranks_by_device.values():
        if len(sharing) > 1:
            who, device = " and ".join(rank.label for rank, _ in sharing), sharing[0][1]
            message = f"{who} have one device, {device.uuid or device.pci or device.id}"
            fix = "map each name to a device of its own"
            if device.in_host_memory and len({other.id for _, other in sharing}) > 1:
                fix = "take a backend that has cores apart: --backend numpy"
            yield Diagnostic("question", message, hint=fix)


def _identity(rank: Rank, device: Device) -> Hashable:
    """Return the identity of a device, the same for every rank: its machine, and which it is there.

    A rank that may run on some cores only numbers them itself.
    """
    known: Hashable = "" if device.ref.part is not None else device.uuid or device.pci
    if device.in_host_memory:
        known = device.hardware
    return rank.host, known or device.id


def unassigned(names: Iterable[str], ranks: Sequence[Rank]) -> Iterator[Diagnostic]:
    """Yield a note on the names of the map that no rank has."""
    taken = {binding.name for _, binding in _bound(ranks)}
    if free := [name for name in names if name not in taken]:
        message = f"no rank was started for {', '.join(free)}: not measured"
        yield Diagnostic(
            "unassigned-names", message, hint="start a rank for each name", severity="note"
        )


def unique_bindings(ranks: Sequence[Rank]) -> Iterator[Binding]:
    """Yield the binding of each rank, with unique names and ids.

    On several machines the number of the node is their prefix; and that of the rank prefixes the
    id of a device where an earlier rank has that id for another device.
    """
    hosts = list(dict.fromkeys(rank.host for rank in ranks))
    known_devices: dict[str, Hashable] = {}
    for rank, binding in _bound(ranks):
        device, node = binding.device, ""
        known = _identity(rank, device)
        if len(hosts) > 1:
            node = f"node{hosts.index(rank.host)}/"
            hardware = frozenset(f"{node}{part}" for part in device.hardware)
            device = replace(device, id=f"{node}{device.id}", hardware=hardware)
        if known_devices.setdefault(device.id, known) != known:
            device = replace(device, id=f"rank{rank.number}/{device.id}")
        yield Binding(f"{node}{binding.name}", device)
