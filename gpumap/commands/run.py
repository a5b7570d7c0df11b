"""`gpumap run`: a command, once for each name of a map, on its device and on its cores."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from gpumap.app.launching import Job, Launching, tell
from gpumap.app.output import say
from gpumap.commands.options import (
    DurationType,
    FileType,
    backend_option,
    map_argument,
    map_texts,
    setting,
)
from gpumap.errors import Diagnostic, GpumapError, MapError, QuestionError
from gpumap.escape import printable, width
from gpumap.launch.child import Order
from gpumap.launch.environment import TOKEN

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


@click.command()
@map_argument
@map_texts
@click.option(
    "--cfg",
    metavar="FILE",
    type=FileType(),
    help="In place of a map and a command: Theano-MPI's session file, read as data, never by a "
    'shell. Starts the bench train that it asks for; further options of that stand behind "--".',
)
@backend_option("Drive the devices with this backend, in the processes too.")
@setting(
    "--launcher",
    type=click.Choice(["local", "mpi"]),
    default="local",
    show_default=True,
    help="What starts the processes, on this machine: gpumap itself, or mpirun; that puts no names "
    "before lines, and has one file for all.",
)
@setting("--no-bind", is_flag=True, help="Bind no process to cores and memory.")
@setting(
    "--dry-run",
    is_flag=True,
    help="Print the places and variables, or the call of mpirun; start nothing.",
)
@setting(
    "--output-dir",
    metavar="DIR",
    type=FileType(),
    help="Write what each process prints to files: DIR/NAME.out, DIR/NAME.err.",
)
@setting("--timeout", type=DurationType(), help="End all processes after this time.")
@setting(
    "--grace",
    type=DurationType(),
    default="5s",
    show_default=True,
    help="The time that a process has to end when it is told to; then it is killed.",
)
@setting("--quiet", is_flag=True, help="No notes and no report of places on stderr.")
@click.pass_obj
def run(
    program: Program,
    *,
    argument: str | None,
    option: str | None,
    map_file: Path | None,
    cfg: Path | None,
    backend: str | None,
    launcher: str,
    no_bind: bool,
    dry_run: bool,
    output_dir: Path | None,
    timeout: float | None,
    grace: float,
    quiet: bool,
) -> None:
    """Run a command once for each name of a map, on its device and on its cores.

    The command stands behind "--": gpumap run MAP [OPTIONS] -- COMMAND ARG... Each process has its
    name in GPUMAP_NAME, its own entry of the map in GPUMAP_CONTEXTS, and RANK, WORLD_SIZE,
    MASTER_ADDR and so on as torchrun sets them; it reads nothing from stdin. What it prints comes
    out line by line behind its name. The first process that fails ends the others, and its exit
    code is gpumap's (128 and its number for a signal); 124 after --timeout, 130 after Ctrl-C, 126
    and 127 for a command that cannot be run. When gpumap ends, nothing that it started is left.
    """
    if cfg is not None:
        from gpumap.app.launch_config import Asked, start

        start(program, cfg, Asked(backend, launcher == "mpi", dry_run, timeout, grace, quiet))
        return
    if not program.command:
        raise QuestionError("no command is given", _NO_COMMAND)
    from gpumap.app.executables import found

    path = found(program.command[0], program)
    from gpumap.machine.topology import read

    topology = read()
    resolution = _resolved(program, topology, argument, option, map_file, backend, quiet=quiet)
    planned = _planned(program, topology, resolution, backend, bind=not no_bind)
    if launcher == "mpi":
        planned, jobs = _by_mpirun(program, path, planned)
    else:
        jobs = _jobs(program, path, planned)
    if dry_run:
        _show(program, planned, jobs)
        return
    if not quiet:
        tell(program, _report(place for place, _ in planned))
    launching = Launching(program, jobs, quiet=quiet)
    if output_dir is not None:
        launching.to_files(output_dir)
    token = planned[0][1][TOKEN].rpartition(":")[2]
    if code := launching.go(token, grace, timeout):
        raise click.exceptions.Exit(code)


# --- what is asked for


def _resolved(
    program: Program,
    topology: Topology,
    argument: str | None,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    *,
    quiet: bool,
) -> Resolution:
    """Find the map and its devices; say what is wrong with it, with the place."""
    from gpumap import sources
    from gpumap.parse import parse_map

    env, cwd = program.env, program.cwd
    source = sources.find(argument=argument, option=option, map_file=map_file, env=env, cwd=cwd)
    if source is None:
        say(sources.ignored(env=env, cwd=cwd), program)
        raise MapError((Diagnostic("no-map", "no map is given", hint=_NO_MAP),))
    try:
        context_map = parse_map(source.text)
        resolution = _looked_up(program, topology, context_map, backend)
    except GpumapError as error:
        say(error.diagnostics, program, source.text)
        raise click.exceptions.Exit(error.exit_code) from error
    if not quiet:
        say((*source.notes, *context_map.notes, *resolution.notes), program, source.text)
    return resolution


def _looked_up(
    program: Program, topology: Topology, context_map: ContextMap, backend: str | None
) -> Resolution:
    from gpumap.backends import numpy_devices
    from gpumap.model import Probe
    from gpumap.resolve import Inventory, resolve

    inventory = Inventory(program.host(topology), backend)
    cores = numpy_devices.cores(topology)  # to place a process on them takes no NumPy
    inventory.know(Probe(numpy_devices.NAME, usable=True, devices=cores))
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

    from gpumap.launch.environment import Shared, environments
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
    from gpumap.parallel.launch import without_ranks

    found, given = [], without_ranks(program.env)
    for rank, (place, variables) in enumerate(planned):
        env = {**given, **variables}
        order = Order(path, program.command or (), env, place.cores, place.memory)
        found.append(Job(place.name, f"rank {rank}, {place.device.ref}", order, place))
    return found


def _by_mpirun(program: Program, path: str, planned: Planned) -> tuple[Planned, list[Job]]:
    """Return what is planned as mpirun can do it, and the one process that this is."""
    from gpumap.app.by_mpirun import job
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
    return planned, [job(program, contexts, planned[0][1][TOKEN], helpers)]


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
