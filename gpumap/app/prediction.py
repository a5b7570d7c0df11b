"""Predicted speed-up of more devices, from link costs; and a published table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap import published
from gpumap.app.comparison import show_machine
from gpumap.app.recording import Draft, Recording
from gpumap.bench.selectors import selector
from gpumap.engine.sizes import counts
from gpumap.errors import QuestionError
from gpumap.model import LinkCost, Predicted, Prediction, io
from gpumap.predict import given_link, measured_link, predicted, slowest
from gpumap.text import chosen
from gpumap.training import network

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.app.output import Output
    from gpumap.app.program import Program

_BETWEEN = "transfer.d2d[mode=sync].latency"
_FIX = "measure copies between two devices: gpumap transfer-cost --output FILE.json"
_EXAMPLE = "gpumap predict --network vgg16 --latency 10us --bandwidth 10GB/s --compute 300ms"


def predict_step(program: Program, *, table: str | None, output: Output, **options: Any) -> None:
    """Predict a step on more devices, or show a published table.

    Args:
        program: what was called.
        table: that is shown instead.
        output: where the report goes.
        options: of a prediction.
    """
    shown = _shown(table, options)
    with Recording(Draft("predict", Predicted(), program, shown), output) as record:
        if table is not None:
            record.draft.result = Predicted(published=published.table())
        else:
            record.draft.result = Predicted(_predicted(record.draft, options))


def _shown(table: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the report; refuse options of the other mode."""
    given = {name: value for name, value in options.items() if value is not None}
    if table is None:
        return {n: v if isinstance(v, int | float) else str(v) for n, v in given.items()}
    if given:
        named = ", ".join("--bytes" if name == "nbytes" else f"--{name}" for name in given)
        fix = "omit one of them; a variable that is set (GPUMAP_NETWORK) is its option"
        raise QuestionError(f"--from takes no {named}", fix)
    return {"from": table}


def _predicted(draft: Draft, options: Mapping[str, Any]) -> Prediction:
    devices = counts(options["devices"] or "2:1024:x2")
    nbytes = _nbytes(options)
    link, network, compute = _link(draft, options, nbytes), options["network"], options["compute"]
    question = Prediction(nbytes, link, options["scaling"] or "strong", network, compute)
    return predicted(question, devices)


def _nbytes(options: Mapping[str, Any]) -> int:
    """Return the bytes that are exchanged in a step."""
    called, nbytes = options["network"], options["nbytes"]
    if (called is None) == (nbytes is None):
        raise QuestionError("give --bytes or --network: one of the two", _EXAMPLE)
    if nbytes is not None:
        return int(nbytes)
    (name,) = chosen(called, tuple(network.PARAMETERS), "network", "--network", 1)
    return network.ITEM * network.PARAMETERS[name]


def _link(draft: Draft, options: Mapping[str, Any], nbytes: int) -> LinkCost:
    """Return the cost of a message: as given, or of a report, with its machine.

    Raises:
        QuestionError: both are given, or neither, or the report has no such model that fits.
    """
    latency, bandwidth, path = options["latency"], options["bandwidth"], options["report"]
    if path is None:
        if latency is None or bandwidth is None:
            raise QuestionError("give --latency and --bandwidth, or --report FILE", _EXAMPLE)
        return given_link(latency, bandwidth)
    if latency is not None or bandwidth is not None:
        fix = "omit --latency and --bandwidth, or --report"
        raise QuestionError("a report has a latency and a bandwidth", fix)
    report = io.read(path)
    show_machine(draft, report)
    between = selector(_BETWEEN)
    links = [measured_link(fit) for fit in report.fits if fit.fits and between.matches(fit)]
    if not links:
        raise QuestionError("the report has no model of copies between devices", _FIX)
    return slowest(links, nbytes)
