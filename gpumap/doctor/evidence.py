"""The evidence of every diagnosis, read and measured, and the rules on it.

Nothing here gathers anything.

Read the configuration in the text of a program, which is parsed and never run.

Theano reads its options when it is imported, and CUDA's libraries read their variables at their
first use: what a program sets after the import is an error, or has no effect.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from gpumap.errors import Diagnostic, Exit, SourceError
from gpumap.files import read_bytes, read_text
from gpumap.kinds import KINDS
from gpumap.machine.cuda import CudaDriver
from gpumap.machine.topology import Topology
from gpumap.model import (
    Device,
    Estimate,
    Example,
    Explanation,
    Kind,
    LinkState,
    MapText,
    Others,
    Probe,
    Reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from gpumap.model import DoctorVerdict  # noqa: TC004 - not read: it takes msgspec

    Test = Callable[["Evidence", "MapName"], "Sign | None"]


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that decides placement, and where it is from: a variable, or a file."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Late:
    """A line of a program that sets an option after it was read, at the import of a library."""

    line: int
    what: str  # as the program writes it
    after: str  # the library
    imported: int  # the line of its import
    name: str = ""  # of the variable; of an option none


@dataclass(frozen=True, slots=True)
class Script:
    """The configuration in the text of a program, which is not run."""

    path: str
    option: Late | None = None  # an option of Theano's
    variables: tuple[Late, ...] = ()  # of the environment
    devices: tuple[str, ...] = ()  # that it names, wherever


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU as NVML knows it."""

    index: int
    pci: str | None
    uuid: str | None
    instances: tuple[str, ...] = ()  # UUIDs of its MIG instances
    mig: bool = False
    busy: float | None = None  # share of the time
    processes: tuple[str, ...] = ()  # of others


@dataclass(frozen=True, slots=True)
class Nvidia:
    """Answers of NVIDIA's driver and NVML, queried in a child process."""

    driver: CudaDriver | None = None
    gpus: tuple[Gpu, ...] | None = None  # None: NVML does not answer
    nvml: str | None = None  # why not
    code: int | None = None  # NVML's own, of nvml.h
    silent: str | None = None  # why there is no answer at all: it hung, or crashed
    hangs: bool = False
    forbidden: bool = False  # this user may not query NVML


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of the probes on a device.

    figures: launch, call, setup, product, host_product, double and waiting in s; bandwidth in B/s.
    What could not be measured is not there; `failure` says why the probes ended early.
    """

    figures: Mapping[str, Estimate] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    failure: Reason | None = None
    missing: str | None = None  # an operation that the device has no kernel for, and why


@dataclass(frozen=True, slots=True)
class Gain:
    """The speed-up of several names at once, of a row of `bench dot`."""

    speedup: Estimate
    ideal: Estimate
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True)
class MapName:
    """A name of the map, and its device or why there is none."""

    name: str
    requested: str
    kind: Kind
    index: int | None = None
    device: Device | None = None
    absent: Diagnostic | None = None
    measured: Measured = field(default_factory=Measured)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence on one machine and one map."""

    topology: Topology
    source: MapText | None = None  # None: there is no map; its names are a default
    problems: tuple[Diagnostic, ...] = ()  # why the map cannot be read
    variables: Mapping[str, str] = field(
        default_factory=dict
    )  # of the environment, those that count
    theano: Mapping[str, Setting] = field(default_factory=dict)  # its options
    unreadable: Diagnostic | None = None  # why its settings cannot be read
    script: Script | None = None
    probes: tuple[Probe, ...] = ()
    nvidia: Nvidia = field(default_factory=Nvidia)
    denied: tuple[str, ...] = ()  # files of devices that this process may not open
    others: Others | None = None
    links: Mapping[str, LinkState] = field(default_factory=dict)  # by the device's id
    names: tuple[MapName, ...] = ()
    gain: Gain | None = None

    def of_kind(self, kind: Kind) -> tuple[Device, ...]:
        """Return every device of a kind that a backend found."""
        return tuple(d for probe in self.probes for d in probe.devices if d.kind is kind)

    def fake(self) -> bool:
        """Return whether the devices are a script's: the machine's own facts are none of theirs."""
        return any(probe.name == "fake" for probe in self.probes)


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of a cause: fields for its text and fix, and figures."""

    texts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Estimate] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Diagnostic, fix: str = "") -> Self:
        """Return a diagnostic as a sign, with another fix where it has none."""
        return cls({"what": problem.message, "fix": problem.hint or fix})


@dataclass(frozen=True, slots=True)
class Rule:
    """The test of a cause, and its consequences.

    verdict: of a name with this cause; `used` makes it a note, and no cause. test: returns
        its sign; None without one. exit: the exit code of the run.
    last: whether it counts only where no other cause explains a missing device.
    """

    verdict: DoctorVerdict
    test: Test
    exit: Exit = Exit.NO
    last: bool = False


def failed(named: MapName, *codes: str) -> Sign | None:
    """Return why the probes of a name ended, if it is one of these codes."""
    failure = named.measured.failure
    if failure is None or failure.code not in codes:
        return None
    return Sign({"what": failure.text})


IDEAL = 0.75  # of an ideal speed-up: more than noise takes away


LIMIT = 2**20  # bytes of a program
_FIXED = ("device", "contexts", "init_gpu_device", "force_device", "print_active_device")
# Messages of Python 3 on syntax of Python 2 only: print x; exec "x"; except E, e; 0777
_PYTHON_2 = (
    "Missing parentheses in call to",
    "multiple exception types must be parenthesized",
    "leading zeros in decimal integer literals",
)
_READ_BY = {
    "CUDA_VISIBLE_DEVICES": ("theano", "cupy", "torch", "tensorflow", "jax", "numba"),
    "CUDA_DEVICE_ORDER": ("theano", "cupy", "torch", "tensorflow", "jax", "numba"),
    "THEANO_FLAGS": ("theano",),
    "POCL_AFFINITY": ("pyopencl", "theano"),
} | {
    name: ("torch", "jax")
    for row in KINDS.values() if "identity" not in row.forms for name in row.hides
}  # fmt: skip


class UnreadProgram(SourceError):
    """A program that is not Python 3 in UTF-8: it cannot be judged, and may be right."""


def read(path: Path) -> Script:
    """Parse a program.

    Raises:
        UnreadProgram: it is of Python 2, or not UTF-8.
        SourceError: it cannot be read, or is no Python.
    """
    text = _text(path)
    place = _place(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a stranger's escapes in strings
            tree = ast.parse(text)
        imports = _imports(tree)
        return Script(
            str(path),
            next(_options(tree, imports), None),
            tuple(_variables(tree, imports)),
            tuple(dict.fromkeys(_devices(tree))),
        )
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        if any(message_part in str(error.msg) for message_part in _PYTHON_2):
            message = f"{place}: it is of Python 2{line}"
            raise UnreadProgram(message, "2to3 makes it one of Python 3") from error
        raise SourceError(f"{place}: it is no Python{line}", "name a program") from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise SourceError(f"{place}: it is nested too deeply", "name a program") from error


def _text(path: Path) -> str:
    """Return the text of a program; what is not UTF-8 may be text all the same."""
    data = read_bytes(path, "program", LIMIT)
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" not in data:
            raise UnreadProgram(f"{_place(path)}: it is not UTF-8", "save it as UTF-8") from error
    return read_text(path, "program", LIMIT)


def _place(path: Path) -> str:
    return f"cannot read the program {path}"


def _imports(tree: ast.Module) -> dict[str, int]:
    """Return the line at which each library is imported first, whenever the program is run.

    A function imports when it is called, which no line shows.
    """
    lines: dict[str, int] = {}
    for node in _run(tree.body):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            library = name.partition(".")[0]
            lines[library] = min(node.lineno, lines.get(library, node.lineno))
    return lines


def _run(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run with the program: in no function, and not under `if 0:`."""
    pending = list(body)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        skipped = _never(node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt) and child not in skipped:
                pending.append(child)
            elif isinstance(child, ast.ExceptHandler | ast.match_case):
                pending += child.body


def _never(node: ast.AST) -> Sequence[ast.stmt]:
    """Return the statements under a condition that never holds."""
    if not isinstance(node, ast.If):
        return ()
    if isinstance(node.test, ast.Constant):
        return node.orelse if node.test.value else node.body
    return node.body if ast.unparse(node.test).endswith("TYPE_CHECKING") else ()


def _dead(tree: ast.Module) -> set[ast.AST]:
    """Return all nodes under a condition that never holds."""
    roots = (statement for node in ast.walk(tree) for statement in _never(node))
    return {inner for root in roots for inner in ast.walk(root)}


def _options(tree: ast.Module, imports: dict[str, int]) -> Iterator[Late]:
    """Yield ``theano.config.device = ...`` after the import."""
    dead = _dead(tree)
    for node, target in _assigned(tree):
        parts = ast.unparse(target).split(".")
        if (
            parts[-2:-1] == ["config"]
            and parts[-1] in _FIXED
            and "theano" in imports
            and node not in dead
        ):
            yield Late(node.lineno, _source(node), "theano", imports["theano"])


def _variables(tree: ast.Module, imports: dict[str, int]) -> Iterator[Late]:
    """Yield statements that set a variable after the import of its reader."""
    for node, key in _set(tree):
        for library in _READ_BY.get(key, ()):
            if imports.get(library, node.lineno) < node.lineno:
                yield Late(node.lineno, _source(node), library, imports[library], key)


def _set(tree: ast.Module) -> Iterator[tuple[ast.Assign | ast.Call, str]]:
    """Yield statements that set a variable of the environment, and its name."""
    dead, called = _dead(tree), _names(tree)
    for node, target in _assigned(tree):
        if isinstance(target, ast.Subscript) and _is_environment(target.value, called):
            yield from ((node, key) for key in _constants([target.slice]) if node not in dead)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and call not in dead:
            yield from ((call, key) for key in _constants(_variable_names(call, called)))


def _names(tree: ast.Module) -> dict[str, str]:
    """Return the program's names of `environ` and `putenv` of the module os."""
    every = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == "os")
    return {alias.asname or alias.name: alias.name for node in every for alias in node.names}


def _is_environment(node: ast.expr, called: Mapping[str, str]) -> bool:
    if isinstance(node, ast.Name):
        return called.get(node.id) == "environ"
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def _variable_names(call: ast.Call, called: Mapping[str, str]) -> Sequence[ast.expr | None]:
    """Return the expressions of variable names in a call that sets some."""
    function = call.func
    if isinstance(function, ast.Name):
        return call.args[:1] if called.get(function.id) == "putenv" else ()
    if not isinstance(function, ast.Attribute):
        return ()
    ours = _is_environment(function.value, called)
    if function.attr == "putenv" or (ours and function.attr == "setdefault"):
        return call.args[:1]
    if not ours or function.attr != "update":
        return ()
    keys = [key for arg in call.args if isinstance(arg, ast.Dict) for key in arg.keys]
    return [*keys, *(ast.Constant(keyword.arg) for keyword in call.keywords)]


def _constants(nodes: Iterable[ast.expr | None]) -> Iterator[str]:
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    yield from (value for value in constants if isinstance(value, str))


def _assigned(tree: ast.Module) -> Iterator[tuple[ast.Assign, ast.expr]]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    yield from ((node, target) for node in nodes for target in node.targets)


def _devices(tree: ast.Module) -> Iterator[str]:
    """Yield the values that are given to an option of a device, or of a map."""
    for node, target in _assigned(tree):
        if isinstance(target, ast.Attribute) and target.attr in ("device", "contexts"):
            yield _source(node)


def _source(node: ast.AST) -> str:
    return ast.unparse(node)[:80]
