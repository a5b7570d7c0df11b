"""`gpumap check`: is the map true on this machine?"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gpumap.app.recording import Recording
from gpumap.commands.options import (
    backend_option,
    map_argument,
    map_texts,
    output_options,
    setting,
    timeout_option,
)
from gpumap.errors import Diagnostic, QuestionError
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.model import ContextMap, Resolution


@click.command()
@map_argument
@map_texts
@backend_option("Drive the devices with this backend.")
@setting("--syntax-only", is_flag=True, help="Parse the map; look for no device.")
@setting("--no-open", is_flag=True, help="Find the devices; do not open them.")
@setting("--needs", metavar="NAMES", help="Names that must be in the map: dev0,dev1.")
@setting("--distinct", is_flag=True, help="No two names may share silicon.")
@setting("--strict", is_flag=True, help="A warning is a no.")
@timeout_option(60.0)
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
    timeout: float,
    output: Output,
) -> None:
    """Check that every name of a map is a device that works.

    Each device is opened, and 4 KiB go there and back, verified. Either every name resolves and
    is printed in Theano's words, or none is and the exit code is 3. Under mpirun, srun or torchrun
    each rank checks the entry of its place on its machine, and the first one reports for all.
    """
    _compatible(needs, syntax_only=syntax_only, distinct=distinct)
    with Recording("check", program, output, time_limit=timeout) as record:
        if syntax_only:
            record.read_map(argument, option, map_file)
        else:
            with _as_rank(record, program, timeout) as own:
                context_map = own(record.read_map(argument, option, map_file))
                _find(record, program, backend, context_map, prove=not no_open)
        for problem in _unmet(needs, record.map):
            record.refuse(problem)
        for problem in _shared(record.resolution if distinct else None):
            record.refuse(problem)
        for problem in _warnings(record, strict=strict):
            record.refuse(problem)


def _compatible(needs: str | None, *, syntax_only: bool, distinct: bool) -> None:
    """Refuse what would pass without being looked at."""
    if syntax_only and distinct:
        fix = "leave one of the two away"
        raise QuestionError("--distinct looks at devices, --syntax-only looks for none", fix)
    if needs is not None and not needs.strip(", "):
        raise QuestionError("--needs names nothing", "write --needs dev0,dev1, or leave it away")


@contextmanager
def _as_rank(
    record: Recording, program: Program, timeout: float
) -> Iterator[Callable[[ContextMap], ContextMap]]:
    """Check for all ranks of a job, where there are several; give what makes a map this one's."""
    from gpumap.app.own_rank import own_entry, seated

    launch, doubts = seated(program)
    record.remarks += doubts
    if launch is None:
        yield lambda whole: whole
        return
    from gpumap.app.all_ranks import together

    with together(record, program, launch, timeout):
        yield lambda whole: own_entry(whole, program)


def _find(
    record: Recording,
    program: Program,
    backend: str | None,
    context_map: ContextMap,
    *,
    prove: bool,
) -> None:
    from gpumap.resolve import Inventory, resolve

    inventory = Inventory(program.host(), backend)
    if prove:
        inventory.expect(str(entry.ref) for entry in context_map.entries)
    try:
        resolution = resolve(context_map, inventory)
    finally:
        record.probes = inventory.probes
    record.resolution = resolution
    if prove:
        from gpumap.app.proving import prove_map

        for _ in prove_map(record, resolution, inventory):
            pass  # what fails is in the record


def _unmet(needs: str | None, context_map: ContextMap | None) -> Iterator[Diagnostic]:
    names = {entry.name for entry in context_map.entries} if context_map else set()
    for needed in (needs or "").split(","):
        if (name := needed.strip()) and name not in names:
            message = f'the map has no name "{printable(name)}"'
            yield Diagnostic("needs", message, hint=f'add "{printable(name)}->..."', name=name)


def _shared(resolution: Resolution | None) -> Iterator[Diagnostic]:
    if resolution is None:
        return
    from gpumap.resolve import shared_silicon

    for names, silicon in shared_silicon(resolution.bindings).items():
        message = f"{', '.join(map(printable, names))} are not distinct: {', '.join(silicon)}"
        yield Diagnostic("distinct", message, hint="give each name a device of its own")


def _warnings(record: Recording, *, strict: bool) -> Iterator[Diagnostic]:
    count = sum(note.severity == "warning" for note in record.notes)
    if strict and count:
        yield Diagnostic(
            "strict", f"--strict: {count} warning{'s' * (count > 1)}", hint="see above"
        )
