"""`gpumap bench dot`: measure one matrix product for each name, on one device and on all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.options import benchmark_options, cases_option, reference_option, setting

if TYPE_CHECKING:
    from gpumap.app.benchmark import Request


@click.command()
@setting("--size", default="1024", help="Square sizes: 1024, or 256,1024, or 256:4096:x2.")
@setting(
    "--dtype",
    default="float32",
    help="The type of the elements: float32, float64, float16 (fp16), bfloat16 (bf16) or tf32.",
)
@cases_option("Only these: solo, one, many, one+fetch, many+fetch, many+fetch+threads.")
@reference_option
@benchmark_options(12.0, "dot", "control")
def dot(request: Request, **options: Any) -> None:
    """Measure one matrix product for each name, on one device and on all of them.

    Every product is verified. Without a map: every CUDA device, else every other accelerator, else
    every OpenCL GPU, else one name for each of two cores.
    """
    from gpumap.app.benchmark import measure

    measure("dot", request, options)
