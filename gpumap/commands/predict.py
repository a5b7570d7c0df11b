"""`gpumap predict`: what more devices would give, from what links cost; and published tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from gpumap.commands.option_types import BytesType, FileType, QuantityType
from gpumap.commands.options import output_options, setting

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.app.output import Output

_LINK = "transfer.d2d[mode=sync]"
_TABLE = "theano-mpi"  # the one that gpumap ships
_MOST_BATCH = 10**12


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
    default=_LINK,
    show_default=True,
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
@setting("--batch", metavar="N", type=click.IntRange(1, _MOST_BATCH), help="Examples of that step.")
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
    help=f"Show a published table instead: a CSV file, or {_TABLE}.",
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
    from gpumap.app.prediction import PredictRequest, predict_step

    typed = [
        n for n in (*asked, "rows") if ctx.get_parameter_source(n) is ParameterSource.COMMANDLINE
    ]
    predict_step(ctx.obj, PredictRequest(table, rows, asked, tuple(typed)), output)
