"""`gpumap bench bind`: measure what it gives to bind each name's thread or process to its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.options import benchmark_options, setting

if TYPE_CHECKING:
    from gpumap.app.request import Request

_BUDGET = 10.0  # seconds
_COMMS = ("local", "mpi")


@click.command()
@setting(
    "--sizes",
    default="small,large",
    show_default=True,
    help="Bytes of float32 for each name: small (400 B), large (400 kB), 4KiB, 64MB, 64B:1GiB:x8.",
)
@setting("--cases", metavar="NAMES", help="Only these: h2d, d2h, allreduce.")
@setting(
    "--comm",
    type=click.Choice(_COMMS),
    help="local: a thread of this process for each name; mpi: the processes that MPI has started. "
    "[default: mpi where it has, else local]",
)
@benchmark_options(_BUDGET, "bind")
def bind(request: Request, *, comm: str | None, **options: Any) -> None:
    """Measure the same copies, and between processes the same exchange, unbound and bound.

    Bound is where `gpumap run` puts the process of a name: the cores and the memory near its
    device. All names move at once; every byte is verified. Exchanges take a process for each name:
    mpirun -n 2 gpumap bench bind.
    """
    from gpumap.app.worker_benchmarks import Places, measure_places

    measure_places(request, Places(**options), comm)
