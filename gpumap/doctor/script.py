"""Read the configuration in the text of a program, which is parsed and never run.

Theano reads its options when it is imported, and CUDA's libraries read their variables at their
first use: what a program sets after the import is an error, or has no effect.
"""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from gpumap.doctor.evidence import Late, Script
from gpumap.errors import SourceError
from gpumap.files import read_bytes, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

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
}


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
        return _script(str(path), _parsed(text))
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


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a stranger's escapes in strings
        return ast.parse(text)


def _script(path: str, tree: ast.Module) -> Script:
    imports = _imports(tree)
    return Script(
        path,
        next(_options(tree, imports), None),
        tuple(_variables(tree, imports)),
        tuple(dict.fromkeys(_devices(tree))),
    )


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
    return _updated(call) if ours and function.attr == "update" else ()


def _updated(call: ast.Call) -> Sequence[ast.expr | None]:
    """Return the keys of the arguments of `update`."""
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
