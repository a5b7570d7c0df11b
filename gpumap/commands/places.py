"""No file that a command reads may be one that it writes, and no two results may go to one.

A base that a result is written over is a gate that is green the next time, whatever was found.
"""

from __future__ import annotations

import os
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import click

from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def refuse_collisions(context: click.Context, reads: type, writes: tuple[type, ...]) -> None:
    """Refuse options that name one file twice, however it is spelled or linked.

    Args:
        context: the command that is about to run.
        reads: the type of parameters that name a file to read.
        writes: the types of parameters that name a file to write.

    Raises:
        UsageError: two results go to one file, or one goes to a file that the command reads.
    """
    written = list(_named(context, writes))
    for (one, first), (other, second) in combinations(written, 2):
        if _same(first, second):
            which = f"two {one}" if one == other else f"{one} and {other}"
            raise click.UsageError(f"{which} go to one file; give each its own")
    for (one, first), (other, second) in product(written, _named(context, (reads,))):
        if _same(first, second):
            what = f"{one} would write over what {other} reads, {printable(str(second))!r}"
            raise click.UsageError(f"{what}; choose another file")


def _named(context: click.Context, types: tuple[type, ...]) -> Iterator[tuple[str, Path]]:
    """Yield each file with the parameter that names it."""
    for parameter in context.command.params:
        if isinstance(parameter.type, types) and parameter.name is not None:
            argument = parameter.param_type_name == "argument"
            name = parameter.human_readable_name if argument else parameter.opts[0]
            for value in _values(context.params.get(parameter.name)):
                yield name, getattr(value, "path", value)


def _values(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _same(one: Path, other: Path) -> bool:
    """Return whether two paths are one file, now or once it is written."""
    try:
        return os.path.realpath(one) == os.path.realpath(other) or one.samefile(other)
    except (OSError, ValueError):  # one is not there: then links and spelling were all
        return False
