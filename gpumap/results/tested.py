"""What `selftest` measured, as every format shows it: round trips, rows and false alarms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge import answers
from gpumap.judge.headline import Question
from gpumap.report.parts import Record, Section
from gpumap.report.table import Table
from gpumap.results import measured
from gpumap.results.outcomes import by_reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Alarms, Report, RoundTrip, Tested


def sections(report: Report, result: Tested, verbose: bool) -> Iterator[Section]:  # noqa: FBT001
    """Yield the round trips, what was measured, and the false alarms."""
    before = (_round_trips(result.round_trips),) if result.round_trips else ()
    after = (_alarms(result.alarms),) if result.alarms else ()
    yield from measured.sections(report, result, verbose, before, after)


def _round_trips(trips: Sequence[RoundTrip]) -> Table:
    rows = tuple(
        (
            trip.ref,
            "-" if trip.name is None else trip.name,
            trip.backend,
            "failed" if trip.reason else "ok",
        )
        for trip in trips
    )
    why = tuple(f"failed: {trip.reason.text}" for trip in trips if trip.reason)
    return Table("round trips of 4 KiB", ("device", "name", "backend", "status"), rows, why)


def _alarms(every: Sequence[Alarms]) -> Table:
    rows = tuple(
        (
            alarms.name,
            f"{alarms.runs} of {alarms.run_blocks} blocks",
            *map(str, (alarms.false, alarms.inconclusive, alarms.passed)),
        )
        for alarms in every
    )
    title = f"false alarms at {every[0].threshold:.0%}"
    return Table(title, ("on", "runs", "false", "inconclusive", "passed"), rows, ())


def records(report: Report, result: Tested) -> Iterator[Record]:
    """Yield each round trip, and what was measured."""
    for trip in result.round_trips:
        outcome = by_reason(trip.reason)
        cells = {"names": trip.name, "devices": trip.device, "backend": trip.backend,
                 "status": outcome.word, "reason": outcome.text}  # fmt: skip
        name = f"{trip.backend} {trip.device}"
        yield Record("round-trip", None, cells, outcome=outcome, name=name)
    yield from measured.recorded(report, result)


def _concluded(report: Report, result: Tested) -> bool:  # noqa: ARG001 - of any result
    """Return whether a round trip has failed: then the rest is of no use."""
    return any(trip.reason for trip in result.round_trips)


SPEC = measured.SPEC._replace(
    sections=sections, records=records, question=Question(answers.selftest, "tested", _concluded)
)
