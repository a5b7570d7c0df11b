"""The report of a run: no msgspec, a check of a map's grammar has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from gpumap.errors import Diagnostic
    from gpumap.model.devices import Binding, Device, DeviceLibrary, Fingerprint, Plan, Rank, State
    from gpumap.model.field_types import Code, Moment, Positive, Sentence, SomeId, Unbounded, Word
    from gpumap.model.judging import Verdict
    from gpumap.model.maps import ContextMap, MapText
    from gpumap.model.measurements import Fit, Measurement
    from gpumap.model.results import Measured, Result

Ended = Literal[0, 1, 2, 3, 4, 5, 70, 124, 130]
Level = Literal["good", "below", "untrusted", "failed"]  # of which the worst one stands last


Status = Literal[
    "ok", "no", "error", "absent", "wrong-data", "inconclusive", "skipped", "timeout",
    "interrupted", "internal",
]  # fmt: skip
Command = Literal[
    "check", "devices", "doctor", "bench", "transfer-cost", "predict", "selftest", "compare",
    "trace", "watch", "scale", "preflight",
]  # fmt: skip


class Headline(NamedTuple):
    """The answer to the command's question, before everything else.

    Attributes:
        level: good; below: it works, and is less than ideal; untrusted: nothing can be concluded;
            failed.
        text: In one or two sentences; every format prints it first.
        row: The id of the row, fit, break-even or verdict that it is about; null: of none.
        metric: The figure that it is about; null: of none.
        value: That figure, or new over base of a comparison.
        low: Lower end of its interval; null: it has none, or the level is untrusted.
        high: Upper end.
        cause: A cause of an explanation, or of a diagnosis; null: none is known.
    """

    level: Level
    text: Sentence
    row: SomeId | None = None
    metric: Word | None = None
    value: Unbounded | None = None
    low: Unbounded | None = None
    high: Unbounded | None = None
    cause: Code | None = None


class Problem(NamedTuple):
    """An error as a report keeps it: a diagnostic and the exit code that it stands for.

    Attributes:
        diagnostic: What is wrong.
        exit: The exit code that it stands for; 0: it was let pass, by --inconclusive=pass or
            --if-absent=skip.
    """

    diagnostic: Diagnostic
    exit: int


class Report(NamedTuple):
    """The map, the machine and the result of one run; and what the keys of its JSON hold.

    Attributes:
        schema_version: Of the keys, their types and their closed lists.
        kind: The command.
        tool: Who wrote it.
        argv: The arguments, as they were given.
        started: UTC, ISO 8601.
        ended: UTC, ISO 8601.
        elapsed: Between the two, by a clock that is never set.
        status: The answer in one word.
        exit_code: The same as a number; 0 also where an inconclusive run was asked for no verdict.
        headline: The answer in words.
        simulated: Whether the fake backend had a part in it; never compared with a real one.
        settings: What the options came to.
        source: The text of the map, and where it is from; null: none was found.
        map: What the text says; null: there is none, or it does not parse.
        bindings: The names that were found, each with its device.
        notes: What is worth knowing about the map, the devices and the run.
        devices: The devices of the map, or all that were found.
        other_devices: Devices of rows that are not among devices: with `--backend all`, what
            another library calls one of them.
        backends: The backends that were asked.
        fingerprint: Null where nothing is measured.
        environment: Variables that steer placement or speed: an allow-list; null: not set.
        before: The machine before; null where nothing is measured.
        after: The machine after; null as above.
        result: What the command found; `type` tells of which kind it is.
        verdicts: One for each limit and comparison.
        ranks: Which rank of a job sits on which device; empty where the process was alone.
        errors: Why the exit code is not 0, and what was let pass.
        digest: SHA-256 of all other keys, as JSON with sorted keys and without blanks: an edit
            changes it.
    """

    kind: Command
    argv: tuple[str, ...]
    started: Moment
    ended: Moment
    elapsed: Positive
    status: Status
    exit_code: Ended
    simulated: bool
    settings: dict[str, Any]
    source: MapText | None
    map: ContextMap | None
    bindings: tuple[Binding, ...]
    notes: tuple[Diagnostic, ...]
    devices: tuple[Device, ...]
    backends: tuple[DeviceLibrary, ...]
    fingerprint: Fingerprint | None
    environment: dict[str, str | None]
    before: State | None
    after: State | None
    result: Result
    verdicts: tuple[Verdict, ...] = ()
    ranks: tuple[Rank, ...] = ()  # of a job of several processes
    errors: tuple[Problem, ...] = ()
    headline: Headline | None = None  # None: it is not finished
    version: str | None = None  # of the gpumap that wrote it, where it was read; else this one's

    @property
    def measured(self) -> Measured:
        """What was measured; nothing of a command that measures nothing."""
        from gpumap.model.results import Measured

        return self.result if isinstance(self.result, Measured) else Measured()

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The rows that were measured; none of a command that measures nothing."""
        return getattr(self.result, "measurements", ())

    @property
    def plans(self) -> tuple[Plan, ...]:
        """What a dry run would have measured."""
        return getattr(self.result, "plans", ())

    @property
    def fits(self) -> tuple[Fit, ...]:
        """Lines through copies."""
        return getattr(self.result, "fits", ())

    def replaced(self, **changes: Any) -> Report:
        """Return a report that differs in some fields: its own, or those of its result."""
        own = {name: value for name, value in changes.items() if name in self._fields}
        inner = {name: value for name, value in changes.items() if name not in own}
        if not inner:
            return self._replace(**own)
        from msgspec.structs import replace

        result: Any = self.result  # one with fields: others load no msgspec
        return self._replace(**own, result=replace(result, **inner))
