"""Ask a backend what is there, in a child process: a driver may crash, hang, or print.

The child is ``python -m gpumap.backends.probe NAME FD``; its answer is one JSON object, written to
a file of its own so that nothing a driver prints can reach it.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from abc import abstractmethod
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from gpumap.backends import load
from gpumap.backends.base import Backend, Host
from gpumap.extras import install, pip
from gpumap.machine import process_control
from gpumap.model import Device, Probe, replace
from gpumap.model.io import plain, typed
from gpumap.text import middle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from gpumap.model import Lack, ProbeCode

_PACKAGE_ROOT = Path(__file__).parents[2]
_MARK = "GPUMAP_PROBE"  # the variable that tells a child's children
_KILLED = 5.0  # seconds that the kernel has to end a child
_PRINTED, _ANSWERED = 1 << 22, 1 << 26  # bytes
_REASON = 300  # columns of what a library says
_LOOK = 0.1  # seconds between two looks at what a child has written
_PAUSE = 0.005  # seconds between two looks at whether a killed child has ended


class Ended(NamedTuple):
    """What a child process wrote, its exit code (None: it did not end in time), and its stderr."""

    answer: str
    code: int | None
    errors: str


class ProbedBackend(Backend):
    """A backend whose library is asked in a child process: a driver may crash, hang or lie."""

    framework = False  # called as its distribution; the import alone takes seconds, or never ends
    _error: Exception | None = None  # of its import: a second one would say something else

    def probe(self) -> Probe:
        """Ask a child process what is there."""
        return probe_in_child(self.name, self._host, self.install(), framework=self.framework)

    def install(self) -> str:
        """Return the line that installs its library: of a framework the extra of that name."""
        return install(self.name)

    def _repair(self, error: Exception) -> str:
        """Return what to do about an error of its library: to install it, or a framework anew."""
        if not self.framework or isinstance(error, ModuleNotFoundError):
            return self.install()
        again = pip("install", "--force-reinstall", self.name)  # else pip leaves it as it is
        return f"{again}; or see the variables that it reads"

    def library(self) -> Any:
        """Import its library, set as gpumap needs it; raises what that does."""
        return import_module(self.name)

    def load(self) -> None:
        """Import a framework; what that raises is for `inventory`."""
        try:
            if self.framework:
                self.library()
        except Exception as error:  # noqa: BLE001 - a wheel or a plugin may raise anything
            self._error = error

    def inventory(self) -> Probe:
        """Ask the drivers, in this process; `probe` calls it in the child."""
        error = self._error
        if error is None:
            try:
                return self.found()
            except Exception as raised:  # noqa: BLE001 - as above
                error = raised
        return unloadable(self.name, error, self._repair(error))

    @abstractmethod
    def found(self) -> Probe:
        """Import its library and return what it finds; raises what that does."""


def probe_in_child(name: str, host: Host, install: str, *, framework: bool = False) -> Probe:
    """Return what the backend's `inventory` says in a child process, or why it did not.

    Args:
        name: of the backend, and of the module of its library.
        host: of its drivers, with how long each may take.
        install: how to get the library.
        framework: whether its import alone takes seconds.
    """
    if find_spec(name) is None:  # spares the child
        return Probe(name, usable=False, reason="not installed", fix=install, lack="no-library")
    first = min(host.imports, host.patience)
    job = json.dumps(host.opens)
    late = _Late(first, host.patience)
    child = run_child(*own_module("gpumap.backends.probe", (name,), host.env), math.inf, job, late)
    imported, *lines = child.answer.split("\n")[:-1] or [""]  # that are whole
    early = framework and not imported and child.code is None
    wrong = _unimported(name, first, host.patience) if early else None
    wrong = wrong or _wrong(child, name, host.patience, framework=framework)
    if wrong is not None and (not lines or len(lines) % 2):  # no device was being opened
        reason, fix, code = wrong
        return Probe(name, usable=False, reason=reason.format("probed"), fix=fix, code=code)
    try:
        inventory, *ids = map(json.loads, lines)
        opened = dict.fromkeys(ids, "")
        if wrong is not None:
            opened[ids[-1]] = wrong[0].format("opened")
        return replace(typed(inventory, Probe), opened=tuple(opened.items()))
    except ValueError:
        last = child.errors.strip().rpartition("\n")[2]
        reason = f"the probe failed: {middle(last or f'exit {child.code}', _REASON)}"
        return Probe(name, usable=False, reason=reason, fix=f"see what `{_import(name)}` does")


def _import(name: str) -> str:
    """Return the shell line that imports a library and nothing else."""
    return shlex.join((sys.executable, "-c", f"import {name}"))


def unloadable(name: str, error: Exception, fix: str) -> Probe:
    """Return the probe of a library that is installed and cannot be imported."""
    lack: Lack = "no-module" if "No module named" in str(error) else "unloadable"  # CuPy wraps it
    reason = middle(str(error) or type(error).__name__, _REASON)
    return Probe(name, usable=False, reason=f"cannot load: {reason}", fix=fix, lack=lack)


def _wrong(
    child: Ended, name: str, limit: float, *, framework: bool
) -> tuple[str, str, ProbeCode] | None:
    """Return how a driver failed a child, the fix and the code; None where it did not."""
    if child.code is None:
        fix = "`gpumap devices` tries again: kernels that are compiled stay in the driver's cache"
        return f"its driver did not answer within {limit:g} s", fix, "no-answer"
    if child.code < 0:
        fix = "remove or update the driver: /etc/OpenCL/vendors, OCL_ICD_VENDORS"
        if framework:
            fix = pip("install", "--force-reinstall", name)
        return f"its driver crashed while {{}} ({signal.strsignal(-child.code)})", fix, "crashed"
    return None


class _Late:
    """Whether a child has said nothing new for a while, in which it had a core if it wanted one.

    Its first line has a limit of its own, in seconds, as each later one has.
    """

    def __init__(self, first: float, later: float) -> None:
        self._limit, self._later = first, later
        self._line, self._since = "", time.monotonic()

    def __call__(self, line: str, starved: float) -> bool:
        now = time.monotonic() - starved
        if line != self._line:
            self._line, self._since, self._limit = line, now, self._later
        return now - self._since > self._limit


def _unimported(name: str, limit: float, most: float) -> tuple[str, str, ProbeCode]:
    """Return why a child was ended while it imported a framework, which may have had `most`."""
    fix = f"see whether `{_import(name)}` ends"
    if limit < most:
        fix += f"; --backend {name} waits longer"
    return f"its import did not end within {limit:g} s", fix, "no-answer"


def own_module(
    name: str, words: Sequence[str], env: Mapping[str, str]
) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return the command and the environment for `run_child` of a module of gpumap's own."""
    path = os.pathsep.join(p for p in (str(_PACKAGE_ROOT), env.get("PYTHONPATH", "")) if p)
    # -P: a json.py or pyopencl.py in the user's folder is not what is requested
    return (sys.executable, "-P", "-m", name, *words), {**env, "PYTHONPATH": path}


def run_child(
    command: Sequence[str],
    env: Mapping[str, str],
    time_limit: float,
    job: str = "",
    over: Callable[[str, float], bool] = lambda *_: False,
) -> Ended:
    """Run a program that writes its answer to the descriptor whose number is its last argument.

    What it prints is kept up to a limit. Raises OSError where it cannot be started.

    Args:
        command: the program, and its arguments before the descriptor.
        env: its environment.
        time_limit: seconds, after which it is killed with what it has started; those in which it
            waited for a core do not count.
        job: what it can read from its stdin.
        over: called repeatedly with its output so far, and how long it has waited for a core; True
            ends it before its time.
    """
    mark = f"{_MARK}={os.urandom(16).hex()}"
    key, _, value = mark.partition("=")
    with (
        _scratch() as answer,
        _scratch() as errors,
        _scratch() as job_file,
        process_control.adopting_orphans(),
    ):
        job_file.write(job.encode())
        job_file.seek(0)
        child = subprocess.Popen(  # noqa: S603 - our own module, or the requested interpreter
            [*command, str(answer.fileno())],
            env={**env, key: value},
            pass_fds=[answer.fileno()],
            stdin=job_file,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # what a driver starts ends with it
        )

        def late(starved: float) -> bool:
            return _flooded(errors, answer) or over(_so_far(answer), starved)

        try:
            code = _ended(child, time_limit, late)
        finally:
            process_control.kill_children(mark.encode())  # a driver may make sessions of its own
        return Ended(_so_far(answer), code, _so_far(errors))


def end_all() -> None:
    """End every child that is being asked, so that the threads that wait for one go on."""
    process_control.kill_children(f"{_MARK}=".encode())


def _flooded(errors: IO[bytes], answer: IO[bytes]) -> bool:
    """Return whether a child answers without end; what it prints too much goes, its end stays."""
    if os.fstat(errors.fileno()).st_size > _PRINTED:
        os.ftruncate(errors.fileno(), 0)
        os.lseek(errors.fileno(), 0, os.SEEK_SET)  # the child's place, too: they share it
    return os.fstat(answer.fileno()).st_size > _ANSWERED


def _ended(
    child: subprocess.Popen[bytes], time_limit: float, over: Callable[[float], bool]
) -> int | None:
    """Return the exit code of `child`, or None if it had to be stopped."""
    end, starved = time.monotonic() + time_limit, 0.0
    try:
        while (left := end + starved - time.monotonic()) > 0.0:
            with suppress(subprocess.TimeoutExpired):
                return child.wait(min(left, _LOOK))
            starved = max(starved, _starved(child.pid))
            if over(starved):
                break
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)  # a child that has not been waited for still is
            _reap(child)
    return None


def _starved(pid: int, root: Path = Path("/")) -> float:
    """Return how many seconds a process has waited for a core: the most of any of its threads.

    0 where the system does not count them.
    """
    longest = 0
    for file in (root / f"proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, ValueError, IndexError):  # a thread may end meanwhile
            longest = max(longest, int(file.read_text().split()[1]))
    return longest * 1e-9


def _reap(child: subprocess.Popen[bytes]) -> None:
    """Wait for a killed child, but for one that the kernel has, in a driver's call."""
    begun = time.monotonic()
    while child.poll() is None and (passed := time.monotonic() - begun) < _KILLED:
        if passed > process_control.STUCK and process_control.stuck(child.pid):
            break
        time.sleep(_PAUSE)
    if child.returncode is None:
        child.returncode = -signal.SIGKILL  # as it will be


def _scratch() -> IO[bytes]:
    """Return a file without a name: no one who keeps it open can make the reader wait."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("gpumap-probe"), "w+b")
    return tempfile.TemporaryFile()


def _so_far(file: IO[bytes]) -> str:
    """Return what is written; the child's place in the file, which it shares, stays."""
    number = file.fileno()
    return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")


@contextmanager
def answering(descriptor: int) -> Iterator[Callable[[Any], object]]:
    """Be a child, which ends with its parent: yield what writes a noun, a line of `descriptor`."""
    process_control.die_with_parent(signal.SIGKILL)  # who hangs in a driver must not stay
    with os.fdopen(descriptor, "w", encoding="utf-8", buffering=1) as file:
        yield lambda noun: file.write(f"{json.dumps(plain(noun))}\n")


def _answers(name: str) -> Iterator[Any]:
    """Yield its name, its inventory, and the id of each device to open, twice.

    The name comes once a framework is imported; an id before its device is opened, and after.
    """
    from gpumap.machine.topology import read

    words = set(json.load(sys.stdin))
    backend: Any = load(name, Host(dict(os.environ), read()))
    backend.load()
    yield name
    probe = backend.inventory()
    yield probe
    for device in _chosen(probe.devices, words):
        yield device.id
        with suppress(Exception):  # the parent meets it too, and reports it
            backend.open(device, backend.clock()).close()
        yield device.id
    if words:
        os._exit(0)  # no time for what a driver does behind its last call


def _chosen(devices: Sequence[Device], words: Collection[str]) -> list[Device]:
    """Return the devices that a map names so; "*" are those that a default map would."""
    first = {device.kind: device.id for device in reversed(devices)}
    found = []
    for device in devices:
        kind = device.kind
        names = {str(device.ref), f"{kind}@{device.pci}", f"{kind}@{device.uuid}"}
        if first[kind] == device.id:
            names.add(kind)
        if device.accelerator:
            names.add("*")
        if not names.isdisjoint(words):
            found.append(device)
    return found


if __name__ == "__main__":
    with answering(int(sys.argv[2])) as say:
        for noun in _answers(sys.argv[1]):
            say(noun)
