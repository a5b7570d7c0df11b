"""What a program calls: `gpumap.open` and `gpumap.dot`, and commands.

Each command runs as a process of its own, and what it reports comes back. A process of its own,
because a command pins threads, limits BLAS and ends itself when its time is over or a driver hangs:
none of that shall happen to the program that calls it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap import sources
from gpumap.bench.registry import commanded, every
from gpumap.errors import BY_EXIT, ContextError, Exit, GpumapError, QuestionError
from gpumap.parse import parse_map
from gpumap.session_file import GPUMAP, OF_MPIRUN, training
from gpumap.text import fix, middle

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from gpumap.app.tracing import Opened
    from gpumap.contexts import Context, Policy
    from gpumap.contexts.array import Array
    from gpumap.inventory import Inventory
    from gpumap.model import Binding, ContextMap, Device, Diagnosis, Report

_JUDGED = (Exit.OK, Exit.NO, Exit.WRONG_DATA, Exit.INCONCLUSIVE)  # a report that tells everything
_BECOME = """
import os, sys
from gpumap.machine import process_control
process_control.die_with_parent()
os.execvp(sys.argv[1], sys.argv[1:])
"""
_SHOWN = 2000  # characters of what a run said that left no report


def open_(
    map_: str | None = None, *, backend: str | None = None, policy: Policy = "visible"
) -> Context:
    """Open the devices of a map and return their context.

    Args:
        map_: such as ``"dev0->cuda0;dev1->cuda1"``; without one that of GPUMAP_CONTEXTS,
            gpumap.toml, THEANO_FLAGS or .theanorc, else the default of `gpumap bench`.
        backend: the library that drives the devices; without one that of GPUMAP_BACKEND, else the
            default one of each kind.
        policy: "visible" moves operands that are not where an operation runs, and what NumPy
            copies implicitly (`numpy.exp(array)`), and the trace says so; "strict" raises
            ImplicitTransfer instead. `.numpy()` and `.transfer("cpu")` are explicit.

    Raises:
        MapError: the map does not parse.
        AbsentError: a device of the map is not there; no device is opened then.
        QuestionError: there is no such backend, or it does not drive a device of the map.
    """
    from gpumap.app.program import own
    from gpumap.contexts import Context
    from gpumap.inventory import Inventory
    from gpumap.resolve import resolve

    _check(policy, backend)
    opened = _traced()
    requested = backend or os.environ.get("GPUMAP_BACKEND") or None  # an empty variable is not set
    program = own()
    inventory = Inventory(program.host(), requested)
    resolution = resolve(_map(map_, inventory, program.cwd), inventory)
    clock = inventory.backend(resolution.bindings[0].device.backend).clock()
    devices_by_id = {b.device.id: b.device for b in resolution.bindings}
    with ExitStack() as stack:
        by_device = {
            id_: stack.enter_context(inventory.backend(device.backend).open(device, clock))
            for id_, device in devices_by_id.items()
        }
        sessions = {b.name: by_device[b.device.id] for b in resolution.bindings}
        context = Context(resolution.bindings, sessions, clock, stack.pop_all(), policy)
    if opened:
        opened.add(context)
    return context


@cache
def _traced() -> Opened | None:
    """Return where contexts are collected, if `gpumap trace` has started this process."""
    from gpumap.model.programs import TRACE

    process, _, path = os.environ.pop(TRACE, "").partition(":")
    if process != str(os.getppid()):
        return None
    from gpumap.app import tracing

    return tracing.Opened(path)


def dot(a: Any, b: Any) -> Array:
    """Return the product of two matrices, queued where most bytes of them are.

    At least one of them is an array of a context; the other may be host data, which is moved.

    Raises:
        ShapeError: they are no matrices, or do not fit.
        ContextError: neither belongs to a context, or they belong to two.
    """
    from gpumap.contexts.array import Array

    owner = next((x.context for x in (a, b) if isinstance(x, Array)), None)
    if owner is None:
        fix = "make one by context.shared(array, target=...)"
        raise ContextError("dot needs an array of a context", fix)
    product: Array = owner.dot(a, b)
    return product


def _check(policy: Any, backend: Any) -> None:
    if policy not in ("visible", "strict"):
        raise QuestionError(f"there is no policy {policy!r}", "choose visible or strict")
    if not isinstance(backend, str | None):
        raise QuestionError(f"the backend {backend!r} is no name", "write one, as backend='numpy'")


def _map(text: str | None, inventory: Inventory, folder: str) -> ContextMap:
    from gpumap.resolve import default_map

    if text is None and (found := sources.find(env=inventory.host.env, cwd=folder)):
        text = found.text
    return default_map(inventory) if text is None else parse_map(text)


def devices(*, backend: str | None = None) -> tuple[Device, ...]:
    """Return every device of each backend, or of one.

    Raises:
        AbsentError: that backend has no device.
        QuestionError: there is no such backend.
    """
    return _run(("devices",), {"backend": backend}).devices


def check(
    map: str | None = None,  # noqa: A002 - as the option is called
    *,
    backend: str | None = None,
) -> tuple[Binding, ...]:
    """Open the device of each name, move 4 KiB there and back, and return the bindings.

    Args:
        map: names and devices; None: the map of GPUMAP_CONTEXTS or a file, as the command finds it.
        backend: the library that drives the devices.

    Raises:
        MapError: the map does not parse.
        QuestionError: there is no map.
        AbsentError: a device is not there, or failed.
        WrongDataError: a device returned wrong bytes.
    """
    if map is not None:
        parse_map(map)
    return _run(("check",), {"map": map, "backend": backend}, (Exit.OK,)).bindings


def doctor(
    map: str | None = None,  # noqa: A002 - as the option is called
    *,
    backend: str | None = None,
) -> tuple[Diagnosis, ...]:
    """Return for each name whether its device is used, with the causes if it is not.

    Args:
        map: names and devices; None: the default map. Without a GPU that has no diagnosis.
        backend: the library that drives the devices.

    Raises:
        MapError: the map does not parse.
        TimedOut: it ran out of its time limit.
        GpumapError: it could not be started, or failed itself.
    """
    if map is not None:
        parse_map(map)
    from gpumap.model import Diagnosed

    report = _run(("doctor",), {"map": map, "backend": backend}, (*_JUDGED, Exit.ABSENT))
    return report.result.diagnoses if isinstance(report.result, Diagnosed) else ()


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
        TimedOut: it ran out of its time limit.
        GpumapError: it was interrupted, could not be started, or failed itself.
    """
    spec = commanded(kind) if isinstance(kind, str) else None
    if spec is None:
        known = [spec.command[-1] for spec in every() if spec.command]
        shown = middle(str(kind))
        hint = fix(shown, known, f"choose {', '.join(known)}")
        raise QuestionError(f'no benchmark is called "{shown}"', hint)
    return _run(spec.command, {"map": map, **options})


class Rule:
    """Train a ModelClass, as Theano-MPI's session does, in a process for each device.

        rule = gpumap.BSP()
        rule.init(devices=["cuda0", "cuda1"], modelfile="models.modelfile", modelclass="ModelClass")
        epochs = rule.wait()

    Several devices take mpirun and mpi4py, or else PyTorch, whose ranks `gpumap run` starts. The
    model: see `gpumap.training.model_class`.
    """

    def __init__(self, **options: float) -> None:
        """Take what can be set: of EASGD `alpha` and `tau`, of GOSGD `chance`."""
        self._about = {"name": type(self).__name__.lower(), **options}
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def init(
        self,
        devices: Sequence[str],
        modelfile: str,
        modelclass: str,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        """Start the processes, and return; what they print comes out as it is.

        Args:
            devices: of which each trains a model, as ``["cuda0", "cuda1"]``.
            modelfile: the module of the model, as ``"models.modelfile"``.
            modelclass: its class.
            checkpoint: a file for what was trained, which `numpy.load` reads.

        Raises:
            MapError: what is no device.
            GpumapError: the processes cannot be started.
        """
        entries = ";".join(f"dev{number}->{device}" for number, device in enumerate(devices))
        parse_map(entries)
        path = os.path.abspath(checkpoint) if checkpoint else ""  # noqa: PTH100 - as text
        with _startable():
            self._folder = tempfile.TemporaryDirectory(prefix="gpumap-")
            files = (f"{self._folder.name}/epochs", path)
            call = training(entries, self._about, (modelfile, modelclass), files)
            self._process = subprocess.Popen(  # noqa: S603 - this gpumap, by this Python
                [sys.executable, "-P", "-c", _BECOME, *call],
                stdin=subprocess.DEVNULL,
                env={**OF_MPIRUN, **os.environ, "PYTHONPATH": os.pathsep.join(_path())},
            )

    def wait(self) -> list[dict[str, float | None]]:
        """Wait for the end of the training; return loss and error of each epoch.

        Raises:
            GpumapError: nothing was started, or it failed; stderr has the reason.
        """
        if self._process is None or self._folder is None:
            raise GpumapError("no training was started", "call init first")
        code = self._process.wait()
        with self._folder as folder:
            if code:
                kind = BY_EXIT.get(code, GpumapError)
                raise kind(f"the training ended with exit code {code}", "read what it has printed")
            found: list[dict[str, float | None]] = json.loads(Path(folder, "epochs").read_text())
        return found


class BSP(Rule):
    """Every rank gets the mean of all parameters after each batch (bulk synchronous parallel)."""


class EASGD(Rule):
    """Each rank and a center move towards each other now and then (elastic averaging)."""


class GOSGD(Rule):
    """Each rank sends its parameters to a random other one now and then (gossip)."""


def _run(
    command: Sequence[str], options: dict[str, Any], judged: Collection[int] = _JUDGED
) -> Report:
    """Run a command and return its report, whose exit code is one of `judged`."""
    from gpumap.cli import parameters  # click and all else that a command needs

    params = parameters(command)
    off = {f"GPUMAP_{name.upper()}" for name in params if options.get(name) is False}
    env = {key: value for key, value in os.environ.items() if key not in off}
    given = [text for name in options for text in _given(name, options[name], params.get(name))]
    with _startable(), tempfile.TemporaryDirectory(prefix="gpumap-") as folder:
        target = Path(folder) / "report.json"
        ended = subprocess.run(  # noqa: S603 - this gpumap, by this Python
            [sys.executable, "-P", "-c", _BECOME, *GPUMAP, *command, *given,
             f"--output={target}", "--format=plain"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=env | {"PYTHONPATH": os.pathsep.join(_path())},
            check=False,
        )  # fmt: skip
        return _report(target, ended, judged)


@contextmanager
def _startable() -> Iterator[None]:
    """Raise gpumap's error for a process that cannot be started."""
    try:
        yield
    except ValueError as error:  # NUL, half a surrogate
        raise QuestionError(f"an option cannot be passed on: {error}") from error
    except OSError as error:
        fix = "check sys.executable, TMPDIR, the length of the options and `ulimit -n`"
        message = f"gpumap cannot be started: {error}"
        raise GpumapError(message, fix) from error


def _given(name: str, value: Any, param: Any) -> Iterator[str]:
    """Yield an option as the command line has it; a list item by item, or joined by commas."""
    option = f"--{name.replace('_', '-')}"
    if value is None:
        return
    if isinstance(value, bool):
        if param is not None and not param.is_flag:
            raise QuestionError(f"{name} takes a value, not {value}", f"`{name}=...`, or omit it")
        if value:
            yield option
        elif param is None or param.secondary_opts:
            yield f"--no-{option[2:]}"
    elif not isinstance(value, (list, tuple)):
        yield f"{option}={value}"
    elif param is None or param.multiple:
        yield from (f"{option}={each}" for each in value)
    else:
        yield f"{option}={','.join(map(str, value))}"


def _path() -> Iterator[str]:
    """Yield what the program has on its path, then where the other process finds gpumap."""
    yield from (os.path.abspath(place) for place in sys.path if place and isinstance(place, str))  # noqa: PTH100 - as text
    yield str(Path(__file__).parents[1])


def _report(
    target: Path, ended: subprocess.CompletedProcess[str], judged: Collection[int]
) -> Report:
    from gpumap.model import io

    code = ended.returncode
    if not target.exists():
        raise BY_EXIT.get(code, GpumapError)(*_error_and_fix(ended))
    report = io.read(target)
    if code in judged:
        return report
    diagnostics = tuple(problem.diagnostic for problem in report.errors)
    raise BY_EXIT.get(code, GpumapError)(diagnostics or f"exit code {code}")


def _error_and_fix(ended: subprocess.CompletedProcess[str]) -> tuple[str, str | None]:
    """Return the error and its fix, of a run that left no report."""
    lines = [line.strip() for line in ended.stderr[-_SHOWN:].splitlines() if line.strip()]
    fixes = [line.removeprefix("fix: ") for line in lines if line.startswith("fix: ")]
    words = [line.removeprefix("error: ") for line in lines if not line.startswith("fix: ")]
    return "; ".join(words) or f"exit code {ended.returncode}", fixes[0] if fixes else None
