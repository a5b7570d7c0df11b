"""`gpumap predict`: what more devices would give, from what links cost; and published tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from gpumap.commands.options import FileType, output_options, setting
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpumap.commands.output import Output
    from gpumap.commands.recording import Recording
    from gpumap.model import Algorithm, Fit, LinkCost, Prediction, Published, Report

_TIME_LIMIT = 300.0  # seconds: nothing here takes that long
_BETWEEN = "transfer.d2d["
_LINK = f"{_BETWEEN}mode=sync]"
_TABLE = "theano-mpi"  # the one that gpumap ships
_SHOWN = 4  # models of a report that are offered
_RIVALS = {
    "nbytes": ("network", "dtype"),
    "network": ("nbytes",),
    "report": ("latency", "bandwidth"),
}
_MOST_BATCH = 10**12
_ASK = "gpumap predict --network vgg16 --latency 10us --bandwidth 10GB/s --compute 300ms"


class QuantityType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``5us``, ``10GB/s``: above 0 and in the unit that is asked for."""

    name = "quantity"

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the figure in SI units."""
        from gpumap import units

        try:
            found = units.quantity(str(value), self.unit)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if found <= 0.0:
            self.fail(f"{value!r} is not above 0: give what it really is", param, ctx)
        return found


class BytesType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``4KiB``, ``1MB`` or ``400``, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes."""
        from gpumap import units

        try:
            return units.nbytes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


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
    help="The same by its parameters: alexnet, googlenet, vgg16, resnet50, mlp41m.",
)
@setting("--dtype", metavar="TYPE", help="Of the parameters: float32 (if not said) or float16.")
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
    help="strong (if not said): the devices share that step; weak: each does as much.",
)
@setting("--devices", metavar="LIST", help="2,4,8 or 2:1024:x2 (if not said).")
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
    from gpumap.commands.recording import Recording

    typed = [
        n for n in (*asked, "rows") if ctx.get_parameter_source(n) is ParameterSource.COMMANDLINE
    ]
    shown = _shown(table, rows, typed, asked)
    with Recording("predict", ctx.obj, output, shown, time_limit=_TIME_LIMIT) as record:
        if table is not None:
            record.published = _published(table, rows)
        else:
            record.prediction = _predicted(record, _meant(asked, typed))


def _shown(
    table: Path | None, rows: str | None, typed: Sequence[str], asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of the report; refuse options of the one that go with the other."""
    if table is None:
        if "rows" in typed:
            raise QuestionError("--rows are those of a table", "name it with --from")
        given = {name: value for name, value in asked.items() if value is not None}
        return {n: v if isinstance(v, int | float) else str(v) for n, v in given.items()}
    if others := [name for name in typed if name != "rows"]:
        options = ", ".join("--bytes" if name == "nbytes" else f"--{name}" for name in others)
        raise QuestionError(f"--from takes no {options}", "leave one of the two away")
    return {"from": str(table), "rows": rows}


def _meant(asked: Mapping[str, Any], typed: Sequence[str]) -> dict[str, Any]:
    """Return the options without those that only a variable has, where a typed one rivals them."""
    lost = {rival for name in typed for rival in _RIVALS.get(name, ())} - set(typed)
    return {name: None if name in lost else value for name, value in asked.items()}


def _published(path: Path, rows: str | None) -> Published:
    from gpumap.parallel import published

    found = (
        published.table(published.shipped(), _TABLE)
        if str(path) == _TABLE
        else published.read(path)
    )
    if rows is None:
        return found
    return published.chosen(found, [row.strip() for row in rows.split(",")])


def _predicted(record: Recording, asked: Mapping[str, Any]) -> Prediction:
    from gpumap.commands.measure import chosen
    from gpumap.model import Prediction
    from gpumap.parallel.cost import MODELS
    from gpumap.parallel.counts import counts
    from gpumap.parallel.predict import predicted

    devices = counts(asked["devices"] or "2:1024:x2")
    names = asked["algorithm"]
    algorithms = (
        tuple(MODELS) if names is None else chosen(names, tuple(MODELS), "algorithm", "--algorithm")
    )
    if asked["batch"] is not None and asked["compute"] is None:
        raise QuestionError("--batch is of a step that takes --compute", "give both, or neither")
    nbytes = _nbytes(asked)
    question = Prediction(
        nbytes,
        _link(record, asked, nbytes),
        asked["scaling"] or "strong",
        asked["network"],
        asked["compute"],
        asked["batch"],
    )
    return predicted(question, devices, cast("Sequence[Algorithm]", algorithms))


def _nbytes(asked: Mapping[str, Any]) -> int:
    """Return what is exchanged in a step."""
    from gpumap.commands.measure import chosen
    from gpumap.parallel import presets

    network, nbytes, dtype = asked["network"], asked["nbytes"], asked["dtype"]
    if (network is None) == (nbytes is None):
        raise QuestionError("give --bytes or --network: one of the two", _ASK)
    if nbytes is not None:
        if dtype is not None:
            raise QuestionError("--dtype is of the parameters of --network", "leave it away")
        return int(nbytes)
    (name,) = chosen(network, tuple(presets.PARAMETERS), "network", "--network", 1)
    (type_,) = chosen(dtype or "float32", tuple(presets.WIDTHS), "type", "--dtype", 1)
    return presets.nbytes(name, type_)


def _link(record: Recording, asked: Mapping[str, Any], nbytes: int) -> LinkCost:
    """Return what a message costs: as given, or of a report whose machine the record is then of."""
    from gpumap.parallel.predict import given_link, measured_link, slowest

    latency, bandwidth, path = asked["latency"], asked["bandwidth"], asked["report"]
    if path is None:
        if latency is None or bandwidth is None:
            raise QuestionError("give --latency and --bandwidth, or --report FILE", _ASK)
        return given_link(latency, bandwidth)
    if latency is not None or bandwidth is not None:
        fix = "leave --latency and --bandwidth away, or --report"
        raise QuestionError("a report has a latency and a bandwidth", fix)
    from gpumap import saved
    from gpumap.commands.compare import show_machine

    found = saved.read(path)
    show_machine(record, found)
    return slowest([measured_link(fit) for fit in _fits(found, asked["link"])], nbytes)


def _fits(found: Report, text: str) -> Sequence[Fit]:
    """Return the models that a selector selects.

    Raises:
        QuestionError: it is none, or no model that fits is selected; what there is, is offered.
    """
    from gpumap.judge.select import Selector

    selector = Selector.parse(f"{text}.latency")
    fits = [fit for fit in found.fits if fit.fits and selector.selects(fit.id)]
    if not fits:
        ids = [fit.id.replace(".fit[", "[") for fit in found.fits if fit.fits]
        there = sorted(ids, key=lambda id_: _BETWEEN not in id_)  # those between devices first
        some = "; ".join(f"--link '{id_}'" for id_ in there[:_SHOWN])
        fix = some or "measure copies between two devices: gpumap transfer-cost --output FILE.json"
        raise QuestionError(f"the report has no model that fits {text!r}", fix)
    return fits
