"""Which entry of a map this process takes, by its local rank or by name, and what is there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from gpumap.app.program import Program, several, unbound
from gpumap.comm.ranks import VARIABLES, launched, ranks_of_node, without_ranks
from gpumap.errors import AbsentError, Diagnostic, QuestionError
from gpumap.inventory import Inventory
from gpumap.launch.placement import TOKEN, Place, identity, places
from gpumap.machine.process_control import pin
from gpumap.machine.topology import Topology, read
from gpumap.model import Binding, ContextMap, Device, Entry, Probe
from gpumap.resolve import resolve
from gpumap.text import cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.app.given_map import Where

    Notes = tuple[Diagnostic, ...]

_NO_RANK = "no launcher has started this process as a rank"
_NAME_IT = "add --name NAME, or --rank-from VARIABLE; or start it by srun, torchrun or mpirun"
_NAME_OR_UNSET = "add --name NAME, or --rank-from VARIABLE; or unset what an earlier launcher left"
_PMIX = "--rank-from PMIX_RANK if all ranks are on this node: PMIx has no variable for a local rank"
_TORCHRUN = "TORCHELASTIC_RUN_ID"  # which it alone sets
_DIGITS = 6  # of a local rank, at most


class Rank(NamedTuple):
    """The place of this process among those of its node; `ranks` may not be known."""

    by: str
    local: int
    ranks: int | None


class ExecRequest(NamedTuple):
    """Which entry of which map a process takes, and how that is checked."""

    where: Where
    name: str | None = None
    rank_from: str | None = None
    no_bind: bool = False
    verify: bool = False
    quiet: bool = False


class Taken(NamedTuple):
    """What a process has taken.

    Attributes:
        entry: Of the map.
        place: Its device and its cores.
        notes: What is to be said of it.
        given: Whether the launcher has left the process this device alone.
    """

    entry: Entry
    place: Place
    notes: Notes
    given: bool


def own_rank(env: Mapping[str, str], variable: str | None, *, named: bool) -> Rank | None:
    """Return the local rank of this process; None where nothing has numbered it.

    Args:
        env: of this process.
        variable: that has the local rank in place of a launcher's own.
        named: whether its entry is known without; then broken variables do not matter.

    Raises:
        QuestionError: a variable has no rank.
    """
    if variable is not None:
        text = env.get(variable, "")
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
            what = f"is {cut(text)!r}" if text else "is not set"
            message = f"the variable {variable} {what}: it is no local rank"
            raise QuestionError(message, "name one that counts the ranks of each node from 0")
        return Rank(variable, int(text), None)
    if _TORCHRUN in env:
        env = without_ranks(env)  # torchrun is what another launcher has started on each node
    try:
        launch = launched(env)
    except QuestionError as error:
        if not named:
            raise QuestionError(str(error), _NAME_OR_UNSET) from error
        launch = None
    return Rank(launch.by, launch.local_rank, ranks_of_node(launch, env)) if launch else None


def own_index(
    names: Sequence[str], rank: Rank | None, name: str | None, env: Mapping[str, str]
) -> int:
    """Return which entry of a map this process takes; that of a map with one needs no rank.

    Raises:
        QuestionError: none, or there are more or fewer ranks than entries.
    """
    if name is not None:
        if name not in names:
            raise QuestionError(f"the map has no name {name}", f"write one of {', '.join(names)}")
        return names.index(name)
    if TOKEN in env and list(names) == [env.get("GPUMAP_NAME")]:
        return 0  # the run around this process gave it its own entry
    if rank is None and len(names) == 1 and "PMIX_RANK" not in env:
        return 0
    if rank is None:
        raise QuestionError(_NO_RANK, _PMIX if "PMIX_RANK" in env else _NAME_IT)
    if rank.ranks not in (None, len(names)) or rank.local >= len(names):
        raise _miscounted(len(names), rank)
    return rank.local


def index_of_rank(names: Sequence[str], program: Program) -> int:
    """Return the index of this rank's name in a map, which may have more names than ranks.

    Raises:
        QuestionError: there are more ranks on this node than names in the map.
    """
    launch = several(program)
    rank = Rank(launch.by, launch.local_rank, None) if launch else Rank("", 0, None)
    return own_index(names, rank, None, program.env)


def _miscounted(names: int, rank: Rank) -> QuestionError:
    """Return that there are more or fewer ranks than entries."""
    several = f"{names} names" if names > 1 else "one name"
    if rank.ranks is None:
        what = f"this is number {rank.local + 1} by {rank.by}"
    else:
        what = f"{rank.by} has started {rank.ranks} rank{'s' * (rank.ranks > 1)}"
    fewer = (rank.ranks or rank.local + 1) < names
    fix = "map one device for each rank" if fewer else "add a name for each rank to the map"
    message = f"{what} on {os.uname().nodename}, and the map has {several}"
    return QuestionError(message, f"start {names} on each node, or {fix}")


def take(
    program: Program, request: ExecRequest, whole: ContextMap, index: int, rank: Rank | None
) -> Taken:
    """Find the device and the cores of an entry; of the others too, which share the cores.

    The cores that mpirun or srun has bound this process to are left, unless they are all that is
    known: it counts no map.

    Raises:
        AbsentError: a device of the map is not there, or is not left to this process.
        QuestionError: as `resolve`.
    """
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    bind = not request.no_bind
    if rank is not None and rank.by in VARIABLES:
        unbound(program)
    topology = read()
    entry, found = whole.entries[index], inventory(program, topology, request.where.backend)
    if rank and (alone := _left_alone(program.env, whole, entry, found)):
        pin(before)
        notes = _checked(entry, index, alone, f"{rank.by} has left local rank {rank.local}")
        (place,) = places([Binding(entry.name, alone[1])], read(), bind=bind)
        return Taken(entry, place, notes, given=True)
    resolution = resolve(whole, found)
    planned = places(resolution.bindings, topology, bind=bind)
    if not planned[index].cores:
        pin(before)  # where the launcher has let this process run
    return Taken(entry, planned[index], resolution.notes, given=False)


def inventory(program: Program, topology: Topology, backend: str | None) -> Inventory:
    """Return what finds the devices of a map; to place a process on cores takes no NumPy."""
    from gpumap.backends.numpy import NAME, cores

    found = Inventory(program.host(topology), backend)
    found.know(Probe(NAME, usable=True, devices=cores(topology)))
    return found


def _left_alone(
    env: Mapping[str, str], whole: ContextMap, entry: Entry, found: Inventory
) -> tuple[str, Device] | None:
    """Return the one device of a kind that the launcher has left, and the variable that says so.

    None: it has not chosen for this rank; or the map has one device of the kind anyway.
    """
    kind = entry.ref.kind
    hides = [f"{name}={cut(env[name])}" for name in kind.row.hides if env.get(name)]
    if not hides or len({str(e.ref) for e in whole.entries if e.ref.kind is kind}) == 1:
        return None
    devices = [d for probe in found.of(kind) for d in probe.devices if d.kind is kind]
    return (hides[-1], devices[0]) if len({device.id for device in devices}) == 1 else None


def _checked(entry: Entry, index: int, alone: tuple[str, Device], who: str) -> Notes:
    """Return the note that an index is taken as what is there.

    Raises:
        AbsentError: the map has another device there, by its identity.
    """
    variable, device = alone
    text = f"{who} {identity(device)} alone ({variable})"
    number, wished = index + 1, entry.ref.identity
    if wished is None:
        message = f"{text}: it is taken as {entry}"
        return (Diagnostic("given", message, number, severity="note", name=entry.name),)
    if wished in (device.pci, device.uuid):
        return ()
    message = f"{entry.name}: {entry.ref} is not visible: {text}"
    fix = "let the launcher leave all devices to each rank, or map indices: dev0->cuda0"
    raise AbsentError((Diagnostic("absent", message, number, entry.span, fix, name=entry.name),))
