"""`gpumap bench chain`: measure a chain of elementwise operations, fused and separate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.options import benchmark_options, cases_option, reference_option, setting

if TYPE_CHECKING:
    from gpumap.app.benchmark import Request


@click.command()
@setting(
    "--rows",
    default="10000",
    help="Rows of x, 10 numbers each: 10000, or 1000,100000, or 1000:1000000:x10.",
)
@cases_option("Only these: separate, fused, host.")
@reference_option
@benchmark_options(20.0, "chain", "control")
def chain(request: Request, **options: Any) -> None:
    """Measure log(exp(relu(x.w + b))): in one kernel, in one for each operation, on the host.

    It runs on the first device of the map that has the kernel, or on --reference; x is there
    already. Every result is verified. Without a map: every CUDA device, else every other
    accelerator, else every OpenCL GPU, else one name for each of two cores.
    """
    from gpumap.app.benchmark import measure

    measure("chain", request, options)
