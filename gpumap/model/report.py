"""The report of a run, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.errors import Diagnostic
    from gpumap.model.devices import Binding, Device, Plan, Probe
    from gpumap.model.judging import Acceptance, Diagnosis, Prediction, Published, SelfTest, Verdict
    from gpumap.model.machine import Fingerprint, Rank, State
    from gpumap.model.maps import ContextMap, MapText
    from gpumap.model.measuring import BreakEven, Fit, Measurement, Trace

Level = Literal["good", "below", "untrusted", "failed"]  # of which the worst one stands last


class Headline(NamedTuple):
    """The answer to a command's question, and the row and metric that it is about.

    No msgspec: a check of a map's grammar has one too. Its JSON is `gpumap.model.shape.Headline`.
    """

    level: Level
    text: str  # printable
    row: str | None = None
    metric: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    cause: str | None = None


class Problem(NamedTuple):
    """An error as a report keeps it: a diagnostic and the exit code that it stands for."""

    diagnostic: Diagnostic
    exit: int


class Report(NamedTuple):
    """The map, the machine and all measurements of one run."""

    kind: str
    argv: tuple[str, ...]
    started: str
    ended: str
    elapsed: float
    status: str
    exit_code: int
    simulated: bool
    settings: Mapping[str, Any]
    source: MapText | None
    map: ContextMap | None
    bindings: tuple[Binding, ...]
    notes: tuple[Diagnostic, ...]
    devices: tuple[Device, ...]
    backends: tuple[Probe, ...]
    fingerprint: Fingerprint | None
    environment: Mapping[str, str | None]
    before: State | None
    after: State | None
    measurements: tuple[Measurement, ...] = ()
    plans: tuple[Plan, ...] = ()  # of a dry run
    fits: tuple[Fit, ...] = ()
    break_evens: tuple[BreakEven, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    selftest: SelfTest | None = None
    traces: tuple[Trace, ...] = ()  # one for each context of a program
    prediction: Prediction | None = None
    published: Published | None = None
    diagnoses: tuple[Diagnosis, ...] = ()  # one for each name, of `doctor`
    ranks: tuple[Rank, ...] = ()  # of a job of several processes
    errors: tuple[Problem, ...] = ()
    accepted: tuple[Acceptance, ...] = ()  # how it became a base, the first time first
    headline: Headline | None = None  # None: it is not finished
    version: str | None = None  # of the gpumap that wrote it, where it was read; else this one's
