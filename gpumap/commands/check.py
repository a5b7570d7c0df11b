"""`gpumap check`: is the map true on this machine?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpumap.commands.options import map_argument, map_options, output_options
from gpumap.commands.recording import Recording
from gpumap.errors import Diagnostic
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpumap.commands.output import Output
    from gpumap.commands.program import Program
    from gpumap.model import ContextMap, Resolution
    from gpumap.resolve import Inventory


@click.command()
@map_argument
@map_options
@click.option("--syntax-only", is_flag=True, help="Parse the map; look for no device.")
@click.option("--no-open", is_flag=True, help="Find the devices; do not open them.")
@click.option("--needs", metavar="NAMES", help="Names that must be in the map: dev0,dev1.")
@click.option("--distinct", is_flag=True, help="No two names may share silicon.")
@click.option("--strict", is_flag=True, help="A warning is a no.")
@output_options
@click.pass_obj
def check(
    program: Program,
    *,
    argument: str | None,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    syntax_only: bool,
    no_open: bool,
    needs: str | None,
    distinct: bool,
    strict: bool,
    output: Output,
) -> None:
    """Check that every name of a map is a device that works.

    Each device is opened, and 4 KiB go there and back, verified. Either every name resolves and
    is printed in Theano's words, or none is and the exit code is 3.
    """
    with Recording("check", program, output) as record:
        context_map = record.read_map(argument, option, map_file)
        for problem in _unmet(needs, context_map):
            record.refuse(problem)
        if not syntax_only:
            _find(record, program, backend, context_map, prove=not no_open)
        for problem in _shared(record.resolution if distinct else None):
            record.refuse(problem)
        for problem in _warnings(record, strict=strict):
            record.refuse(problem)


def _find(
    record: Recording,
    program: Program,
    backend: str | None,
    context_map: ContextMap,
    *,
    prove: bool,
) -> None:
    from gpumap.backends.base import Host
    from gpumap.machine.topology import read
    from gpumap.resolve import Inventory, resolve

    inventory = Inventory(Host(program.env, read()), backend)
    try:
        resolution = resolve(context_map, inventory)
    finally:
        record.probes = inventory.probes
    if prove:
        _prove(resolution, inventory)
    record.resolution = resolution


def _prove(resolution: Resolution, inventory: Inventory) -> None:
    """Open each device once, and move bytes there and back."""
    from gpumap.backends.roundtrip import round_trip

    for device in {binding.device.id: binding.device for binding in resolution.bindings}.values():
        backend = inventory.backend(device.backend)
        with backend.open(device, backend.clock()) as session:
            round_trip(session)


def _unmet(needs: str | None, context_map: ContextMap) -> Iterator[Diagnostic]:
    names = {entry.name for entry in context_map.entries}
    for needed in (needs or "").split(","):
        if (name := needed.strip()) and name not in names:
            message = f'the map has no name "{printable(name)}"'
            yield Diagnostic("needs", message, hint=f'add "{printable(name)}->..."', name=name)


def _shared(resolution: Resolution | None) -> Iterator[Diagnostic]:
    from gpumap.resolve import shared_silicon

    for names, silicon in shared_silicon(resolution.bindings if resolution else ()).items():
        message = f"{', '.join(map(printable, names))} are not distinct: {', '.join(silicon)}"
        yield Diagnostic("distinct", message, hint="give each name a device of its own")


def _warnings(record: Recording, *, strict: bool) -> Iterator[Diagnostic]:
    count = sum(note.severity == "warning" for note in record.notes)
    if strict and count:
        yield Diagnostic(
            "strict", f"--strict: {count} warning{'s' * (count > 1)}", hint="see above"
        )
