"""A script, run in this process as ``python SCRIPT ARGS...`` would run it in one of its own.

It is `__main__`, with its own `sys.argv` and its folder first on `sys.path`; what it raises goes
through `sys.excepthook`; its threads are waited for. Afterwards the process is gpumap's again: its
arguments, paths and modules are back, and what the script did to the streams costs no result: a
descriptor that it closed and gave to a file of its own is never written to. What ends a process
without asking Python (`os._exit`, `os.exec`) ends gpumap too.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fcntl import F_DUPFD_CLOEXEC, fcntl
from io import BufferedWriter, FileIO, StringIO, TextIOWrapper
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from gpumap.errors import AbsentError, Diagnostic, GpumapError, SourceError
from gpumap.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, TextIO

_HIGH = 1000  # below the usual limit, above what scripts close: os.closerange(3, 256)
_LONG = 1 << 63  # exit codes beyond a C long are 255: handle_system_exit in pythonrun.c
_SHOWN = 80  # characters of a line of the script
_ENDS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Script:
    """A script that Python understands, and what it is called with."""

    path: Path  # absolute
    code: CodeType
    argv: tuple[str, ...]


def load(path: Path, arguments: Sequence[str]) -> Script:
    """Read a script, once.

    Raises:
        SourceError: it cannot be read, or is not Python; with the place.
    """
    source = read_bytes(path, "script")
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - as Python: a link stays one
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
    _let_forks_end()
    with _as_main(script) as module:
        ended = _ended(script, module)
        if os.getpid() == process:  # Python waits in a child, at its end
            ended = _wait_for_threads() or ended
    return ended


def exit_code(ended: BaseException | None) -> int:
    """Return the exit code that a shell sees of ``python SCRIPT`` where a script ends so."""
    if not isinstance(ended, SystemExit):
        return 0 if ended is None else 1
    code: Any = ended.code
    if code is None:
        return 0
    if not issubclass(type(code), int):
        return 1
    code = int.__int__(code)  # what the script made of its own numbers is not used
    return code & 0xFF if -_LONG <= code < _LONG else 0xFF


class Lost(OSError):
    """A script closed the descriptor that the result was to be written to."""

    def __init__(self) -> None:
        super().__init__(errno.EBADF, "the script closed every descriptor")


@contextmanager
def kept(stream: TextIO) -> Iterator[TextIO]:
    """Yield a stream of our own to the same place, which a script hardly closes.

    If it does, writing raises Lost: the number may be that of a file of the script by then.
    """
    try:
        descriptor = _duplicate(stream.fileno())
        raw = _Own(descriptor, stream.fileno())
    except (OSError, ValueError):  # no file
        yield stream
        return
    own = TextIOWrapper(BufferedWriter(raw), stream.encoding, "backslashreplace")
    try:
        yield own
    finally:
        with suppress(OSError):  # a closed pipe, or lost: said when it was written to
            own.flush()
        if raw.still(descriptor):
            os.close(descriptor)


class _Own(FileIO):
    """A descriptor, and the one it was made of: written to only while it is the same file."""

    def __init__(self, descriptor: int, original: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._numbers = descriptor, original
        self._first = os.fstat(descriptor)

    def still(self, number: int) -> bool:
        """Return whether a descriptor is that file."""
        try:
            return os.path.samestat(self._first, os.fstat(number))
        except OSError:
            return False

    def write(self, data: Any) -> int:
        """Write to whichever is still there.

        Raises:
            Lost: neither is.
        """
        for number in filter(self.still, self._numbers):
            return os.write(number, data)
        raise Lost


def _duplicate(descriptor: int) -> int:
    """Return another number for a descriptor, above those that scripts use or close by hand."""
    try:
        return fcntl(descriptor, F_DUPFD_CLOEXEC, _HIGH)
    except OSError:  # fewer are allowed: ulimit -n
        return os.dup(descriptor)


def _ended(script: Script, module: ModuleType) -> BaseException | None:
    """Return what the script raised, printed as Python prints it."""
    try:
        exec(script.code, module.__dict__)  # noqa: S102 - it is what the user requested
    except KeyboardInterrupt as error:
        return error
    except BaseException as error:  # noqa: BLE001 - whatever it is, the trace is wanted
        trace = error.__traceback__
        error.__traceback__ = trace.tb_next if trace else None  # without this frame
        return _printed(error)
    return None


def _printed(error: BaseException) -> BaseException:
    """Print what a script raised; return what it ends with: its own hook may exit instead."""
    try:
        _print(error)
    except (SystemExit, KeyboardInterrupt) as other:
        return other
    except BaseException:  # noqa: BLE001 - stderr is closed, or a hook raised no Exception
        return error
    return error


def _print(error: BaseException) -> None:
    if isinstance(error, SystemExit):
        if not isinstance(error.code, int | None):
            sys.stderr.write(f"{error.code}\n")
    elif not isinstance(error, AbsentError):
        _forget_fixes(error)
        try:
            sys.excepthook(type(error), error, error.__traceback__)
        except Exception:  # noqa: BLE001 - the script's own
            sys.__excepthook__(type(error), error, error.__traceback__)


def _forget_fixes(error: BaseException) -> None:
    """Take the fixes from the notes of an error: the report names them below its traceback."""
    if isinstance(error, GpumapError) and isinstance(notes := getattr(error, "__notes__", 0), list):
        error.__notes__ = [note for note in notes if note not in error.fixes]


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
def _as_main(script: Script) -> Iterator[ModuleType]:
    """Make the process the script's, and then gpumap's again."""
    before, argv, path = dict(sys.modules), sys.argv, sys.path
    streams = sys.stdout, sys.stderr
    limit = sys.getrecursionlimit()
    folder = script.path.resolve().parent
    sys.argv, sys.path = list(script.argv), _paths(folder)
    module = sys.modules["__main__"] = _module(script)
    try:
        yield module
    finally:
        sys.argv, sys.path = argv, path
        sys.setrecursionlimit(limit)
        sys.modules.update(before)  # what gpumap runs on, also where the script took it away
        _forget(folder, set(before))
        for name in ("stdout", "stderr"):
            with suppress(Exception):  # the script's: it may be anything
                getattr(sys, name).flush()
        sys.stdout, sys.stderr = map(_open, streams)


def _module(script: Script) -> ModuleType:
    from importlib.machinery import SourceFileLoader

    module = ModuleType("__main__")
    path = str(script.path)
    module.__file__ = path
    module.__loader__ = SourceFileLoader("__main__", path)
    module.__dict__.update(__cached__=None, __annotations__={})
    return module


def _paths(folder: Path) -> list[str]:
    """Return where modules are looked for: the script's folder in the place of gpumap's own."""
    others = sys.path if sys.flags.safe_path else sys.path[1:]
    return list(others) if os.environ.get("PYTHONSAFEPATH") else [str(folder), *others]


def _forget(folder: Path, before: set[str]) -> None:
    """Forget the modules of the script's own folder: one may be called as a library of ours."""
    top = {name for name in sys.modules if "." not in name} - before
    own = {name for name in top if _place(sys.modules[name]) == str(folder)}
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]


def _place(module: ModuleType) -> str | None:
    """Return the folder of a module, or the parent folder of a package."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    place = os.path.dirname(file)  # noqa: PTH120 - of every module: pathlib takes its time
    return os.path.dirname(place) if os.path.basename(file) == "__init__.py" else place  # noqa: PTH119, PTH120


def _open(stream: TextIO) -> TextIO:
    """Return a stream, or one to nowhere if the script closed it: its end must not fail."""
    with suppress(ValueError):  # it was detached
        if not stream.closed:
            return stream
    return StringIO()


def _let_forks_end() -> None:
    """Let what ends a job end a fork of the script at once, as it would without gpumap.

    Python drops signals that come during a fork, so they wait until the fork has its own handlers.
    """
    before = threading.local()

    def block() -> None:
        before.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.mask)

    def begin() -> None:
        for number in _ENDS:
            if signal.getsignal(number) is signal.default_int_handler:
                signal.signal(number, signal.SIG_DFL)
        unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=begin)


def _no_python(path: Path, error: SyntaxError) -> SourceError:
    line = f", line {error.lineno}" if error.lineno else ""
    text = (error.text or "").strip()[:_SHOWN]
    shown = f': "{text}"' if text else ""
    message = f"{path} is not Python{line}: {error.msg}{shown}"
    return SourceError((Diagnostic("syntax", message, hint=_fix(path)),))


def _fix(path: Path) -> str:
    other = "to trace any other program: gpumap trace [MAP] -- COMMAND"
    return f"name a script that `python {path}` runs; {other}"
