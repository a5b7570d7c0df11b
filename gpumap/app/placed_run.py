"""A command, run once for each name of a map, on its device and on its cores."""

from __future__ import annotations

import os
import shlex
from _socket import socket  # what socket.socket is made of, without 5 ms of names
from typing import TYPE_CHECKING, NamedTuple

from gpumap.app.command import print_lines, requested, tell
from gpumap.app.execute import given_map
from gpumap.app.guard import guard
from gpumap.app.launching import Launching
from gpumap.app.output import say
from gpumap.app.own_entry import inventory
from gpumap.app.program import Ended, Program
from gpumap.comm.ranks import without_ranks
from gpumap.launch import placement
from gpumap.launch.process import Job
from gpumap.launch.visibility import kept
from gpumap.machine.topology import Topology, read
from gpumap.parse import parse_map
from gpumap.report import table
from gpumap.resolve import resolve
from gpumap.units import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from gpumap.app.given_map import Where
    from gpumap.launch.placement import Place
    from gpumap.model import Resolution

    Planned = Sequence[tuple[Place, Mapping[str, str]]]

_COLUMNS = ("name", "device", "PCI", "node", "cores", "how that is known")


class RunRequest(NamedTuple):
    """On which devices a command runs, and how its processes are started and ended."""

    where: Where
    no_bind: bool
    dry_run: bool
    output_dir: Path | None
    timeout: float | None
    grace: float
    quiet: bool


def run_names(program: Program, request: RunRequest) -> None:
    """Run the command after "--" once for each name.

    Raises:
        Ended: it ended with an error.
    """
    path = requested(program, "run MAP")
    if not request.dry_run:
        guard(program)
    topology = read()
    resolution = _resolved(program, topology, request)
    places = placement.places(resolution.bindings, topology, bind=not request.no_bind)
    planned = plan(program, places, request.where.backend)
    if request.dry_run:
        show(program, planned)
        return
    if not request.quiet:
        tell(program, *_report(place for place, _ in planned))
    launching = Launching(program, jobs(program, path, planned))
    if code := launching.go(request.grace, request.timeout, request.output_dir):
        raise Ended(code)


# --- what is requested


def _resolved(program: Program, topology: Topology, request: RunRequest) -> Resolution:
    """Find the map and its devices; say what is wrong with it, with the place."""
    with given_map(program, request.where, "run") as source:
        context_map = parse_map(source.text)
        resolution = resolve(context_map, inventory(program, topology, request.where.backend))
    if not request.quiet:
        say((*source.notes, *context_map.notes, *resolution.notes), program, source.text)
    return resolution


def plan(program: Program, places: Sequence[Place], backend: str | None) -> Planned:
    """Return for each place the variables of its process: all together are one world of ranks."""
    sought = socket()
    sought.bind(("127.0.0.1", 0))
    token, port = os.urandom(16).hex(), sought.getsockname()[1]
    sought.close()
    planned = []
    for rank, place in enumerate(places):
        own = placement.environment([place], token, program.env, backend)
        planned.append((place, own | placement.numbered(rank, len(places), port)))
    return planned


def jobs(program: Program, path: str, planned: Planned) -> list[Job]:
    """Return a process for each name: the command as `gpumap exec` would become it, and a rank."""
    found, given = [], without_ranks(program.env)
    for rank, (place, variables) in enumerate(planned):
        env = {**kept([place.device], given), **variables}
        about = f"rank {rank}, {place.device.ref}"
        found.append(Job(place.name, path, program.command, env, place, about))
    return found


# --- what is said before


def _report(planned: Iterable[Place]) -> list[str]:
    rows = tuple(
        (
            place.name,
            str(place.device.ref),
            place.device.pci or "-",
            "-" if place.node is None else str(place.node),
            ranges(place.cores) or "any",
            place.why,
        )
        for place in planned
    )
    return [line.text.strip() for line in table.lines(table.Table("", _COLUMNS, rows, ()), None)]


def show(program: Program, planned: Planned) -> None:
    """Print where each process would run, and the variables that it would get."""
    lines = _report(place for place, _ in planned)
    for place, variables in planned:
        lines += ("", place.name, *(f"  {k}={shlex.quote(v)}" for k, v in variables.items()))
    print_lines(program, *lines)
