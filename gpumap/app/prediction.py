"""What more devices would give, from what links cost; and published tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from gpumap.app.recording import Recording
from gpumap.errors import QuestionError
from gpumap.text import chosen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.app.recording import Draft
    from gpumap.model import Algorithm, Fit, LinkCost, Prediction, Published, Report

_TIME_LIMIT = 300.0  # seconds: nothing here takes that long
_BETWEEN = "transfer.d2d["
_TABLE = "theano-mpi"  # the one that gpumap ships
_SHOWN = 4  # models of a report that are offered
_RIVALS = {
    "nbytes": ("network", "dtype"),
    "network": ("nbytes",),
    "report": ("latency", "bandwidth"),
}
_ASK = "gpumap predict --network vgg16 --latency 10us --bandwidth 10GB/s --compute 300ms"


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """A published table, or a step to predict; and which options the command line itself has."""

    table: Path | None
    rows: str | None
    options: Mapping[str, Any]
    typed: tuple[str, ...]


def predict_step(program: Program, request: PredictRequest, output: Output) -> None:
    """Predict a step on more devices, or show a published table."""
    shown = _shown(request)
    with Recording("predict", program, output, shown, time_limit=_TIME_LIMIT) as record:
        if request.table is not None:
            record.draft.published = _published(request.table, request.rows)
        else:
            record.draft.prediction = _predicted(record.draft, _meant(request))


def _shown(request: PredictRequest) -> dict[str, Any]:
    """Return the settings of the report; refuse options of the one that go with the other."""
    table, rows, typed = request.table, request.rows, request.typed
    if table is None:
        if "rows" in typed:
            raise QuestionError("--rows are those of a table", "name it with --from")
        given = {name: value for name, value in request.options.items() if value is not None}
        return {n: v if isinstance(v, int | float) else str(v) for n, v in given.items()}
    if others := [name for name in typed if name != "rows"]:
        options = ", ".join("--bytes" if name == "nbytes" else f"--{name}" for name in others)
        raise QuestionError(f"--from takes no {options}", "omit one of them")
    return {"from": str(table), "rows": rows}


def _meant(request: PredictRequest) -> dict[str, Any]:
    """Return the options without those that only a variable has, where a typed one rivals them."""
    lost = {rival for name in request.typed for rival in _RIVALS.get(name, ())} - set(request.typed)
    return {name: None if name in lost else v for name, v in request.options.items()}


def _published(path: Path, rows: str | None) -> Published:
    from gpumap.training import published

    found = (
        published.table(published.shipped(), _TABLE)
        if str(path) == _TABLE
        else published.read(path)
    )
    if rows is None:
        return found
    return published.chosen(found, [row.strip() for row in rows.split(",")])


def _predicted(draft: Draft, asked: Mapping[str, Any]) -> Prediction:
    from gpumap.bench.sizes import counts
    from gpumap.distributed.cost import MODELS, predicted
    from gpumap.model import Prediction

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
        _link(draft, asked, nbytes),
        asked["scaling"] or "strong",
        asked["network"],
        asked["compute"],
        asked["batch"],
    )
    return predicted(question, devices, cast("Sequence[Algorithm]", algorithms))


def _nbytes(asked: Mapping[str, Any]) -> int:
    """Return what is exchanged in a step."""
    from gpumap.training.network import PARAMETERS, WIDTHS
    from gpumap.training.network import nbytes as bytes_of

    network, nbytes, dtype = asked["network"], asked["nbytes"], asked["dtype"]
    if (network is None) == (nbytes is None):
        raise QuestionError("give --bytes or --network: one of the two", _ASK)
    if nbytes is not None:
        if dtype is not None:
            raise QuestionError("--dtype is of the parameters of --network", "omit it")
        return int(nbytes)
    (name,) = chosen(network, tuple(PARAMETERS), "network", "--network", 1)
    (type_,) = chosen(dtype or "float32", tuple(WIDTHS), "type", "--dtype", 1)
    return bytes_of(name, type_)


def _link(draft: Draft, asked: Mapping[str, Any], nbytes: int) -> LinkCost:
    """Return what a message costs: as given, or of a report whose machine the report is then of."""
    from gpumap.distributed.cost import given_link, measured_link, slowest

    latency, bandwidth, path = asked["latency"], asked["bandwidth"], asked["report"]
    if path is None:
        if latency is None or bandwidth is None:
            raise QuestionError("give --latency and --bandwidth, or --report FILE", _ASK)
        return given_link(latency, bandwidth)
    if latency is not None or bandwidth is not None:
        fix = "leave --latency and --bandwidth away, or --report"
        raise QuestionError("a report has a latency and a bandwidth", fix)
    from gpumap import saved
    from gpumap.app.comparison import show_machine

    found = saved.read(path)
    show_machine(draft, found)
    return slowest([measured_link(fit) for fit in _fits(found, asked["link"])], nbytes)


def _fits(found: Report, text: str) -> Sequence[Fit]:
    """Return the models that a selector selects.

    Raises:
        QuestionError: it is none, or no model that fits is selected; what there is, is offered.
    """
    from gpumap.judge.selectors import Selector

    selector = Selector.parse(f"{text}.latency")
    fits = [fit for fit in found.fits if fit.fits and selector.selects(fit.id)]
    if not fits:
        ids = [fit.id.replace(".fit[", "[") for fit in found.fits if fit.fits]
        there = sorted(ids, key=lambda id_: _BETWEEN not in id_)  # those between devices first
        some = "; ".join(f"--link '{id_}'" for id_ in there[:_SHOWN])
        fix = some or "measure copies between two devices: gpumap transfer-cost --output FILE.json"
        raise QuestionError(f"the report has no model that fits {text!r}", fix)
    return fits
