"""What `preflight` found, as every format shows it: a row for each name, and what is not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.figures import estimate
from gpumap.judge import fitness
from gpumap.judge.headline import Question
from gpumap.model import worst
from gpumap.report.parts import Outcome, Record, Section, State, Text
from gpumap.report.table import Table
from gpumap.results import ResultSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import FitnessCheck, Report, Screened

VERDICTS = ("name", "device", "health", "bytes", "pairs", "product", "siblings", "verdict")
ITEMS = ("of", "item", "verdict", "seen", "figure")
_COLUMNS = (("open", "upload", "download"), ("pair",), ("product", "soak"))  # bytes to product
_RATES = ("siblings", "upload-rate", "download-rate", "memory-rate")
_USED = {*_RATES, *(what for every in _COLUMNS for what in every)}
_METRICS = {"B/s": "bandwidth", "1": "share"}
_STATES: dict[str, State] = {"fit": "passed", "wrong-data": "error", "cannot-tell": "skipped"}


def sections(report: Report, result: Screened, verbose: bool) -> Iterator[Section]:  # noqa: FBT001
    """Yield the verdict of each name, what is not fit and its fix; with -v every item."""
    if not result.checks:
        return
    entries = report.map.entries if report.map else ()
    found = fitness.by_name(result.checks)
    rows = (_row(e.name, str(e.ref), found[e.name]) for e in entries if e.name in found)
    parts: list[Table | Text] = [Table("verdicts", VERDICTS, tuple(rows), (), right=("siblings",))]
    if verbose:
        items = tuple(map(_item, result.checks))
        parts.append(Table("items", ITEMS, items, ()).full())
    bad = [line for check in result.checks for line in _lines(check)]
    if bad:
        parts.append(Text(tuple(bad), "What is not fit", "below", headed=True, gap=True))
    yield Section("diagnoses", tuple(parts))


def _row(name: str, device: str, found: Sequence[FitnessCheck]) -> tuple[str, ...]:
    health = _cell([check for check in found if check.what not in _USED])
    cells = (_cell([check for check in found if check.what in every]) for every in _COLUMNS)
    return name, device, health, *cells, _siblings(found), worst(tuple(found))


def _siblings(found: Sequence[FitnessCheck]) -> str:
    """Return the share of what siblings do; without a figure there is no other of its model."""
    rates = [c for c in found if c.what in _RATES and (c.figure or c.fitness != "fit")]
    share = next((c.figure for c in rates if c.figure and c.what == "siblings"), None)
    return _cell(rates) if share is None else f"{share.value:.2f}"


def _cell(checks: Sequence[FitnessCheck]) -> str:
    if not checks:
        return "-"
    found = worst(tuple(checks))
    return "ok" if found == "fit" else found


def _item(check: FitnessCheck) -> tuple[str, ...]:
    figure = "-" if check.figure is None else estimate(check.figure)
    return fitness.whose(check), check.what, check.fitness, check.text, figure


def _lines(check: FitnessCheck) -> Iterator[str]:
    if check.fitness != "fit":
        yield f"{fitness.whose(check)}: {check.fitness}: {check.what}: {check.text}"
        yield f"  fix: {check.fix}"


def records(report: Report, result: Screened) -> Iterator[Record]:  # noqa: ARG001 - of any result
    """Yield each item, with its figure if there is one; each is a test."""
    for check in result.checks:
        names = "->".join(name for name in (check.name, check.other) if name is not None)
        cells = {"case": check.what, "names": names, "status": check.fitness, "reason": check.text}
        figures = {_METRICS[check.figure.unit]: check.figure} if check.figure else {}
        outcome = Outcome(_STATES.get(check.fitness, "failed"), check.fitness, check.text)
        name = f"{fitness.whose(check)}: {check.what}"
        yield Record("fitness", None, cells, figures, outcome, name, hint=check.fix)


SPEC = ResultSpec(
    sections,
    Question(fitness.fitness, "checked", lambda _, result: bool(result.checks)),
    records,
    in_sections=("unfit", "cannot-tell"),
)
