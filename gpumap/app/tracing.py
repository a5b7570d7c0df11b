"""A script that uses gpumap, traced: what ran where, and what was moved.

Python runs it, as it would without gpumap. A variable says where its contexts are to be written
when it ends: as a report, which is read then.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gpumap.app.given_map import Where, read_map
from gpumap.app.guard import guard
from gpumap.app.program import Program, own
from gpumap.app.recording import Draft, Recording
from gpumap.app.watched_programs import run_alone
from gpumap.errors import Diagnostic, Exit, GpumapError, SourceError
from gpumap.files import read_bytes, write_atomic
from gpumap.launch.process import Job
from gpumap.model import Report, Trace, Watched, io, replace
from gpumap.model.programs import TRACE
from gpumap.text import ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.output import Output
    from gpumap.contexts import Context
    from gpumap.launch.supervisor import Ending

_NO_CONTEXT = (
    "open one: with gpumap.open() as context: ...; to look at any other program: "
    "gpumap watch [MAP] -- python SCRIPT"
)
_NO_SCRIPT = "a map goes behind --map; for any other program, write `gpumap watch [MAP] -- COMMAND`"


def trace_script(
    program: Program, *, path: Path, arguments: tuple[str, ...], option: str | None, output: Output
) -> None:
    """Run a script by Python with its arguments, and report its contexts; `option` is its map."""
    if not (program.cwd / path).exists():
        what = f"cannot read the script {path}: there is no such file"
        raise SourceError(what, _NO_SCRIPT)
    read_bytes(program.cwd / path, "script")
    guard(program)
    with Recording(Draft("trace", Watched(), program, {}), output) as record:
        env = dict(program.env)
        if option is not None:
            env["GPUMAP_CONTEXTS"] = read_map(record.draft, Where(option=option)).text
        with _folder() as folder:
            target = Path(folder) / "trace.json"
            env[TRACE] = f"{os.getpid()}:{target}"
            command = (sys.executable, str(path), *arguments)
            ending, code = run_alone(program, Job("script", sys.executable, command, env))
            found = io.read(target) if target.exists() else None
        _take(record.draft, ending, code, found)


def _folder() -> TemporaryDirectory[str]:
    """Return a folder in which the script can leave its trace; raises SourceError."""
    try:
        return TemporaryDirectory(prefix="gpumap-")
    except OSError as error:
        what = f"there is no folder for the trace: {error.strerror or error}"
        raise SourceError(what, "let TMPDIR name a folder that can be written to") from error


def _take(draft: Draft, ending: Ending, code: int | None, found: Report | None) -> None:
    """Take what a script has written at its end, and how it ended."""
    if found is not None:
        draft.result, draft.devices = found.result, found.devices
        draft.problems += found.errors
    if ending.why == "interrupted":
        draft.account(None, stopped=True)
    elif code and not draft.problems:
        message = f"the script {ended(code)}"
        draft.refuse(Diagnostic("script", message, hint="its own output says why"))
    elif found is None and not code:
        message = "no trace was written: the script opened no context, or ended by os._exit"
        draft.refuse(Diagnostic("no-context", message, hint=_NO_CONTEXT))


# --- in the process of the script


class Opened:
    """The contexts of a program so far.

    When the process ends, a report of them is written; a fork of it writes none.
    """

    def __init__(self, path: str) -> None:
        self.contexts: list[Context] = []
        self._path = Path(path)
        atexit.register(_write, self, self._path, os.getpid())

    def add(self, context: Context) -> None:
        """Take a context that is open; its libraries have their own ends, which come after ours."""
        self.contexts.append(context)
        atexit.unregister(_write)  # what is registered last is done first
        atexit.register(_write, self, self._path, os.getpid())


def _write(opened: Opened, path: Path, process: int) -> None:
    if os.getpid() != process:
        return
    draft = Draft("trace", Watched(), own(), {})
    if isinstance(error := getattr(sys, "last_value", None), GpumapError):
        for each in error.diagnostics:  # its span is of a map that may not be the report's
            absent = error.exit_code in (Exit.ABSENT, Exit.WRONG_DATA)  # else its own mistake
            draft.refuse(replace(each, span=None), error.exit_code if absent else Exit.NO)
    _gather(draft, opened.contexts)
    write_atomic(path, io.written(draft.report()))


def _gather(draft: Draft, contexts: Sequence[Context]) -> None:
    """Put every trace into the report; what an open context has queued is waited for."""
    bindings = [binding for context in contexts for binding in context.bindings]
    draft.devices = tuple({(b.device.id, b.device.backend): b.device for b in bindings}.values())
    traces: list[Trace] = []
    for number, context in enumerate(contexts, 1):
        try:
            about = (number, context.bindings, context.policy, context.closed)
            traces.append(Trace(*about, tuple(context.trace)))
            draft.result = Watched(tuple(traces))
            if not context.closed:
                context.synchronize()  # raises errors that were not checked yet
        except GpumapError as error:
            for each in error.diagnostics:
                message = f"context {number}: {each.message}"
                draft.refuse(replace(each, message=message, span=None), error.exit_code)
