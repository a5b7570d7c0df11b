"""`gpumap bench train`: measure how training a network grows with the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.app.several import COMMS, Asked
from gpumap.commands.gate import gate_options
from gpumap.commands.measure import chosen, measure_options
from gpumap.commands.options import FileType, NewFileType, map_options, output_options, setting
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpumap.app.opened import Opened
    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.app.recording import Recording
    from gpumap.bench.base import Settings
    from gpumap.bench.local_workers import LocalWorkers
    from gpumap.bench.mpi_ranks import MpiRanks, Works
    from gpumap.bench.mpi_training import MpiWorkers
    from gpumap.bench.train import Params, Train, Workers
    from gpumap.judge.gate import Gate
    from gpumap.model import Binding, Plan

_BUDGET = 60.0  # seconds
_MOST = 1 << 24  # examples of a batch
_STEPS = 10_000_000
_WIDTHS = (32, 128, 512, 2048)


@click.command()
@setting(
    "--preset",
    default="mlp-small",
    show_default=True,
    help="The network: mlp-small, or mlp41m with 41 million parameters.",
)
@setting("--network", metavar="MODULE:CLASS", help="A network of your own, in place of a preset.")
@setting(
    "--sweep",
    metavar="width[=SIZES]",
    help="Networks of several widths, in place of a preset: from which a second device pays; "
    "width=64,256 or width=64:1024:x4 says which.",
)
@setting(
    "--rule",
    metavar="NAMES",
    default="bsp",
    show_default=True,
    help="How the devices train together, in lock-step: bsp, easgd, gosgd; several are compared.",
)
@setting(
    "--average",
    type=click.Choice(["gradients", "parameters"]),
    default="gradients",
    show_default=True,
    help="What bsp takes the mean of.",
)
@setting(
    "--alpha",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Of easgd: the share by which a device and the centre move towards each other.",
)
@setting(
    "--tau",
    type=click.IntRange(1, _STEPS),
    default=10,
    show_default=True,
    help="Of easgd: steps from one meeting to the next.",
)
@setting(
    "--chance",
    type=click.FloatRange(0, 1),
    default=0.01,
    show_default=True,
    help="Of gosgd: with which a device pushes its parameters to another one in a step.",
)
@setting(
    "--batch",
    type=click.IntRange(1, _MOST),
    help="Strong scaling: so many examples a step, split over the devices.",
)
@setting(
    "--batch-per-device",
    type=click.IntRange(1, _MOST),
    help="Weak scaling: so many examples a step for each device.  [default: the preset's]",
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
    show_default=True,
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
@setting(
    "--comm",
    type=click.Choice(COMMS),
    help="local: the devices of this process; nccl: the same, exchanging by NCCL; mpi: processes "
    "that MPI has started. [default: mpi where it has, else local]",
)
@map_options
@measure_options(budget=_BUDGET)
@gate_options("train")
@output_options
@click.pass_obj
def train(
    program: Program,
    /,
    *,
    option: str | None,
    map_file: Path | None,
    backend: str | None,
    settings: Settings,
    gate: Gate,
    output: Output,
    comm: str | None,
    checkpoint: Path | None,
    **asked: Any,
) -> None:
    """Measure training on 1, 2, 4 ... devices: examples per second, and where the time goes.

    Each name is a worker: a device of this process, or a process of its own that MPI has started.
    Every worker's gradient is verified. A step makes a batch, copies it, computes the gradient,
    exchanges it and updates the parameters; the table has each of them.
    """
    from contextlib import redirect_stdout

    from gpumap.app.own_rank import several
    from gpumap.app.starting import Loading

    launch = several(program)
    library = comm in ("mpi", "nccl") or (comm is None and launch is not None)
    with redirect_stdout(program.stderr):  # what a network prints is no part of the report
        with Loading(settings.timeout, asked["network"], launch.rank if launch else 0):
            params = params_of(**asked, seed=settings.seed, library=library)
        if checkpoint is not None and not params.learn:
            fix = "add --learn 5120"
            raise QuestionError("--checkpoint without --learn: nothing is learned", fix)
        shared = Training(params, checkpoint)
        Asked(program, shared, (option, map_file, backend), settings, gate, output).run(comm)


class Training:
    """The trainings that are asked for, between devices or processes."""

    def __init__(self, params: Params, checkpoint: Path | None = None) -> None:
        self._params, self._checkpoint = params, checkpoint
        self._made: Train | None = None

    def prepare(self, record: Recording, settings: Settings) -> None:
        """Fit nothing."""

    def check(self, bindings: Sequence[Binding]) -> None:
        """Raise QuestionError for what a map cannot be asked for."""
        from gpumap.bench.train import check_asked

        check_asked(bindings, self._params)

    def here(
        self, bindings: Sequence[Binding], devices: Opened | None, *, nccl: bool
    ) -> LocalWorkers:
        """Return the devices of this process as workers."""
        from gpumap.bench.local_workers import LocalWorkers

        library = None
        if nccl:
            from gpumap.backends.cupy_nccl import Nccl

            library = Nccl
        if devices is None:
            return LocalWorkers({}, None, library)
        sessions = {binding.name: devices.sessions[binding.name] for binding in bindings}
        return LocalWorkers(sessions, devices.clock, library)

    def there(self, ranks: MpiRanks) -> MpiWorkers:
        """Return the processes as workers."""
        from gpumap.bench.mpi_training import MpiWorkers

        return MpiWorkers(ranks)

    def works(self) -> Works:
        """Return what makes each rank's part of a training."""
        from gpumap.bench.mpi_training import Trainings

        return Trainings(self._params)

    def plan(self, bindings: Sequence[Binding], workers: Workers) -> Plan:
        """Return what is measured between workers."""
        from gpumap.bench.train import plan

        return plan(bindings, workers, self._params)

    def benchmark(self, bindings: Sequence[Binding], workers: Workers) -> Train:
        """Return what measures it."""
        from gpumap.bench.train import Train

        self._made = Train(bindings, workers, self._params)
        return self._made

    def done(self) -> None:
        """Write what was learned; of what diverged there is nothing."""
        if self._checkpoint is None or self._made is None or self._made.trained is None:
            return
        from gpumap.bench.checkpoints import save

        save(self._checkpoint, self._params.tasks[-1], self._made.trained, self._params.learn)


def params_of(
    *,
    preset: str,
    network: str | None,
    sweep: str | None,
    rule: str,
    average: Any,
    alpha: float,
    tau: int,
    chance: float,
    batch: int | None,
    batch_per_device: int | None,
    optimizer: str | None,
    rate: float | None,
    warmup: int | None,
    algorithm: str | None,
    cases: str | None,
    input_: str,
    learn: int | None,
    start: Path | None,
    seed: int,
    library: bool,
) -> Params:
    """Return what is asked for.

    Raises:
        QuestionError: a name is not known, or two options contradict each other.
    """
    from gpumap.bench.train import Params
    from gpumap.parallel.optimizers import OPTIMIZERS, RATES
    from gpumap.parallel.rules import RULES, Chosen

    tasks, its_optimizer, examples = _tasks(preset, network, sweep)
    optimizers = tuple(OPTIMIZERS)
    (how,) = chosen(optimizer or its_optimizer, optimizers, "optimizer", "--optimizer", most=1)
    names = chosen(rule, RULES, "rule", "--rule")
    _check_finite({"--alpha": alpha, "--chance": chance, "--rate": rate})
    params = Params(
        tasks,
        tuple(Chosen(name, average, alpha, tau, chance) for name in names),
        _scaling(batch, batch_per_device, examples),
        how,
        RATES[how] if rate is None else rate,
        warmup or 0,
        warmup is not None,
        _algorithm(algorithm, library=library),
        _measured(cases, learn),
        input_ == "kept",
        learn or 0,
        seed,
    )
    return params if start is None else _started(params, start)


def _check_finite(values: Mapping[str, float | None]) -> None:
    """Refuse what click takes for a number within any range: nan, and inf."""
    from math import isfinite

    for option, value in values.items():
        if value is not None and not isfinite(value):
            raise QuestionError(f"{option} {value} is no number to train with", "give a finite one")


def _algorithm(asked: str | None, *, library: bool) -> str:
    from gpumap.bench.allreduce import ALGORITHMS

    default = "native" if library else "ring"
    (by,) = chosen(asked or default, ALGORITHMS, "algorithm", "--algorithm", most=1)
    if by == "native" and not library:
        raise QuestionError("native is a library's own exchange", "add --comm nccl, or choose ring")
    return by


def _measured(cases: str | None, learn: int | None) -> tuple[str, ...]:
    from gpumap.bench.train import CASES

    measured = CASES if cases is None else chosen(cases, CASES, "case", "--cases")
    if learn and "step" not in measured:
        fix = "add step to --cases, or leave --learn out"
        raise QuestionError("--learn without the case step: a gradient alone learns nothing", fix)
    return measured


def _tasks(preset: str, network: str | None, sweep: str | None) -> tuple[Any, str, int]:
    """Return what is trained, and the optimizer and examples for a device that it comes with."""
    from gpumap.parallel.presets import PRESETS, of_width
    from gpumap.parallel.tasks import Layers, Own

    if network is not None and sweep is not None:
        raise QuestionError("--network and --sweep are two networks", "choose one of them")
    (name,) = chosen(preset, tuple(PRESETS), "preset", "--preset", most=1)
    known = PRESETS[name]
    if network is not None:
        return (Own(network),), "sgd", known.examples
    if sweep is None:
        return (Layers(known.network),), known.optimizer, known.examples
    widths = _widths(sweep)
    return tuple(Layers(of_width(width)) for width in widths), known.optimizer, known.examples


def _widths(sweep: str) -> tuple[int, ...]:
    from gpumap.bench.sizes import squares

    key, equals, sizes = sweep.partition("=")
    if key != "width" or (equals and not sizes):
        fix = "write --sweep width, or --sweep width=64:1024:x4"
        raise QuestionError(f'"{sweep}" is nothing that can be swept', fix)
    return squares(sizes, "--sweep", "width=") if equals else _WIDTHS


def _scaling(batch: int | None, each: int | None, preset: int) -> Any:
    from gpumap.bench.train import Scaling

    if batch is not None and each is not None:
        said = "--batch is strong scaling, --batch-per-device weak"
        raise QuestionError(said, "choose one of them")
    if batch is not None:
        return Scaling("strong", batch)
    return Scaling("weak", preset if each is None else each)


def _started(params: Params, start: Path) -> Params:
    from dataclasses import replace

    from gpumap.bench.checkpoints import load

    if len(params.tasks) > 1:
        raise QuestionError("--start with --sweep: a checkpoint is of one network", "leave one out")
    return replace(params, start=load(start, params.tasks[0]))
