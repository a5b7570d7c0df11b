"""Read in the text of a program, without running it, which settings come too late.

Theano reads its options when it is imported, and CUDA's libraries read their variables at their
first use: what a program sets after the import is an error, or has no effect.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.errors import SourceError
from gpumap.files import read_text
from gpumap.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT = 2**20  # bytes of a program
_SHOWN = 80  # characters of a statement
_OPTION = re.compile(
    r"(\w+\.)*config\.(device|contexts|init_gpu_device|force_device|print_active_device) = "
)
# os.environ["X"] = 1, .setdefault("X", 1), .update(X=1), .update({"X": 1}), os.putenv("X", 1)
_VARIABLE = re.compile(
    r"(?:os\.)?(?:environ\['(\w+)'\] = |(?:environ\.(?:setdefault|update)|putenv)\(\{?'?(\w+))"
)
_FURTHER = re.compile(r", '?(\w+)'?[:=]")  # of several in one update
_READ_BY = {
    "CUDA_VISIBLE_DEVICES": ("theano", "cupy", "torch", "tensorflow", "jax", "numba"),
    "CUDA_DEVICE_ORDER": ("theano", "cupy", "torch", "tensorflow", "jax", "numba"),
    "THEANO_FLAGS": ("theano",),
    "POCL_AFFINITY": ("pyopencl", "theano"),
} | {
    name: ("torch", "jax")
    for row in KINDS.values() if "identity" not in row.forms for name in row.hides
}  # fmt: skip


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
    """The configuration in the text of a program."""

    path: str
    option: Late | None = None  # an option of Theano's
    variables: tuple[Late, ...] = ()  # of the environment


def read(path: Path) -> Script:
    """Parse a program.

    Raises:
        SourceError: it cannot be read, or is no Python 3.
    """
    text = read_text(path, "program", LIMIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a stranger's escapes in strings
            tree = _Run().visit(ast.parse(text))
        imports = dict(reversed([*_imports(tree)]))
        every = [late for node in ast.walk(tree) for late in _late(node, imports)]
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        message = f"cannot read the program {path}: it is no Python 3{line}"
        raise SourceError(message, "omit --script, or name another program") from error
    option = next((late for late in every if not late.name), None)
    return Script(str(path), option, tuple(late for late in every if late.name))


class _Run(ast.NodeTransformer):
    """Leaves out what never runs."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        never = ast.unparse(node.test).rpartition(".")[2] in ("TYPE_CHECKING", "False", "0")
        return node.orelse if never else node


def _imports(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each library that the program imports when it starts, with the line, in their order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue  # it imports when it is called, which no line shows
        names = [each.name for each in child.names] if isinstance(child, ast.Import) else []
        if isinstance(child, ast.ImportFrom) and child.module and not child.level:
            names = [child.module]
        yield from ((name.partition(".")[0], child.lineno) for name in names)  # type: ignore[attr-defined] # statements
        yield from _imports(child)


def _late(node: ast.AST, imports: dict[str, int]) -> Iterator[Late]:
    """Yield what a statement sets after the import of who reads it."""
    if not isinstance(node, ast.Assign | ast.Expr):
        return
    source = ast.unparse(node)
    readers = [("", "theano")] if _OPTION.match(source) else []
    if match := _VARIABLE.match(source):
        names = [match[1] or match[2], *_FURTHER.findall(source)]
        readers += [(name, library) for name in names for library in _READ_BY.get(name, ())]
    for name, library in readers:
        if imports.get(library, node.lineno) < node.lineno:
            yield Late(node.lineno, source[:_SHOWN], library, imports[library], name)
