"""`gpumap check`: is the map true on this machine?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.options import (
    backend_option,
    if_absent_option,
    map_argument,
    map_texts,
    output_options,
    setting,
    timeout_option,
)

if TYPE_CHECKING:
    from gpumap.app.program import Program


@click.command()
@map_argument
@map_texts
@backend_option("Drive the devices with this backend.")
@setting("--syntax-only", is_flag=True, help="Parse the map; look for no device.")
@setting("--no-open", is_flag=True, help="Find the devices; do not open them.")
@setting("--needs", metavar="NAMES", help="Names that must be in the map: dev0,dev1.")
@setting("--distinct", is_flag=True, help="No two names may share hardware.")
@if_absent_option
@setting("--strict", is_flag=True, help="Treat warnings as errors (exit code 1).")
@timeout_option(60.0)
@output_options
@click.pass_obj
def check(program: Program, /, **options: Any) -> None:
    """Check that every name of a map is a device that works.

    Each device is opened, and 4 KiB go there and back, verified. Either every name resolves and
    is printed in Theano's words, or none is and the exit code is 3. Under mpirun, srun or torchrun
    each rank checks the entry of its place on its machine; over MPI the first one reports for all.
    """
    from gpumap.app.checking import CheckRequest, check_map

    check_map(program, CheckRequest(**options))
