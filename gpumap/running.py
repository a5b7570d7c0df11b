"""Commands from Python: each runs as a process of its own, and what it reports comes back.

A process of its own, because a command pins threads, limits BLAS and ends itself when its time is
over or a driver hangs: none of that shall happen to the program that calls it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.bench.registry import commanded, every
from gpumap.errors import AbsentError, Exit, GpumapError, QuestionError, WrongDataError
from gpumap.parse import parse_map
from gpumap.spelling import fix

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from gpumap.model import Binding, Device, Diagnosis, Report

_JUDGED = (Exit.OK, Exit.NO, Exit.WRONG_DATA, Exit.INCONCLUSIVE)  # a report that tells everything
_ERRORS: dict[int, type[GpumapError]] = {
    Exit.QUESTION: QuestionError,
    Exit.ABSENT: AbsentError,
    Exit.WRONG_DATA: WrongDataError,
}
_PLAIN = (  # flags that are given or not: there is no --no-quiet
    "allow_missing", "confirm", "dry_run", "json", "other_machine", "quiet", "require_idle",
    "strict", "verbose",
)  # fmt: skip
_SHOWN = 2000  # characters of what a run said that left no report


def devices(*, backend: str | None = None) -> tuple[Device, ...]:
    """Return every device of each backend, or of one.

    Raises:
        AbsentError: that backend has no device.
        QuestionError: there is no such backend.
    """
    return _run(("devices",), {"backend": backend}).devices


def check(map: str, *, backend: str | None = None) -> tuple[Binding, ...]:  # noqa: A002
    """Open the device of each name, move 4 KiB there and back, and return the bindings.

    Raises:
        MapError: the map does not parse.
        AbsentError: a device is not there, or failed.
        WrongDataError: a device returned wrong bytes.
    """
    parse_map(map)
    return _run(("check",), {"map": map, "backend": backend}, (Exit.OK,)).bindings


def doctor(
    map: str | None = None,  # noqa: A002 - as the option is called
    *,
    backend: str | None = None,
    script: str | None = None,
) -> tuple[Diagnosis, ...]:
    """Return for each name whether its device is used, with the causes if it is not.

    Args:
        map: names and devices; None: the default map. Without a GPU that has no diagnosis.
        backend: the library that drives the devices.
        script: a program to read for settings that come too late.

    Raises:
        MapError: the map does not parse.
        GpumapError: it ran out of its time limit, or failed itself.
    """
    if map is not None:
        parse_map(map)
    options = {"map": map, "backend": backend, "script": script}
    return _run(("doctor",), options, (*_JUDGED, Exit.ABSENT)).diagnoses


def run_benchmark(
    kind: str,
    *,
    map: str | None = None,  # noqa: A002 - as the option is called
    **options: Any,
) -> Report:
    """Run a benchmark and return its report.

    Args:
        kind: dot, chain, allreduce, train or transfer-cost.
        map: names and devices, as in ``"dev0->cuda0;dev1->cuda1"``; None: the default map.
        options: those of the command, by their names with underscores: ``batch_per_device=256``;
            True and False for flags, a list for what may be given several times.

    Raises:
        QuestionError: there is no such benchmark or option, or it cannot be asked so.
        AbsentError: a device is not there, or failed.
        GpumapError: it ran out of its time limit, was interrupted, or failed itself.
    """
    spec = commanded(kind)
    if spec is None:
        known = [spec.command[-1] for spec in every() if spec.command]
        hint = fix(kind, known, f"choose {', '.join(known)}")
        raise QuestionError(f"no benchmark is called {kind!r}", hint)
    return _run(spec.command, {"map": map, **options})


def _run(
    command: Sequence[str], options: dict[str, Any], judged: Collection[int] = _JUDGED
) -> Report:
    """Run a command and return its report, whose exit code is one of `judged`."""
    with tempfile.TemporaryDirectory(prefix="gpumap-") as folder:
        target = Path(folder) / "report.json"
        arguments = [*command, *_given(options), f"--output={target}"]
        ended = subprocess.run(  # noqa: S603 - this gpumap, by this Python
            [sys.executable, "-m", "gpumap", *arguments, "--format=plain"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**_environment(options), "PYTHONPATH": os.pathsep.join(_path())},
            check=False,
        )
        return _report(target, ended, judged)


def _given(options: dict[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        elif value is False and name not in _PLAIN:
            yield f"--no-{option[2:]}"
        elif value is not None and value is not False:
            for each in value if isinstance(value, (list, tuple)) else (value,):
                yield f"{option}={each}"


def _environment(options: dict[str, Any]) -> dict[str, str]:
    """Return this process's, without the variables of flags that are not to be."""
    off = {f"GPUMAP_{name.upper()}" for name in _PLAIN if options.get(name) is False}
    return {key: value for key, value in os.environ.items() if key not in off}


def _path() -> Iterator[str]:
    """Yield where the other process finds gpumap, and what the program has on its path."""
    yield str(Path(__file__).parents[1])
    yield from (os.path.abspath(place) for place in sys.path if place)  # noqa: PTH100 - as text


def _report(
    target: Path, ended: subprocess.CompletedProcess[str], judged: Collection[int]
) -> Report:
    from gpumap import saved

    code = ended.returncode
    if not target.exists():
        raise _ERRORS.get(code, GpumapError)(*_said(ended))
    report = saved.read(target)
    if code in judged:
        return report
    said = tuple(problem.diagnostic for problem in report.errors)
    raise _ERRORS.get(code, GpumapError)(said or f"exit code {code}")


def _said(ended: subprocess.CompletedProcess[str]) -> tuple[str, str | None]:
    """Return what was wrong and what mends it, of a run that left no report."""
    lines = [line.strip() for line in ended.stderr[-_SHOWN:].splitlines() if line.strip()]
    fixes = [line.removeprefix("fix: ") for line in lines if line.startswith("fix: ")]
    words = [line.removeprefix("error: ") for line in lines if not line.startswith("fix: ")]
    return "; ".join(words) or f"exit code {ended.returncode}", fixes[0] if fixes else None
