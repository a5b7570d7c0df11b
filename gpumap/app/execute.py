"""A process that takes one entry of a map, its device and its cores, and becomes a command."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpumap import sources
from gpumap.app.command import not_executed, requested, tell
from gpumap.app.output import say
from gpumap.app.own_entry import ExecRequest, Rank, Taken, own_index, own_rank, take
from gpumap.app.program import Ended, Program
from gpumap.errors import DeviceError, Diagnostic, GpumapError, MapError
from gpumap.launch.placement import TOKEN, Place, environment, identity
from gpumap.launch.visibility import kept
from gpumap.machine.process_control import pin, stat_fields
from gpumap.model import replace
from gpumap.parse import parse_map
from gpumap.units import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpumap.app.given_map import Where
    from gpumap.model import Device, MapText

_NO_MAP = 'give one: gpumap {} "dev0->cuda0;dev1->cuda1" -- COMMAND; `gpumap devices` lists devices'
_BY_EXEC = "exec"  # in the place of what identifies the processes of a run
_PATIENCE, _EACH = 5.0, 0.25  # seconds in which the other ranks of this node come; for each more
_SEES_OTHERS = "omit --verify to start it all the same; `gpumap devices` lists what drivers show"
_PYTHONS = (signal.SIGPIPE, signal.SIGXFSZ)  # which Python ignores
_JOBS = {  # by launcher: variables that together no other job of this node has
    "Open MPI": ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    "Flux": ("FLUX_JOB_ID",),
    "Slurm": ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    "torchrun": ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT", TOKEN),
}


def execute(program: Program, request: ExecRequest) -> None:
    """Become the command after "--" on the device and the cores of one entry.

    Raises:
        QuestionError: there is no command, or no map.
        Ended: something is not as it should be, and has been said.
    """
    path = requested(program, "exec MAP")
    with given_map(program, request.where, "exec") as source:
        env = _prepared(program, request, source)
    _become(program, path, env)


@contextmanager
def given_map(program: Program, where: Where, command: str) -> Iterator[MapText]:
    """Find the map of an argument, an option or a file, or of what is around.

    What is wrong with it, as long as the context lasts, is said with its place.

    Raises:
        MapError: there is none; what was ignored has been said.
        Ended: something is wrong with it.
    """
    env, cwd = program.env, program.cwd
    source = sources.find(where.argument, where.option, env=env, cwd=cwd)
    if source is None:
        say(sources.ignored(env), program)
        raise MapError((Diagnostic("no-map", "no map is given", hint=_NO_MAP.format(command)),))
    try:
        yield source
    except GpumapError as error:
        say(error.diagnostics, program, source.text)
        raise Ended(error.exit_code) from error


def _prepared(program: Program, request: ExecRequest, source: MapText) -> dict[str, str]:
    """Take the entry, run on its cores, prove it if requested; return the command's variables."""
    whole = parse_map(source.text)
    backend = request.where.backend
    rank = own_rank(program.env, request.rank_from, named=request.name is not None)
    names = [entry.name for entry in whole.entries]
    index = own_index(names, rank, request.name, program.env)
    taken = take(program, request, whole, index, rank)
    if not request.quiet:
        _note((*source.notes, *whole.notes, *taken.notes), program, source, rank)
    place = taken.place
    token = program.env.get(TOKEN, _BY_EXEC)  # by which a run around this process knows it
    mine = environment([place], token, program.env, backend)
    env = kept([place.device], program.env) | mine
    if place.cores and not pin(place.cores):
        raise DeviceError(
            f"{place.name} cannot be bound to its cores", "leave it unbound: --no-bind"
        )
    if request.verify:
        _verify(program, place, env, backend)
    if rank and (request.verify or taken.given):
        _meet(program, request, taken, rank, len(names), _known_as(place.device, env))
    elif request.verify and not request.quiet:
        _tell_verified(program, place)
    return env


def _note(
    notes: Iterable[Diagnostic], program: Program, source: MapText, rank: Rank | None
) -> None:
    """Say what is odd about the map, once on a node; and what each rank has been given."""
    first = rank is None or rank.local == 0
    said = (d for d in notes if d.code == "given" or (first and d.severity != "note"))
    say(said, program, source.text)


# --- the proof


def _verify(program: Program, place: Place, env: Mapping[str, str], backend: str | None) -> None:
    """Compare what the driver shows with what was planned; `pin` has compared the cores.

    Raises:
        DeviceError: it shows something else.
    """
    kind = place.device.kind
    if kind.row.hides:  # set or not: a GPU without a UUID hides no other
        from gpumap.inventory import Inventory

        host = program.host()
        asked = Inventory(replace(host, env=env), backend)
        seen = {d.id: d for p in asked.of(kind) for d in p.devices if d.kind is kind}
        if message := otherwise(place, list(seen.values())):
            raise DeviceError(f"{place.name} {message}", _SEES_OTHERS)


def otherwise(place: Place, seen: list[Device]) -> str | None:
    """Return how a process sees other devices than planned; None: its own alone."""
    own = place.device
    if len(seen) == 1 and (own.uuid, own.pci) == (seen[0].uuid, seen[0].pci):
        return None
    found = ", ".join(map(identity, seen)) or "none"
    return f"was to see {identity(own)} alone, and its driver shows {found}"


def _meet(
    program: Program, request: ExecRequest, taken: Taken, rank: Rank, names: int, device: str
) -> None:
    """Compare devices with the other ranks of this node; say what has been verified.

    `device` is what no other one of this node is called.

    Raises:
        BusyError: another rank has the same device.
        QuestionError: there is no folder to meet in.
    """
    from gpumap.launch.rendezvous import Claim, Meeting

    place, count = taken.place, rank.ranks or max(names, rank.local + 1)
    claim = Claim(place.name, str(taken.entry.ref), device, os.getpid())
    meeting = Meeting(_job(rank, program.env), program.env)
    meeting.take(rank.local, claim)
    patience = _PATIENCE + _EACH * count
    missing = meeting.wait(rank.local, count, claim, patience)
    if request.quiet:
        return
    if missing:
        late = f"{missing} of {count} ranks of this node did not come within {patience:g} s"
        tell(program, f"warning: {late}: cannot tell whether they have other devices")
    elif request.verify:
        node = f"local rank {rank.local} of {count} on {os.uname().nodename} ({rank.by}), "
        _tell_verified(program, place, node)


def _tell_verified(program: Program, place: Place, node: str = "") -> None:
    device, where = place.device, f"cores {ranges(place.cores)}" if place.cores else place.why
    tell(program, f"verified: {place.name} is {node}{identity(device)}, {where}")
    if device.kind.row.hides and not (device.uuid or device.pci):
        unknown = (
            "its driver shows one device and no identity: cannot tell whether it is the right one"
        )
        tell(program, f"warning: {place.name}: {unknown}")


def _known_as(device: Device, env: Mapping[str, str]) -> str:
    """Return a device as no other of this node is called, whatever is visible."""
    hides = (f"{name}={env[name]}" for name in device.kind.row.hides if env.get(name))
    return device.uuid or device.pci or next(hides, device.id)


def _job(rank: Rank, env: Mapping[str, str]) -> str:
    """Return what the ranks of a job on this node have in common, and no other job."""
    words = [f"{name}={env[name]}" for name in _JOBS.get(rank.by, ()) if env.get(name)]
    if not words:
        parent = os.getppid()
        words = [f"child of {parent}, since {''.join(stat_fields(parent)[19:20])}"]
    return "\n".join((rank.by, *words))


# --- the end


def _become(program: Program, path: str, env: Mapping[str, str]) -> None:
    """Replace this process: no child is left, and streams and signals are the command's own."""
    for stream in (program.stdout, program.stderr):
        stream.flush()
    for ignored in _PYTHONS:
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execve(path, program.command, env)  # noqa: S606 - a program, not a shell
    except (OSError, ValueError) as error:
        raise not_executed(program, path, error) from error
