"""`gpumap bench allreduce`: measure the exchange of data-parallel programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.options import benchmark_options, comm_option, setting

if TYPE_CHECKING:
    from gpumap.app.benchmark import Request


@click.command()
@setting(
    "--sizes",
    default="small,medium",
    help="Bytes of float32 on each rank: small (4 KiB), medium (1 MiB), large (64 MiB), bucket "
    "(25 MiB), 1MB, 64B:1GiB:x8, or the parameters of a network: alexnet, googlenet, vgg16, "
    "resnet50, mlp41m, llama2-7b.",
)
@setting("--algorithm", metavar="NAMES", help="Only these: native, host, ring.")
@comm_option
@benchmark_options(20.0, "allreduce")
def allreduce(request: Request, **options: Any) -> None:
    """Measure how all ranks come to the sum over all ranks: the exchange of data-parallel programs.

    Each name is a rank: a device of this process, or a process of its own that mpirun, torchrun
    or gpumap run has started (mpirun -n 2 gpumap bench allreduce), the names of a node in the
    order of its ranks. Every element is verified, bit for bit.
    """
    from gpumap.app.worker_runs import measure_exchanges

    measure_exchanges(request, **options)
