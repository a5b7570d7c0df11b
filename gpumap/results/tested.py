"""What `selftest` measured, as every format shows it: round trips, rows and false alarms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge import answers
from gpumap.judge.headline import Question
from gpumap.report.parts import Section, Test
from gpumap.report.table import Table
from gpumap.results import measured
from gpumap.results.outcomes import of_trip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.model import Report, SelfTest, Tested


def sections(report: Report, result: Tested, verbose: bool) -> Iterator[Section]:  # noqa: FBT001
    """Yield the round trips, what was measured, and the false alarms."""
    found = result.selftest
    before = (_round_trips(found),) if found else ()
    after = (_alarms(found),) if found and found.alarms else ()
    yield from measured.sections(report, result, verbose, before, after)


def _round_trips(found: SelfTest) -> Table:
    trips = tuple(
        (
            trip.ref,
            "-" if trip.name is None else trip.name,
            trip.backend,
            "failed" if trip.reason else "ok",
        )
        for trip in found.round_trips
    )
    why = tuple(f"failed: {trip.reason.text}" for trip in found.round_trips if trip.reason)
    return Table("round trips of 4 KiB", ("device", "name", "backend", "status"), trips, why)


def _alarms(found: SelfTest) -> Table:
    rows = tuple(
        (
            alarms.name,
            f"{alarms.runs} of {alarms.run_blocks} blocks",
            *map(str, (alarms.false, alarms.inconclusive, alarms.passed)),
        )
        for alarms in found.alarms
    )
    title = f"false alarms at {found.alarms[0].threshold:.0%}"
    return Table(title, ("on", "runs", "false", "inconclusive", "passed"), rows, ())


def tests(report: Report, result: Tested) -> Mapping[str, Sequence[Test]]:
    """Return a test for each round trip, and those of what was measured."""
    trips = result.selftest.round_trips if result.selftest else ()
    found = [Test(f"{trip.backend} {trip.device}", of_trip(trip)) for trip in trips]
    return {"round-trips": found, **measured.tests(report, result)}


def _concluded(report: Report, result: Tested) -> bool:  # noqa: ARG001 - of any result
    """Return whether a round trip has failed: then the rest is of no use."""
    trips = result.selftest.round_trips if result.selftest else ()
    return any(trip.reason for trip in trips)


SPEC = measured.SPEC._replace(
    sections=sections, tests=tests, question=Question(answers.selftest, "tested", _concluded)
)
