"""Section Measure of the help: `bench`, `transfer-cost`, `predict`, `scale` and `selftest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpumap.commands.option_types import (
    BytesType,
    DurationType,
    FileType,
    NewFileType,
    QuantityType,
)
from gpumap.commands.options import (
    backend_option,
    benchmark_options,
    comm_option,
    inconclusive_option,
    map_argument,
    map_texts,
    output_options,
    reference_option,
    setting,
    sweep_option,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.app.benchmark import Request
    from gpumap.app.output import Output
    from gpumap.app.program import Program

_BATCH = 1 << 24  # examples, at most
_STEPS = 10_000_000


@click.group(invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def bench(ctx: click.Context) -> None:
    """Measure a benchmark on the devices of a map."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    ctx.default_map = dict.fromkeys(bench.commands, ctx.default_map)  # gpumap.toml is for each


@bench.command()
@setting("--size", default="1024", help="Square sizes: 1024, or 256,1024, or 256:4096:x2.")
@setting(
    "--dtype",
    default="float32",
    help="The type of the elements: float32, float64, float16 (fp16), bfloat16 (bf16) or tf32.",
)
@setting(
    "--cases",
    metavar="NAMES",
    help="Only these: solo, one, many, one+fetch, many+fetch, many+fetch+threads.",
)
@reference_option
@benchmark_options(8.0, "dot", "control")
def dot(request: Request, **options: Any) -> None:
    """Measure one matrix product for each name, on one device and on all of them.

    Every product is verified. Without a map: every CUDA device, else every OpenCL GPU, else one
    name for each of two cores.
    """
    from gpumap.app.local_benchmarks import measure_products

    measure_products(request, **options)


@bench.command()
@setting(
    "--rows",
    default="10000",
    help="Rows of x, 10 numbers each: 10000, or 1000,100000, or 1000:1000000:x10.",
)
@setting("--dtype", default="float32", help="The type of the elements: float32 or float64.")
@setting(
    "--cases", metavar="NAMES", help="Only these: separate, fused, host, solo, many, op, cold."
)
@reference_option
@benchmark_options(20.0, "chain", "control")
def chain(request: Request, **options: Any) -> None:
    """Measure log(exp(relu(x.w + b))): in one kernel, in one for each operation, on the host.

    x is on the device already. Every result is verified. Without a map: every CUDA device, else
    every OpenCL GPU, else one name for each of two cores.
    """
    from gpumap.app.local_benchmarks import measure_chains

    measure_chains(request, **options)


@bench.command()
@setting(
    "--operation",
    type=click.Choice(["allreduce", "reduce-scatter", "all-gather"]),
    default="allreduce",
    help="Sum over all ranks; the same, of which each rank keeps its slice; or every rank's slice "
    "to all.",
)
@setting(
    "--sizes",
    default="small,large",
    help="Bytes of float32 on each rank: small (400 B), large (400 kB), bucket (25 MiB), 4KiB, "
    "1MB, 64B:1GiB:x8, or the parameters of a network: alexnet, googlenet, vgg16, resnet50, "
    "mlp41m, llama2-7b.",
)
@setting("--algorithm", metavar="NAMES", help="Only these: native, host, ring, alltoall, tree.")
@setting("--wire", default="float32", help="What travels, float32 or float16; sums are float32.")
@setting(
    "--tensors",
    type=click.IntRange(1, 10_000),
    default=1,
    help="Exchange the bytes in so many tensors, one by one and fused into one buffer.",
)
@sweep_option
@comm_option
@benchmark_options(20.0, "allreduce")
def allreduce(request: Request, *, comm: str | None, **options: Any) -> None:
    """Measure how all ranks come to the sum over all ranks: the exchange of data-parallel programs.

    --operation measures its halves instead, reduce-scatter and all-gather.

    Each name is a rank: a device of this process, or a process of its own that MPI has started
    (mpirun -n 2 gpumap bench allreduce), the names of a node in the order of its ranks. Every
    element is verified, bit for bit. Between cores the largest size is measured with cold buffers
    too, which no cache holds. The model is time = latency + bytes / bandwidth, from sizes of
    its own.
    """
    from gpumap.app.worker_runs import ExchangeOptions, measure_exchanges

    measure_exchanges(request, ExchangeOptions(**options), comm)


@bench.command()
@setting(
    "--preset",
    default="mlp-small",
    help="The network: mlp-small, mlp41m with 41 million parameters, or a transformer block.",
)
@setting("--network", metavar="MODULE:CLASS", help="A network of your own, in place of a preset.")
@setting(
    "--sweep",
    metavar="width[=SIZES]",
    help="Networks of several widths, in place of a preset: find the smallest that a "
    "second device speeds up; width=64,256 or width=64:1024:x4 lists them.",
)
@setting(
    "--rule",
    metavar="NAMES",
    default="bsp",
    help="How the devices train together: bsp, easgd, gosgd, easgd-lockstep, gosgd-lockstep; "
    "several are compared.",
)
@setting(
    "--average",
    type=click.Choice(["gradients", "parameters"]),
    default="gradients",
    help="BSP: average the gradients or the parameters.",
)
@setting(
    "--alpha",
    type=click.FloatRange(0, 1),
    default=0.5,
    help="EASGD: moving rate alpha between a worker and the center.",
)
@setting(
    "--tau",
    type=click.IntRange(1, _STEPS),
    default=10,
    help="EASGD: communication period in steps.",
)
@setting(
    "--chance",
    type=click.FloatRange(0, 1),
    default=0.01,
    help="GOSGD: probability per step that a worker pushes its parameters to another.",
)
@setting(
    "--batch",
    type=click.IntRange(1, _BATCH),
    help="Strong scaling: so many examples a step, split over the devices.",
)
@setting(
    "--batch-per-device",
    type=click.IntRange(1, _BATCH),
    help="Weak scaling: so many examples a step for each device.  [default: the preset's]",
)
@setting(
    "--split",
    type=click.Choice(["balanced", "weighted", "keras", "drop"]),
    default="balanced",
    help="How a batch is split: evenly; by measured rates; the remainder to the last device, or "
    "dropped.",
)
@setting("--optimizer", metavar="NAME", help="sgd, momentum or adam.  [default: the preset's]")
@setting(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    help="The learning rate.  [default: sgd 0.1, momentum 0.01, adam 0.0001]",
)
@setting(
    "--warmup",
    type=click.IntRange(0, _STEPS),
    metavar="STEPS",
    help="Let the rate grow with the devices, from that of one to that of all in so many steps.",
)
@setting(
    "--algorithm",
    metavar="NAME",
    help="How bsp exchanges: native, host, ring, alltoall or tree.  [default: ring; native with "
    "MPI and NCCL]",
)
@setting("--cases", metavar="NAMES", help="Only these: compute, step.")
@setting(
    "--input",
    "input_",
    type=click.Choice(["made", "kept"]),
    default="made",
    help="Make the examples of each step anew, or keep one batch in the host's memory.",
)
@setting(
    "--learn",
    type=click.IntRange(1, 1 << 40),
    metavar="EXAMPLES",
    help="Train so many examples before measuring, and tell the loss.",
)
@click.option("--start", type=FileType(), metavar="FILE", help="Begin with this checkpoint.")
@click.option(
    "--checkpoint",
    type=NewFileType(),
    metavar="FILE",
    help="Write what was learned, by the last rule on all devices; takes --learn.",
)
@comm_option
@benchmark_options(60.0, "train")
def train(request: Request, *, comm: str | None, checkpoint: Path | None, **options: Any) -> None:
    """Measure training on 1, 2, 4 ... devices: examples per second, and where the time goes.

    Each name is a worker: a device of this process, or a process of its own that MPI has started.
    Every worker's gradient is verified. A step makes a batch, copies it, computes the gradient,
    exchanges it and updates the parameters; the table has each of them.
    """
    from gpumap.app.trainings import TrainingOptions, measure_training

    measure_training(request, TrainingOptions(**options), comm, checkpoint)


@click.command("transfer-cost")
@setting(
    "--sizes",
    default="small,large",
    help="small (400 B), large (400 kB), 4KiB, 1MB or 64B:1GiB:x8; commas between. Or sweep: the "
    "sizes of the model.",
)
@setting("--cases", metavar="NAMES", help="Only these: h2d, d2h, bidir, d2d, affine, product.")
@sweep_option
@benchmark_options(15.0, "transfer", "control")
def transfer_cost(request: Request, **options: Any) -> None:
    """Measure copies between the host and the devices, and model what they cost.

    Every byte is verified. small and large are 10 x 10 and 10000 x 10 float32 values. The model is
    time = latency + bytes / bandwidth, from sizes of its own.
    """
    from gpumap.app.local_benchmarks import measure_copies

    measure_copies(request, **options)


@click.command()
@setting(
    "--latency",
    metavar="TIME",
    type=QuantityType("s"),
    help="What a message takes whatever its size: 5us.",
)
@setting(
    "--bandwidth",
    metavar="RATE",
    type=QuantityType("B/s"),
    help="Bytes a second that a link moves each way: 10GB/s.",
)
@click.option(
    "--report",
    metavar="FILE",
    type=FileType(),
    help="Take both from a report that transfer-cost has written.",
)
@setting(
    "--link",
    metavar="SELECTOR",
    default="transfer.d2d[mode=sync]",
    help="The model in that report; of several the slowest.",
)
@setting(
    "--bytes",
    "nbytes",
    metavar="SIZE",
    type=BytesType(),
    help="What each device exchanges in a step: 100MB.",
)
@setting(
    "--network",
    metavar="NAME",
    help="The same by its parameters: alexnet, googlenet, vgg16, resnet50, mlp41m, llama2-7b.",
)
@setting(
    "--dtype",
    metavar="TYPE",
    help="Type of the parameters: float32 (default), float16 or bfloat16.",
)
@setting(
    "--compute",
    metavar="TIME",
    type=QuantityType("s"),
    help="A step on one device, without an exchange: 300ms.",
)
@setting("--batch", metavar="N", type=click.IntRange(1, 10**12), help="Examples of that step.")
@setting(
    "--scaling",
    type=click.Choice(["strong", "weak"]),
    help="strong (default): the devices share that step; weak: each does as much.",
)
@setting("--devices", metavar="LIST", help="Numbers of devices: 2,4,8, or 2:1024:x2 (default).")
@setting("--algorithm", metavar="NAMES", help="Only these: native, ring, alltoall, tree, host.")
@click.option(
    "--from",
    "table",
    metavar="TABLE",
    type=FileType(),
    help="Show a published table instead: a CSV file, or theano-mpi.",
)
@setting("--rows", metavar="NAMES", help="Of that table only these: AlexNet-128b,VGG16-16b.")
@output_options
@click.pass_context
def predict(
    ctx: click.Context, /, *, table: Path | None, rows: str | None, output: Output, **asked: Any
) -> None:
    """Predict what more devices would give, from what links cost; nothing is measured.

    A step is computed on each device and its results are exchanged. Latency and bandwidth are given
    or measured, bytes are given or a network's. --from shows a table that was published instead,
    with speed-ups computed anew from its cells and a model of its exchanges.
    """
    from gpumap.app.prediction import predict_step

    typed = [
        n for n in (*asked, "rows") if ctx.get_parameter_source(n) is ParameterSource.COMMANDLINE
    ]
    predict_step(ctx.obj, output, asked, table=table, rows=rows, typed=typed)


@click.command()
@map_argument
@map_texts
@backend_option("Drive the devices with this backend, in the program too.")
@setting(
    "--expect",
    metavar="SPEEDUP",
    type=click.FloatRange(0.0, min_open=True),
    help="Exit code 1 where all names are not at least this many times as fast as one.",
)
@inconclusive_option
@setting("--timeout", type=DurationType(), help="End a run after this time; it has failed.")
@setting(
    "--budget",
    type=DurationType(),
    default="60s",
    help="Time for all runs. One turn is always taken; six make an interval.",
)
@output_options
@click.pass_obj  # fmt: skip
def scale(program: Program, /, **options: Any) -> None:
    """Run a program on one name, on two and so on; say how much faster it is, and what limits it.

    gpumap scale [MAP] [OPTIONS] -- COMMAND ARG... runs COMMAND as one process with the devices and
    cores of the first name of the map, of the first two, and so on (of more than 8 names: 1, 2, 4,
    8 ... and all), in turns. Each run must end with exit code 0. The process has its names in
    GPUMAP_CONTEXTS and their number in GPUMAP_COUNT; CUDA_VISIBLE_DEVICES, OMP_NUM_THREADS and the
    cores it may run on are those of its names, as `gpumap run` sets them. It reads nothing from
    stdin, and what it prints is not shown.

    The exit code is 0 for an answer, 5 where it is inconclusive, that of the program where a run
    failed (128 and its number for a signal), and 124 after --timeout.
    """
    from gpumap.app import watched_programs

    watched_programs.scale(program, watched_programs.ScaleRequest(**options))


@click.command()
@benchmark_options(60.0, "selftest", base=False)
def selftest(request: Request) -> None:
    """Test gpumap on this machine: round trips of data, and false alarms.

    4 KiB go to each device of the map and back, verified, then to one device of each other usable
    backend, unless --backend names one. On each device of the map the same product is measured as
    A and as B, and judged in several runs at 5 %: an alarm is false (exit 1). Where runs are
    inconclusive, noise hides a change of 5 % (exit 5).
    """
    from gpumap.app.local_benchmarks import test_machine

    test_machine(request)
