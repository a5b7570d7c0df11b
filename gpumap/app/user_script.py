"""A script, run in this process as ``python SCRIPT ARGS...`` would run it in one of its own.

It is `__main__`, with its own arguments and its folder first on `sys.path`; what it raises goes
through `sys.excepthook`; its threads are waited for. What ends a process without asking Python
(`os._exit`, `os.exec`) ends gpumap too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.errors import AbsentError, Diagnostic, SourceError
from gpumap.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NO_SCRIPT = "a map goes behind --map; for any other program, write `gpumap watch [MAP] -- COMMAND`"
_SHOWN = 80  # characters of a line of the script
_ENDS = (signal.SIGTERM, signal.SIGHUP)


class Script(NamedTuple):
    """A script that Python understands, and what it is called with."""

    path: Path  # absolute
    code: CodeType
    argv: tuple[str, ...]


def load(path: Path, arguments: tuple[str, ...]) -> Script:
    """Return a script that can be run.

    Raises:
        SourceError: it cannot be read, or is not Python; with the place.
    """
    if not path.exists():
        raise SourceError(f"cannot read the script {path}: there is no such file", _NO_SCRIPT)
    source = read_bytes(path, "script")
    absolute = path.absolute()
    try:
        code = compile(source, str(absolute), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _no_python(path, error) from error
    except (ValueError, RecursionError, MemoryError) as error:  # a NUL; nested too deeply
        message = str(error) or "it is nested too deeply"
        raise SourceError(f"{path} is not Python: {message}", _fix(path)) from error
    return Script(absolute, code, (str(path), *arguments))


def run(script: Script) -> BaseException | None:
    """Run a script to the end of its last thread; return what it ended with, already printed.

    A KeyboardInterrupt is not printed, and neither is an AbsentError: gpumap has words for it.
    """
    process = os.getpid()
    os.register_at_fork(after_in_child=_leave_signals)
    with _as_main(script) as names:
        ended = _ended(script.code, names)
        if os.getpid() == process:  # Python waits in a child, at its end
            ended = _wait_for_threads() or ended
    return ended


def exit_code(ended: BaseException | None) -> int:
    """Return the exit code that a shell sees of ``python SCRIPT`` where a script ends so."""
    if not isinstance(ended, SystemExit):
        return 0 if ended is None else 1
    if isinstance(ended.code, int):
        return ended.code & 0xFF
    return 0 if ended.code is None else 1


def _ended(code: CodeType, names: dict[str, Any]) -> BaseException | None:
    """Return what the script raised, printed as Python prints it."""
    try:
        exec(code, names)  # noqa: S102 - it is what the user requested
    except KeyboardInterrupt as error:
        return error
    except BaseException as error:  # noqa: BLE001 - whatever it is, the trace is wanted
        return _printed(error)
    return None


def _printed(error: BaseException) -> BaseException:
    """Print what a script raised; return what it ends with: its own hook may exit instead."""
    trace = error.__traceback__ and error.__traceback__.tb_next  # without the frame of ours
    try:
        if not isinstance(error, SystemExit | AbsentError):
            sys.excepthook(type(error), error.with_traceback(trace), trace)
        elif isinstance(error, SystemExit) and not isinstance(error.code, int | None):
            sys.stderr.write(f"{error.code}\n")
    except BaseException as other:  # noqa: BLE001 - of the hook
        return other
    return error


def _wait_for_threads() -> KeyboardInterrupt | None:
    """Wait for the threads that Python would wait for before it ends.

    Idle workers of `concurrent.futures` only end when they are told to; Python does so by these
    hooks, at this very moment.
    """
    hooks = getattr(threading, "_threading_atexits", ())
    try:
        for hook in reversed(list(hooks)):
            hook()
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    except KeyboardInterrupt as error:
        return error
    return None


@contextmanager
def _as_main(script: Script) -> Iterator[dict[str, Any]]:
    """Make arguments, paths and modules the script's, and then gpumap's again; yield its names."""
    argv, path, streams, main = (
        sys.argv,
        sys.path,
        (sys.stdout, sys.stderr),
        sys.modules["__main__"],
    )
    before, folder = set(sys.modules), str(script.path.resolve().parent)
    sys.argv, sys.path = list(script.argv), [folder, *path]
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = str(script.path)
    try:
        yield module.__dict__
    finally:
        sys.argv, sys.path, sys.modules["__main__"] = argv, path, main
        sys.stdout, sys.stderr = streams
        _forget(folder, before)


def _forget(folder: str, before: set[str]) -> None:
    """Forget the modules of the script's own folder: one may be called as a library of ours."""
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        package = os.path.join(folder, name.partition(".")[0])  # noqa: PTH118 - text, of every module
        if os.path.dirname(file) in (folder, package):  # noqa: PTH120
            del sys.modules[name]


def _leave_signals() -> None:
    """Let what ends a job end a fork of the script at once, as it would without gpumap."""
    for number in _ENDS:
        if signal.getsignal(number) is signal.default_int_handler:
            signal.signal(number, signal.SIG_DFL)


def _no_python(path: Path, error: SyntaxError) -> SourceError:
    line = f", line {error.lineno}" if error.lineno else ""
    text = (error.text or "").strip()[:_SHOWN]
    shown = f': "{text}"' if text else ""
    message = f"{path} is not Python{line}: {error.msg}{shown}"
    return SourceError((Diagnostic("syntax", message, hint=_fix(path)),))


def _fix(path: Path) -> str:
    other = "to look at any other program: gpumap watch [MAP] -- COMMAND"
    return f"name a script that `python {path}` runs; {other}"
