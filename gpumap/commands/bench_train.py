"""`gpumap bench train`: measure how training a network grows with the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.options import benchmark_options, cases_option, comm_option, setting

if TYPE_CHECKING:
    from gpumap.app.benchmark import Request

_MOST = 1 << 24  # examples of a batch
_STEPS = 10_000_000


@click.command()
@setting(
    "--preset",
    default="mlp-small",
    help="The network: mlp-small, mlp41m with 41 million parameters, or a transformer (PyTorch).",
)
@setting("--network", metavar="MODULE:CLASS", help="A network of your own, in place of a preset.")
@setting(
    "--rule",
    metavar="NAMES",
    default="bsp",
    help="How the devices train together: bsp, easgd, gosgd; several are compared.",
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
    type=click.IntRange(1, _MOST),
    help="Strong scaling: so many examples a step, split over the devices.",
)
@setting(
    "--batch-per-device",
    type=click.IntRange(1, _MOST),
    help="Weak scaling: so many examples a step for each device."
    "  [default: the preset's, 256 with --network]",
)
@setting(
    "--split",
    type=click.Choice(["balanced", "weighted", "keras", "drop"]),
    default="balanced",
    help="How a batch is split: evenly; by measured rates; the remainder to the last device, or "
    "dropped.",
)
@setting(
    "--optimizer", metavar="NAME", help="sgd or adam.  [default: the preset's, sgd with --network]"
)
@setting(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    help="The learning rate.  [default: sgd 0.1, adam 0.0001]",
)
@setting(
    "--algorithm",
    metavar="NAME",
    help="How bsp exchanges: native, host or ring.  [default: ring; native between processes and "
    "with NCCL]",
)
@cases_option("Only these: compute, step.")
@setting(
    "--learn",
    type=click.IntRange(1, 1 << 40),
    metavar="EXAMPLES",
    help="Train so many examples before measuring, and report the loss.",
)
@comm_option
@benchmark_options(60.0, "train")
def train(request: Request, *, comm: str | None, **options: Any) -> None:
    """Measure training on 1, 2, 4 ... devices: examples per second, and where the time goes.

    Each name is a worker: a device of this process, or a process that a launcher has started.
    Every worker's gradient is verified. A step makes a batch, copies it, computes the gradient,
    exchanges it and updates the parameters; the table has each of them.
    """
    from gpumap.app.trainings import measure_training

    measure_training(request, options, comm)
