"""A command, run once for each name of a map, on its device and on its cores."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.app.launching import Job, Launching, by_mpirun, found_program, tell
from gpumap.app.output import say
from gpumap.app.program import Ended
from gpumap.errors import Diagnostic, GpumapError, MapError, QuestionError
from gpumap.escape import printable, width
from gpumap.launch.child import TOKEN, Order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from gpumap.app.program import Program
    from gpumap.launch.places import Place
    from gpumap.machine.topology import Topology
    from gpumap.model import ContextMap, Resolution

    Planned = Sequence[tuple[Place, Mapping[str, str]]]

_NO_MAP = (
    'give one: gpumap run "dev0->cuda0;dev1->cuda1" -- COMMAND; `gpumap devices` lists devices'
)
_NO_COMMAND = 'write it behind "--": gpumap run MAP -- COMMAND ARG...'
_COLUMNS = ("name", "device", "PCI", "node", "cores", "memory", "how that is known")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """On which devices a command runs, and how its processes are started and ended."""

    argument: str | None
    option: str | None
    map_file: Path | None
    backend: str | None
    launcher: str
    no_bind: bool
    dry_run: bool
    output_dir: Path | None
    timeout: float | None
    grace: float
    quiet: bool


def run_names(program: Program, asked: RunRequest) -> None:
    """Run the command that stands behind "--" once for each name.

    Raises:
        Ended: it has ended, not well.
    """
    if not program.command:
        raise QuestionError("no command is given", _NO_COMMAND)
    path = found_program(program.command[0], program)
    from gpumap.machine.topology import read

    topology = read()
    resolution = _resolved(program, topology, asked)
    planned = _planned(program, topology, resolution, asked.backend, bind=not asked.no_bind)
    if asked.launcher == "mpi":
        planned, jobs = _by_mpirun(program, path, planned)
    else:
        jobs = _jobs(program, path, planned)
    if asked.dry_run:
        _show(program, planned, jobs)
        return
    if not asked.quiet:
        tell(program, _report(place for place, _ in planned))
    launching = Launching(program, jobs, quiet=asked.quiet)
    if asked.output_dir is not None:
        launching.to_files(asked.output_dir)
    token = planned[0][1][TOKEN].rpartition(":")[2]
    if code := launching.go(token, asked.grace, asked.timeout):
        raise Ended(code)


# --- what is asked for


def _resolved(program: Program, topology: Topology, asked: RunRequest) -> Resolution:
    """Find the map and its devices; say what is wrong with it, with the place."""
    from gpumap import sources
    from gpumap.parse import parse_map

    env, cwd = program.env, program.cwd
    source = sources.find(
        argument=asked.argument, option=asked.option, map_file=asked.map_file, env=env, cwd=cwd
    )
    if source is None:
        say(sources.ignored(env=env, cwd=cwd), program)
        raise MapError((Diagnostic("no-map", "no map is given", hint=_NO_MAP),))
    try:
        context_map = parse_map(source.text)
        resolution = _looked_up(program, topology, context_map, asked.backend)
    except GpumapError as error:
        say(error.diagnostics, program, source.text)
        raise Ended(error.exit_code) from error
    if not asked.quiet:
        say((*source.notes, *context_map.notes, *resolution.notes), program, source.text)
    return resolution


def _looked_up(
    program: Program, topology: Topology, context_map: ContextMap, backend: str | None
) -> Resolution:
    from gpumap.backends.numpy.devices import NAME, cores
    from gpumap.model import Probe
    from gpumap.resolve import Inventory, resolve

    inventory = Inventory(program.host(topology), backend)
    devices = cores(topology)  # to place a process on them takes no NumPy
    inventory.know(Probe(NAME, usable=True, devices=devices))
    return resolve(context_map, inventory)


def _planned(
    program: Program,
    topology: Topology,
    resolution: Resolution,
    backend: str | None,
    *,
    bind: bool,
) -> Planned:
    """Return for each name its place, and the variables of its process."""
    from pathlib import Path

    from gpumap.launch.child import Shared, environments
    from gpumap.launch.places import places
    from gpumap.machine.numa import with_memory
    from gpumap.machine.tree import Tree

    memory = with_memory(Tree(Path("/")))
    found = places(resolution.bindings, topology, memory, bind=bind)
    shared = Shared(os.urandom(16).hex(), _free_port(), backend=backend)
    return list(zip(found, environments(found, shared, program.env), strict=True))


def _free_port() -> int:
    from _socket import socket  # what socket.socket is made of, without 5 ms of names

    sought = socket()
    try:
        sought.bind(("127.0.0.1", 0))
        port: int = sought.getsockname()[1]
    finally:
        sought.close()
    return port


def _jobs(program: Program, path: str, planned: Planned) -> list[Job]:
    """Return a process for each name."""
    from gpumap.distributed.launch import without_ranks

    found, given = [], without_ranks(program.env)
    for rank, (place, variables) in enumerate(planned):
        env = {**given, **variables}
        order = Order(path, program.command or (), env, place.cores, place.memory)
        found.append(Job(place.name, f"rank {rank}, {place.device.ref}", order, place))
    return found


def _by_mpirun(program: Program, path: str, planned: Planned) -> tuple[Planned, list[Job]]:
    """Return what is planned as mpirun can do it, and the one process that this is."""
    from gpumap.launch import mpirun

    places = mpirun.without_memory([place for place, _ in planned])
    planned = list(zip(places, (variables for _, variables in planned), strict=True))
    if "=" in path and not all(place.cores for place in places):
        fix = "give it another path, or put the command into a script"
        raise QuestionError(
            f'env, which sets the variables, takes {path} for one: it has a "="', fix
        )
    contexts = mpirun.placed(planned, (path, *(program.command or ())[1:]))
    helpers = ("env", *(["taskset"] if any(place.cores for place in places) else []))
    return planned, [by_mpirun(program, contexts, planned[0][1][TOKEN], helpers)]


# --- what is said before


def _report(planned: Iterable[Place]) -> str:
    from gpumap.units import ranges

    rows = [
        (
            printable(place.name),
            str(place.device.ref),
            place.device.pci or "-",
            "-" if place.node is None else str(place.node),
            ranges(place.cores) or "any",
            "any" if place.memory is None else f"node {place.memory}",
            printable(place.why),
        )
        for place in planned
    ]
    columns = list(zip(_COLUMNS, *rows, strict=True))
    widths = [max(map(width, cells)) for cells in columns]
    lines = (
        "  ".join(cell + " " * (w - width(cell)) for cell, w in zip(row, widths, strict=True))
        for row in (_COLUMNS, *rows)
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _show(program: Program, planned: Planned, jobs: Sequence[Job]) -> None:
    """Print what would be started."""
    import shlex

    program.stdout.write(_report(place for place, _ in planned))
    for place, variables in planned if jobs[0].place else ():
        program.stdout.write(f"\n{printable(place.name)}\n")
        for key, value in variables.items():
            program.stdout.write(f"  {key}={printable(shlex.quote(value))}\n")
    if not jobs[0].place:
        program.stdout.write(f"\n{printable(shlex.join(jobs[0].order.argv))}\n")
    program.stdout.flush()
