"""What the text of a program says of its configuration. It is parsed, and never run.

Theano reads its options when it is imported, and CUDA's libraries read their variables at their
first use: what a program sets behind the import is an error, or comes to nothing.
"""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from gpumap.doctor.evidence import Late, Script
from gpumap.errors import SourceError
from gpumap.escape import printable
from gpumap.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 2**20  # bytes of a program
_FIXED = ("device", "contexts", "init_gpu_device", "force_device", "print_active_device")
_READ_BY = {
    "CUDA_VISIBLE_DEVICES": ("theano", "cupy", "torch", "tensorflow", "jax", "numba"),
    "CUDA_DEVICE_ORDER": ("theano", "cupy", "torch", "tensorflow", "jax", "numba"),
    "THEANO_FLAGS": ("theano",),
    "POCL_AFFINITY": ("pyopencl", "theano"),
}


def read(path: Path) -> Script:
    """Return what a program's text says.

    Raises:
        SourceError: it cannot be read, or is no Python.
    """
    text = read_text(path, "program", LIMIT)
    place = f"cannot read the program {printable(str(path))}"
    try:
        return _found(str(path), _parsed(text))
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        raise SourceError(f"{place}: it is no Python{line}", "name a program") from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise SourceError(f"{place}: it is nested too deeply", "name a program") from error


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a stranger's escapes in strings
        return ast.parse(text)


def _found(path: str, tree: ast.Module) -> Script:
    imports = _imports(tree)
    return Script(
        path,
        next(_options(tree, imports), None),
        tuple(_variables(tree, imports)),
        tuple(dict.fromkeys(_devices(tree))),
    )


def _imports(tree: ast.Module) -> dict[str, int]:
    """Return the line at which each library is imported first."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            library = name.partition(".")[0]
            found[library] = min(node.lineno, found.get(library, node.lineno))  # type: ignore[attr-defined] # an import has a line
    return found


def _options(tree: ast.Module, imports: dict[str, int]) -> Iterator[Late]:
    """Yield ``theano.config.device = ...`` behind the import; before it there is no theano."""
    for node, target in _assigned(tree):
        words = ast.unparse(target).split(".")
        if words[-2:-1] == ["config"] and words[-1] in _FIXED and "theano" in imports:
            yield Late(node.lineno, _shown(node), "theano", imports["theano"])


def _variables(tree: ast.Module, imports: dict[str, int]) -> Iterator[Late]:
    """Yield ``os.environ["CUDA_VISIBLE_DEVICES"] = ...`` behind the import of who reads it."""
    for node, target in _assigned(tree):
        if not isinstance(target, ast.Subscript) or "environ" not in ast.unparse(target.value):
            continue
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        if not isinstance(key, str):
            continue
        for library in _READ_BY.get(key, ()):
            if imports.get(library, node.lineno) < node.lineno:
                yield Late(node.lineno, _shown(node), library, imports[library], key)


def _assigned(tree: ast.Module) -> Iterator[tuple[ast.Assign, ast.expr]]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    yield from ((node, target) for node in nodes for target in node.targets)


def _devices(tree: ast.Module) -> Iterator[str]:
    """Yield the values that are given to an option of a device, or of a map."""
    for node, target in _assigned(tree):
        if isinstance(target, ast.Attribute) and target.attr in ("device", "contexts"):
            yield _shown(node)


def _shown(node: ast.AST) -> str:
    return printable(ast.unparse(node)[:80])
