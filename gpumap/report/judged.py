"""What was judged, predicted or published, as tables."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import unquote

from gpumap import units
from gpumap.judge.pairs import share
from gpumap.report.table import Table, estimate
from gpumap.text import NAME, middle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap import model
    from gpumap.model import Acceptance, Report, Verdict


_LIMIT = "limit"
_CONTROL = "vs control"
_NAMES = "names"  # the key of an id
_WRITTEN = 3  # names of a row: of more their number
COLUMNS = {
    "limits": ("limit", "row", "figure", "verdict"),
    "changes": ("row", "metric", "new/base", _CONTROL, "verdict"),
}
_WORST = ("regression", "missing", "inconclusive", "new", "improvement", "pass")
_NOUNS = ("regression", "improvement")  # words that have a plural
_FORGIVEN = "what is inconclusive was let pass: --inconclusive=pass"


def tables(report: Report, *, verbose: bool = False) -> Iterator[Table]:
    """Yield a table of the verdicts on limits, and one of those on changes, where there are any.

    `verbose`: with the whole id of each row.
    """
    called: Mapping[str, str] = {} if verbose else _called(report.verdicts)
    limits = [verdict for verdict in report.verdicts if verdict.rule == _LIMIT]
    others = [verdict for verdict in report.verdicts if verdict.rule != _LIMIT]
    if limits:
        yield _limits(report, limits, called)
    if others:
        yield _changes(report, sorted(others, key=rank), called)
    if report.accepted:
        yield _accepted(report.accepted)


def _called(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Return a short name of each row, by its id: its case, its names, and what tells it apart."""
    from gpumap.judge.selectors import split_id

    rows = {v.id: split_id(v.id) for v in verdicts if v.id}
    keys = {
        key: {found.get(key) for _, found in rows.values()}
        for _, own in rows.values()
        for key in own
    }
    apart = sorted(key for key, values in keys.items() if len(values) > 1 and key != _NAMES)
    named = {
        id_: " ".join((head, *_names(found), *(f"{k}={found[k]}" for k in apart if k in found)))
        for id_, (head, found) in rows.items()
    }
    count = Counter(named.values())  # names that are alike when cut have their ids
    return {id_: text for id_, text in named.items() if count[text] == 1}


def _names(found: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of a row, if it has any, for a cell."""
    if names := found.get(_NAMES):
        every = re.split(r"([+>])", names)
        count = (len(every) + 1) // 2
        short = "".join(middle(unquote(part), NAME) for part in every)
        yield short if count <= _WRITTEN else f"{count} devices"


def _limits(report: Report, verdicts: Sequence[Verdict], called: Mapping[str, str]) -> Table:
    known = _units(report)
    rows = (
        (v.text, _row(v, called), _figure(v, known.get((v.id or "", v.metric), "1")), v.verdict)
        for v in verdicts
    )
    return Table("limits", COLUMNS["limits"], tuple(rows), _remarks(report, verdicts))


def _row(verdict: Verdict, called: Mapping[str, str]) -> str:
    return called.get(verdict.id or "", verdict.id or "-")


def _changes(report: Report, verdicts: Sequence[Verdict], called: Mapping[str, str]) -> Table:
    rows: tuple[tuple[str, ...], ...] = tuple(
        (
            _row(v, called),
            v.metric,
            _figure(v, "1"),
            "-" if v.relative is None else estimate(v.relative),
            v.verdict,
        )
        for v in verdicts
    )
    limits = {v.threshold for v in verdicts if v.threshold is not None}
    title = f"changes, at a threshold of {share(max(limits))}" if limits else "changes"
    heads = COLUMNS["changes"]
    if not any(v.relative for v in verdicts):
        heads, rows = _without(heads), tuple(map(_without, rows))
    remarks = (_sum(verdicts), *_reasons(verdicts), *_remarks(report, verdicts))
    return Table(title, heads, rows, remarks)


def _without(cells: tuple[str, ...]) -> tuple[str, ...]:
    """Return a line without the cell of the control."""
    place = COLUMNS["changes"].index(_CONTROL)
    return (*cells[:place], *cells[place + 1 :])


def rank(verdict: Verdict) -> int:
    """Return where a change stands: what is worst first; of one word as they come."""
    return _WORST.index(verdict.verdict) if verdict.verdict in _WORST else len(_WORST)


def _sum(verdicts: Sequence[Verdict]) -> str:
    """Return how many there are of each word: ``2 regressions, 64 pass``."""
    counts = Counter[str](verdict.verdict for verdict in verdicts)
    return ", ".join(_counted(counts[word], word) for word in (*_WORST, "skipped") if counts[word])


def _counted(count: int, word: str) -> str:
    noun = f"{word}s" if word in _NOUNS and count > 1 else word
    return f"{count} {noun}"


def _accepted(entries: Sequence[Acceptance]) -> Table:
    rows = ((entry.when, entry.reason, _were(entry)) for entry in entries)
    columns = ("when", "reason", "verdicts")
    return Table("accepted in the place of a base", columns, tuple(rows), ())


def _were(entry: Acceptance) -> str:
    return ", ".join(_counted(count, word) for word, count in entry.verdicts.items()) or "-"


def _reasons(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield each reason once, with the number of those that it holds for."""
    from gpumap.judge.compare import why

    reasons = Counter((v.verdict, why(v)) for v in verdicts if why(v) is not None)
    yield from (f"{_counted(count, word)}: {why_}" for (word, why_), count in reasons.items())
    if any(v.relative for v in verdicts):
        yield f"{_CONTROL}: new/base of the row over that of the control product beside it"


def _figure(verdict: Verdict, unit: str) -> str:
    """Return a verdict's figure with its interval, if it has one; a dash where it has no figure."""
    if verdict.value is None:
        return "-"
    ends = [end for end in (verdict.low, verdict.high) if end is not None]
    value, *interval = units.together((verdict.value, *ends), unit)
    return f"{value} [{', '.join(interval)}]" if interval else value


def _units(report: Report) -> dict[tuple[str, str], str]:
    """Return the unit of each figure of a report, by the row's id and the metric."""
    from gpumap.judge.limits import rows_of
    from gpumap.judge.selectors import id_of

    return {
        (id_of(row), name): figure.unit
        for row in rows_of(report)
        for name, figure in row.metrics.items()
    }


def _remarks(report: Report, verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    unclear = any(verdict.verdict == "inconclusive" for verdict in verdicts)
    return (_FORGIVEN,) if unclear and report.settings.get("inconclusive") == "pass" else ()


PREDICTED = {
    "forecasts": ("algorithm", "devices", "exchange", "step", "speed-up", "efficiency",
                  "examples/s"),
    "payoffs": ("algorithm", "pays", "from a step of", "from a batch of", "fastest on"),
    "cells": ("network", "devices", "time", "examples/s", "speed-up", "efficiency",
              "training alone"),
    "models": ("network", "devices", "measured", "predicted", "off by", "fixed", "bandwidth"),
}  # fmt: skip
_NONE = "-"
_WHOLE = 100  # from here on a figure of examples needs no decimals
_READ = (
    "efficiency: of training and exchanges; training alone: without them; above 100% is "
    "super-linear, and left as it is"
)
_NO_MODEL = (
    "no model of the exchanges: it takes batch, examples, bytes and comm_s of three networks, each "
    "on two numbers of devices"
)


def predicted(report: model.Report) -> Iterator[Table]:
    """Yield what was predicted, and what was published."""
    if report.prediction is not None:
        yield from _predicted(report.prediction)
    if report.published is not None:
        yield from _published(report.published)


# --- predictions -------------------------------------------------------------------------------


def _predicted(found: model.Prediction) -> Iterator[Table]:
    rows = tuple(map(_forecast, found.forecasts))
    title = f"predicted, not measured: {_exchanged(found)}"
    yield Table(title, PREDICTED["forecasts"], rows, _assumed(found)).full()
    paid = tuple(map(_paid, found.payoffs))
    yield Table("does a second device pay?", PREDICTED["payoffs"], paid, _paying(found)).full()


def _forecast(forecast: model.Forecast) -> tuple[str, ...]:
    figures = forecast.metrics
    return (
        forecast.algorithm,
        str(forecast.devices),
        _ranged(figures.get("comm")),
        _ranged(figures.get("time")),
        _ranged(figures.get("speedup")),
        _percent(figures.get("efficiency")),
        _examples(figures.get("examples_per_s")),
    )


def _exchanged(found: model.Prediction) -> str:
    """Return what is exchanged by what kind of step."""
    of = f" ({found.network})" if found.network else ""
    step = "" if found.compute is None else f" of {_seconds(found.compute)}"
    batch = "" if found.batch is None else f" with {units.counted(found.batch, 'example')}"
    return f"a step{step}{batch}, {_bytes(found.nbytes)}{of} exchanged, {found.scaling} scaling"


def _assumed(found: model.Prediction) -> tuple[str, ...]:
    link = found.link
    steps = {
        "strong": "step: compute, split over the devices, then the exchange",
        "weak": "step: compute, as much on each device as on one, then the exchange",
    }
    known = "as given" if link.source == "given" else f"by {link.source}"
    cost = f"latency {_ranged(link.latency)}, bandwidth {_ranged(link.bandwidth)}"
    lines = f", {len(link.lines)} lines" if len(link.lines) > 1 else ""
    return (
        f"link: {cost}{lines}, {known}; the same between all devices",
        f"{steps[found.scaling]}; nothing overlaps, adding is free",
        *_idle(found),
    )


def _idle(found: model.Prediction) -> Iterator[str]:
    """Yield that a batch cannot be split any further."""
    most = max((f.devices for f in found.forecasts), default=0)
    if found.batch is not None and found.scaling == "strong" and found.batch < most:
        batch = units.counted(found.batch, "example")
        yield f"{batch}: of more devices than that the others are idle"


def _paid(payoff: model.Payoff) -> tuple[str, ...]:
    best = _NONE if payoff.best is None else units.counted(payoff.best, "device")
    size = _ranged(payoff.metrics.get("from_compute"))
    batch = payoff.metrics.get("from_batch")
    return payoff.algorithm, payoff.pays or _NONE, size, _examples(batch), best


def _paying(found: model.Prediction) -> tuple[str, ...]:
    grow = "; compute grows with the batch" if found.batch is not None else ""
    fastest = "; fastest on: of the numbers of devices above" if found.compute is not None else ""
    return (f"from a step of: on one device, its compute alone{grow}{fastest}",)


# --- published predicted --------------------------------------------------------------------------


def _published(found: model.Published) -> Iterator[Table]:
    rows = dict.fromkeys(cell.row for cell in found.cells)
    counts = sorted({cell.devices for cell in found.cells})
    texts = {(cell.row, cell.devices): cell.text for cell in found.cells}
    columns = ("network", *(units.counted(n, "device") for n in counts))
    table = [(row, *(texts.get((row, n), _NONE) for n in counts)) for row in rows]
    yield Table(f"published: {found.origin}", columns, tuple(table), found.source)
    remarks = (_READ,) if found.models else (_READ, _NO_MODEL)
    cells = tuple(map(_cell, found.cells))
    yield Table("computed from the cells", PREDICTED["cells"], cells, remarks).full()
    if found.models:
        yield _models(found)


def _cell(cell: model.Cell) -> tuple[str, ...]:
    figures = cell.metrics
    return (
        cell.row,
        str(cell.devices),
        _as_told(cell),
        _examples(figures.get("examples_per_s")),
        _times(figures.get("speedup")),
        _percent(figures.get("efficiency")),
        _percent(figures.get("compute_efficiency")),
    )


def _as_told(cell: model.Cell) -> str:
    """Return the time in all, as exact as its parts were published."""
    decimals = max(len(part.partition(".")[2]) for part in cell.text.split("+"))
    return f"{cell.metrics['time'].value:.{decimals}f} s"


def _models(found: model.Published) -> Table:
    rows = [_model(m, e) for m in found.models for e in m.exchanged]
    within = [abs(e.miss) for m in found.models for e in m.exchanged if e.devices in found.fitted]
    counts = " and ".join(map(str, found.fitted))
    formula = "a fixed cost for each exchange + 2 (n - 1) / n of the bytes / bandwidth"
    remarks = [f"predicted: {formula}, fitted to the other networks on {counts} devices"]
    if within:
        remarks.append(f"on {counts} devices it is off by {max(within):.1%} at most")
    remarks += [_second(other) for other in found.others]
    title = "exchanges, each network predicted by the others"
    return Table(title, PREDICTED["models"], tuple(rows), tuple(remarks))


def _model(row: model.LeftOut, each: model.Exchanged) -> tuple[str, ...]:
    return (
        row.row,
        str(each.devices),
        _seconds(each.measured),
        _seconds(each.predicted),
        f"{each.miss:+.1%}",
        _seconds(row.fixed),
        units.together((math.inf if row.bandwidth is None else row.bandwidth,), "B/s")[0],
    )


def _second(other: model.OtherLink) -> str:
    """Return what a number of devices needs that is off the model."""
    ratios = _span(*other.ratio, "1")
    said = f"{other.devices} devices take {ratios} times as long as predicted"
    link = f"of {_span(*other.bandwidth, 'B/s')}" if other.bandwidth else "with another fixed cost"
    return f"{said}: the model needs a second, slower link for them, {link}"


# --- figures -----------------------------------------------------------------------------------


def _ranged(figure: model.Estimate | None) -> str:
    """Return a figure; with its interval, where it has one."""
    if figure is None or figure.low < figure.high:
        return estimate(figure)
    return units.together((figure.value,), figure.unit)[0]


def _ranges(figure: model.Estimate) -> bool:
    """Return whether it has an interval of more than one value."""
    return figure.has_interval and figure.low < figure.high


def _percent(figure: model.Estimate | None) -> str:
    if figure is None:
        return _NONE
    ends = f" [{figure.low:.1%}, {figure.high:.1%}]" if _ranges(figure) else ""
    return f"{figure.value:.1%}{ends}"


def _times(figure: model.Estimate | None) -> str:
    return _NONE if figure is None else f"{figure.value:.2f}x"


def _examples(figure: model.Estimate | None) -> str:
    if figure is None:
        return _NONE
    decimals = 0 if figure.value >= _WHOLE else 1
    low, value, high = (f"{x:.{decimals}f}" for x in (figure.low, figure.value, figure.high))
    return f"{value} [{low}, {high}]" if _ranges(figure) else value


def _seconds(value: float) -> str:
    return units.together((value,), "s")[0]


def _bytes(value: float) -> str:
    return units.together((value,), "B")[0]


def _span(low: float, high: float, unit: str) -> str:
    first, second = units.together((low, high), unit)
    number, _, prefix = first.partition(" ")
    return f"{number} to {second}" + (f" {prefix}" if prefix else "")
