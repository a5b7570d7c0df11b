"""One run, recorded: from the map on there is always a report, however the run ends."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import click

from gpumap import sources
from gpumap.commands.output import emit, say
from gpumap.errors import Diagnostic, Exit, GpumapError, MapError
from gpumap.judge.exit_code import STATUS, exit_code
from gpumap.model import Problem, Report
from gpumap.parse import parse_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    from gpumap.commands.output import Output
    from gpumap.commands.program import Program
    from gpumap.model import ContextMap, Device, Fingerprint, MapText, Probe, Resolution

_SILENT_ORIGINS = ("argument", "--map")  # the user sees where these come from
_NO_MAP = 'give one: gpumap check "dev0->cuda0;dev1->cuda1"; `gpumap devices` lists the devices'


class Recording:
    """Collects what a command finds out; its end emits the report and sets the exit code."""

    def __init__(
        self, kind: str, program: Program, output: Output, settings: Mapping[str, Any] | None = None
    ) -> None:
        self.source: MapText | None = None
        self.map: ContextMap | None = None
        self.resolution: Resolution | None = None
        self.devices: tuple[Device, ...] = ()
        self.probes: tuple[Probe, ...] = ()
        self.fingerprint: Fingerprint | None = None
        self._kind = kind
        self._program = program
        self._output = output
        self._settings = settings or {}
        self._ignored: tuple[Diagnostic, ...] = ()
        self._problems: list[Problem] = []
        self._started = datetime.now(UTC)
        self._clock = time.perf_counter()

    def read_map(self, argument: str | None, option: str | None, file: Path | None) -> ContextMap:
        """Find the map and parse it.

        Raises:
            MapError: there is none, or it does not parse.
        """
        program = self._program
        self.source = sources.find(
            argument=argument, option=option, map_file=file, env=program.env, cwd=program.cwd
        )
        if self.source is None:
            self._ignored = sources.ignored(env=program.env, cwd=program.cwd)
            raise MapError((Diagnostic("no-map", "no map is given", hint=_NO_MAP),))
        self.map = parse_map(self.source.text)
        return self.map

    def refuse(self, diagnostic: Diagnostic) -> None:
        """Note that the answer is no."""
        self._problems.append(Problem(diagnostic, Exit.NO))

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Return what is worth knowing about the map, its source and its devices."""
        return (
            *(self.source.notes if self.source else self._ignored),
            *(self.map.notes if self.map else ()),
            *(self.resolution.notes if self.resolution else ()),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._account(error)
        report = self._report()
        self._speak(report)
        self._emit(report)
        if error is None or isinstance(error, GpumapError):
            raise click.exceptions.Exit(report.exit_code)

    def _account(self, error: BaseException | None) -> None:
        """Take an error into the report."""
        if isinstance(error, GpumapError):
            self._problems += [Problem(d, error.exit_code) for d in error.diagnostics]
        elif isinstance(error, KeyboardInterrupt):
            self._problems.append(
                Problem(Diagnostic("interrupted", "interrupted"), Exit.INTERRUPTED)
            )
        elif error is not None:
            message = f"{type(error).__name__}: {error}"
            self._problems.append(Problem(Diagnostic("internal", message), Exit.INTERNAL))

    def _report(self) -> Report:
        from gpumap.machine.fingerprint import environment

        code = exit_code(problem.exit for problem in self._problems)
        bindings = self.resolution.bindings if self.resolution else ()
        found = {binding.device.id: binding.device for binding in bindings}
        return Report(
            kind=self._kind,
            argv=self._program.argv,
            started=_stamp(self._started),
            ended=_stamp(datetime.now(UTC)),
            elapsed=round(time.perf_counter() - self._clock, 6),
            status=STATUS[code],
            exit_code=code,
            simulated=any(probe.name == "fake" for probe in self.probes),
            settings=self._settings,
            source=self.source,
            map=self.map,
            bindings=bindings,
            notes=self.notes,
            devices=self.devices or tuple(found.values()),
            backends=self.probes,
            fingerprint=self.fingerprint,
            environment=environment(self._program.env),
            before=None,
            after=None,
            errors=tuple(self._problems),
        )

    def _speak(self, report: Report) -> None:
        """Say on stderr what the report's notes and errors say; notes only where wished."""
        text = self.source.text if self.source else None
        if not self._output.quiet:
            say((*self._origin(), *report.notes), self._program, text)
        spoken = (Exit.INTERRUPTED, Exit.INTERNAL)  # quiet, and said by `cli`
        say((p.diagnostic for p in report.errors if p.exit not in spoken), self._program, text)

    def _origin(self) -> Iterable[Diagnostic]:
        if self._kind != "devices" and self.source and self.source.origin not in _SILENT_ORIGINS:
            path = f" ({self.source.path})" if self.source.path else ""
            yield Diagnostic(
                "source", f"the map is from {self.source.origin}{path}", severity="note"
            )

    def _emit(self, report: Report) -> None:
        try:
            emit(report, self._output, self._program)
        except GpumapError as error:
            say(error.diagnostics, self._program)
            raise click.exceptions.Exit(report.exit_code or error.exit_code) from error


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
