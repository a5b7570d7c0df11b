"""The rank table of a job: which rank has which device, and what is wrong with that."""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.comm.base import RankInfo
from gpumap.errors import AbsentError, Diagnostic, Exit, QuestionError
from gpumap.model import Binding, Rank, replace

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from gpumap.app.recording import Draft
    from gpumap.comm.base import ProcessComm
    from gpumap.model import Device


@dataclass(frozen=True, slots=True)
class Answer:
    """A rank's row of the rank table, and its device or why it has none."""

    info: RankInfo
    binding: Binding | None
    problems: tuple[Diagnostic, ...] = ()
    code: Exit = Exit.OK
    local: int = 0  # its number among the ranks of its machine


def rank_info(comm: ProcessComm, name: str) -> RankInfo:
    """Return this rank's row of the rank table, with a name of the map."""
    return RankInfo(comm.rank, name, socket.gethostname(), os.getpid())


def record(draft: Draft, names: Iterable[str], answers: Sequence[Answer]) -> tuple[Binding, ...]:
    """Put the ranks of all answers into a report; return what devices they have.

    `names` are those of the map.
    """
    draft.remarks += [*unassigned(names, answers), *node_names([each.info for each in answers])]
    bindings = tuple(unique_bindings(answers))
    draft.ranks = tuple(
        Rank(a.info.rank, a.local, a.info.host, a.info.process, binding)
        for a, binding in zip(answers, bindings, strict=True)
    )
    return bindings


def refuse(answers: Sequence[Answer]) -> None:
    """Refuse ranks of which one has no device, or two have the same.

    Raises:
        QuestionError: two ranks have one device, or there are more of them than names.
        AbsentError: the device of a rank is not there.
    """
    if problems := tuple(problem for answer in answers for problem in rank_problems(answer)):
        code = max(answer.code for answer in answers)
        kind = AbsentError if code == Exit.ABSENT else QuestionError
        raise kind(problems)
    if clashes := tuple(shared_devices(answers)):
        raise QuestionError(clashes)


def rank_problems(answer: Answer) -> Iterator[Diagnostic]:
    """Yield the problems of a rank, with its name."""
    for problem in answer.problems:
        message = f"{answer.info.label}: {problem.message}"
        yield replace(problem, message=message, span=None, entry=None)


def shared_devices(answers: Iterable[Answer]) -> Iterator[Diagnostic]:
    """Yield each device that two ranks have."""
    ranks_by_device: defaultdict[Hashable, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.binding is not None:
            ranks_by_device[answer.info.host, _identity(answer.binding.device)].append(answer)
    for sharing in ranks_by_device.values():
        if len(sharing) > 1:
            who = " and ".join(answer.info.label for answer in sharing)
            device = sharing[0].binding.device if sharing[0].binding else None
            which = device and (device.uuid or device.pci or device.id)
            fix = "map each name to a device of its own"
            yield Diagnostic("question", f"{who} have one device, {which}", hint=fix)


def _identity(device: Device) -> Hashable:
    """Return the identity of a device on its machine, the same for every rank."""
    if device.in_host_memory:  # cores: a rank that may run on some only numbers them itself
        return device.hardware or device.id
    if device.ref.part is None and (known := device.uuid or device.pci):
        return known
    return device.id


def unassigned(names: Iterable[str], answers: Sequence[Answer]) -> Iterator[Diagnostic]:
    """Yield a note on the names of the map that no rank has."""
    taken = {answer.info.name for answer in answers}
    if free := [name for name in names if name not in taken]:
        message = f"no rank was started for {', '.join(free)}: not measured"
        yield Diagnostic(
            "unassigned-names", message, hint="start a rank for each name", severity="note"
        )


def node_names(table: Sequence[RankInfo]) -> Iterator[Diagnostic]:
    """Yield a note on the host of each node, where there are several."""
    hosts = list(dict.fromkeys(info.host for info in table))
    if len(hosts) > 1:
        which = ", ".join(f"node{number} is {host}" for number, host in enumerate(hosts))
        yield Diagnostic("nodes", which, severity="note")


def unique_bindings(answers: Sequence[Answer]) -> Iterator[Binding]:
    """Yield the binding of each rank that has one, with unique names and ids.

    On several machines the number of the node is their prefix; and that of the rank prefixes the
    id of a device where an earlier rank has that id for another device.
    """
    hosts = list(dict.fromkeys(answer.info.host for answer in answers))
    known_devices: dict[str, Hashable] = {}
    for answer in answers:
        if answer.binding is None:
            continue
        name, device = answer.binding.name, answer.binding.device
        if len(hosts) > 1:
            node = f"node{hosts.index(answer.info.host)}"
            hardware = frozenset(f"{node}/{part}" for part in device.hardware)
            name = f"{node}/{name}"
            device = replace(device, id=f"{node}/{device.id}", hardware=hardware)
        known = (answer.info.host, _identity(answer.binding.device))
        if known_devices.setdefault(device.id, known) != known:
            device = replace(device, id=f"rank{answer.info.rank}/{device.id}")
        yield Binding(name, device)
