"""`gpumap transfer-cost`: what moving bytes to and from each device costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.options import benchmark_options, setting

if TYPE_CHECKING:
    from gpumap.app.benchmark import Request

_BUDGET = 15.0  # seconds


@click.command("transfer-cost")
@setting(
    "--sizes",
    default="small,large",
    show_default=True,
    help="small (400 B), large (400 kB), 4KiB, 1MB or 64B:1GiB:x8; commas between. Or sweep: the "
    "sizes of the model.",
)
@setting("--cases", metavar="NAMES", help="Only these: h2d, d2h, bidir, d2d, affine, product.")
@setting(
    "--model/--no-model",
    default=True,
    show_default=True,
    help="Measure the size sweep that the model is fitted to.",
)
@benchmark_options(_BUDGET, "transfer", "control")
def transfer_cost(request: Request, **options: Any) -> None:
    """Measure copies between the host and the devices, and model what they cost.

    Every byte is verified. small and large are 10 x 10 and 10000 x 10 float32 values. The model is
    time = latency + bytes / bandwidth, from sizes of its own.
    """
    from gpumap.app.local_benchmarks import Copies, measure_copies

    measure_copies(request, Copies(**options))
