"""Section Measure of the help: `transfer-cost`, `predict`, `scale` and `selftest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.option_types import FileType, UnitType
from gpumap.commands.options import (
    benchmark_options,
    cases_option,
    inconclusive_option,
    map_options,
    output_options,
    setting,
)

if TYPE_CHECKING:
    from gpumap.app.benchmark import Request
    from gpumap.app.program import Program


@click.command("transfer-cost")
@setting(
    "--sizes",
    default="small,medium",
    help="small (4 KiB), medium (1 MiB), large (64 MiB), 1MB or 64B:1GiB:x8; commas between.",
)
@cases_option("Only these: h2d, d2h, bidir, d2d, affine, product.")
@setting(
    "--model/--no-model", default=True, help="Measure the size sweep that the model is fitted to."
)
@benchmark_options(20.0, "transfer", "control")
def transfer_cost(request: Request, **options: Any) -> None:
    """Measure copies between host and devices.

    Every byte is verified. The model is time = latency + bytes / bandwidth, from sizes of its own.
    """
    from gpumap.app.benchmark import measure

    measure("transfer", request, options)


@click.command()
@setting(
    "--latency",
    metavar="TIME",
    type=UnitType("quantity", "s"),
    help="What a message takes whatever its size: 5us.",
)
@setting(
    "--bandwidth",
    metavar="RATE",
    type=UnitType("quantity", "B/s"),
    help="Bytes a second that a link moves each way: 10GB/s.",
)
@click.option(
    "--report",
    metavar="FILE",
    type=FileType(),
    help="Take both from a report of transfer-cost: its slowest copy between devices.",
)
@setting(
    "--bytes",
    "nbytes",
    metavar="SIZE",
    type=UnitType("nbytes"),
    help="What each device exchanges in a step: 100MB.",
)
@setting(
    "--network",
    metavar="NAME",
    help="The same by its float32 parameters: alexnet, googlenet, vgg16, resnet50, mlp41m, "
    "llama2-7b.",
)
@setting(
    "--compute",
    metavar="TIME",
    type=UnitType("quantity", "s"),
    help="A step on one device, without an exchange: 300ms.",
)
@setting(
    "--scaling",
    type=click.Choice(["strong", "weak"]),
    help="strong (default): the devices share that step; weak: each does as much.",
)
@setting("--devices", metavar="LIST", help="Numbers of devices: 2,4,8, or 2:1024:x2 (default).")
@click.option(
    "--from", "table", type=click.Choice(["theano-mpi"]), help="Show a published table instead."
)
@output_options
def predict(program: Program, /, **options: Any) -> None:
    """Predict what more devices would give; measure nothing.

    A step is computed on each device and its results are exchanged. Latency and bandwidth are given
    or measured, bytes are given or a network's. --from shows a table that was published instead,
    with speed-ups computed anew from its cells.
    """
    from gpumap.app.prediction import predict_step

    predict_step(program, **options)


@click.command()
@map_options("Drive the devices with this backend, in the program too.")
@setting(
    "--expect",
    metavar="SPEEDUP",
    type=click.FloatRange(0.0, min_open=True),
    help="Exit code 1 where all names are not at least this many times as fast as one.",
)
@click.option(
    "--ranks",
    is_flag=True,
    help="Run it as a process for each name, as `gpumap run` does: PyTorch's DDP and its like.",
)
@click.option(
    "--weak",
    is_flag=True,
    help="Its work grows with the names: as much time on all as on one is the ideal.",
)
@inconclusive_option
@setting("--timeout", type=UnitType("duration"), help="End a run after this time; it has failed.")
@setting(
    "--budget",
    type=UnitType("duration"),
    default="60s",
    help="Time for all runs. One turn is always taken; six make an interval.",
)
@output_options
def scale(program: Program, /, **options: Any) -> None:
    """Run a program on one name, two ...: how much faster is it?

    gpumap scale [MAP] [OPTIONS] -- COMMAND ARG... runs COMMAND as one process with the devices and
    cores of the first name of the map, of the first two, and so on (of more than 8 names: 1, 2, 4,
    8 ... and all), and says what limits it. A turn is one run on each of these numbers of names.
    Each run must do the same work, whatever it has (with --weak: as much for each name), and end
    with exit code 0. The process has its names in GPUMAP_CONTEXTS and their number in GPUMAP_COUNT;
    CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS and the cores it may run on are those of its names, as
    `gpumap run` sets them. It reads nothing from stdin, and what it prints is not shown. With
    --ranks it is a process for each of these names, with RANK, WORLD_SIZE, MASTER_ADDR and so on as
    torchrun sets them; a program of MPI starts its own: -- sh -c 'mpirun --bind-to none -n
    $GPUMAP_COUNT gpumap exec -- COMMAND'.

    The exit code is 0 for an answer, 5 where it is inconclusive, that of the program where a run
    failed (128 and its number for a signal), and 124 after --timeout.
    """
    from gpumap.app import scaling

    scaling.scale(program, scaling.ScaleRequest(**options))


@click.command()
@benchmark_options(60.0, "selftest", test=True)
def selftest(request: Request) -> None:
    """Test gpumap here: round trips of data, false alarms.

    4 KiB go to each device of the map and back, verified. On each device the same product is
    measured as A and as B, and judged in several runs at 5 %: an alarm is false (exit 1). Where
    runs are inconclusive, noise hides a change of 5 % (exit 5).
    """
    from gpumap.app.selftest import test_machine

    test_machine(request)
