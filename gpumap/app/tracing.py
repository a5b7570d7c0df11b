"""A script that uses gpumap, run and traced: what ran where, and what was moved."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.app.given_map import read_map
from gpumap.app.program import Ended
from gpumap.app.recording import Recording, by_default
from gpumap.app.user_script import exit_code, load, run
from gpumap.errors import Diagnostic, Exit, GpumapError
from gpumap.files import empty
from gpumap.model import Trace, Watched, replace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.app.recording import Draft
    from gpumap.app.user_script import Script
    from gpumap.contexts import Context
    from gpumap.model import Device

_SHOWN = 200  # characters of what a script says last
_NO_CONTEXT = (
    "open one: with gpumap.open() as context: ...; to look at any other program: "
    "gpumap watch [MAP] -- python SCRIPT"
)


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Which script is traced, on which map, and where the report goes."""

    path: Path
    arguments: tuple[str, ...]
    option: str | None
    output: Output


def trace_script(program: Program, request: TraceRequest) -> None:
    """Run a script as Python would, and report its contexts."""
    # absolute: files are written there, wherever the script goes in the meantime
    targets = tuple(each._replace(path=each.path.absolute()) for each in request.output.targets)
    output = request.output._replace(targets=targets)
    script = load(request.path, request.arguments)
    _record(program, script, replace(request, output=output))


def _record(program: Program, script: Script, request: TraceRequest) -> None:
    output = request.output
    with Recording("trace", Watched(), program, output, time_limit=None) as record:
        if request.option is not None:
            found = read_map(record.draft, None, request.option)
            os.environ["GPUMAP_CONTEXTS"] = found.text
        for target in output.targets:  # no file of an earlier run passes for this one's
            empty(target.path)
        contexts, ended = _run(script, record.draft)
        _gather(record.draft, contexts)
        _judge(record.draft, contexts, ended)


def _run(script: Script, draft: Draft) -> tuple[list[Context], BaseException | None]:
    """Return the contexts that a script opened, and what it ended with; note its default maps.

    A fork of it ends here, as it would have without gpumap.
    """
    from gpumap import contexts as opened

    process = os.getpid()
    contexts = opened.recorded = []
    defaults = opened.defaults = []
    try:
        ended = run(script)
    finally:
        opened.recorded = opened.defaults = None
    draft.remarks += map(by_default, dict.fromkeys(defaults))
    if os.getpid() != process:
        raise Ended(exit_code(ended))
    return contexts, ended


def _gather(draft: Draft, contexts: Sequence[Context]) -> None:
    """Put every trace into the report; what an open context has queued is waited for."""
    found: dict[tuple[str, str], Device] = {}
    traces: list[Trace] = []
    for number, context in enumerate(contexts, 1):
        for binding in context.bindings:
            found.setdefault((binding.device.id, binding.device.backend), binding.device)
        draft.devices = tuple(found.values())
        try:
            traces.append(_traced(number, context, contexts[0]))
            draft.result = Watched(tuple(traces))
            if not context.closed:
                context.synchronize()  # raises errors that were not checked yet
        except GpumapError as error:
            for each in error.diagnostics:
                message = f"context {number}: {each.message}"
                draft.refuse(replace(each, message=message, span=None), error.exit_code)


def _traced(number: int, context: Context, first: Context) -> Trace:
    simulated = any(b.device.simulated for b in (*context.bindings, *first.bindings))
    opened = None if simulated else context.origin - first.origin
    about = (number, context.bindings, context.policy, opened, context.closed)
    return Trace(*about, tuple(context.trace))


def _judge(draft: Draft, contexts: Sequence[Context], ended: BaseException | None) -> None:
    """Say in the report how the script ended."""
    code = exit_code(ended)
    if isinstance(ended, KeyboardInterrupt):
        raise ended
    if isinstance(ended, GpumapError):
        for found in ended.diagnostics:  # its span is of a map that may not be the report's
            absent = ended.exit_code in (Exit.ABSENT, Exit.WRONG_DATA)  # else its own mistake
            draft.refuse(replace(found, span=None), ended.exit_code if absent else Exit.NO)
    elif isinstance(ended, SystemExit):
        if code != 0:
            message = f"the script ended with exit code {code}"
            draft.refuse(Diagnostic("script", message, hint="its own output says why"))
    elif ended is not None:
        message = f"the script ended with {_named(ended)}"
        draft.refuse(Diagnostic("script", message, hint="its traceback is above"))
    if not contexts and code == 0:
        message = "the script opened no context, so there is nothing to trace"
        draft.refuse(Diagnostic("no-context", message, hint=_NO_CONTEXT))


def _named(error: BaseException) -> str:
    """Return an exception as the last line of its traceback has it."""
    lines = traceback.format_exception_only(error)
    return next((line for line in lines if line[:1] != " "), "an exception").strip()[:_SHOWN]
