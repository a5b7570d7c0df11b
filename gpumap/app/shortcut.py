"""The start of `gpumap exec` without click, which takes as long to load as all that `exec` does.

Each option means what it means to click (`gpumap.commands.run`); what is not plain is left to it.
"""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from gpumap import config
from gpumap.app.execute import execute
from gpumap.app.given_map import Where
from gpumap.app.own_entry import ExecRequest
from gpumap.app.program import Ended, escape, own

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VALUED = {"--map": "option", "--backend": "backend", "--name": "name", "--rank-from": "rank_from"}
FLAGS = {"--no-bind": "no_bind", "--verify": "verify", "--quiet": "quiet"}
VARIABLES = {"GPUMAP_BACKEND": "backend", "GPUMAP_RANK_FROM": "rank_from"}
_CLICKS = ("GPUMAP_NO_BIND", "GPUMAP_VERIFY", "GPUMAP_QUIET", "_GPUMAP_COMPLETE")


def start(arguments: Sequence[str]) -> int | None:
    """Become the command of `gpumap exec`; return the exit code where that fails.

    None: the words, a variable or a file are for click to read.

    Args:
        arguments: those of the program, "exec" first.
    """
    gc.disable()  # what modules make stays, and this process does not
    if sys.stdout is None or sys.stderr is None or sys.stdin is None or "--" not in arguments:
        return None
    place = arguments.index("--")
    program = own(tuple(arguments), tuple(arguments[place + 1 :]))
    request = plain(arguments[1:place], program.env)
    if request is None or config.find(program.cwd, program.env.get("HOME")) is not None:
        return None
    for stream in (sys.stdout, sys.stderr):
        escape(stream)
    try:
        execute(program, request)
    except Ended as ended:
        return ended.exit_code
    return 0


def plain(words: Sequence[str], env: Mapping[str, str]) -> ExecRequest | None:
    """Return the request that words and variables make; None where they are for click to read."""
    if any(env.get(name) for name in _CLICKS):
        return None
    found: dict[str, str | bool] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word in FLAGS:
            found[FLAGS[word]] = True
        elif name in VALUED:
            value = value if equals else next(rest, "-")
            if value.startswith("-"):
                return None
            found[VALUED[name]] = value
        elif word.startswith("-") or "argument" in found:
            return None
        else:
            found["argument"] = word
    given = {field: env[name] for name, field in VARIABLES.items() if env.get(name)} | found
    where = Where(*(given.pop(field, None) for field in Where._fields))  # type: ignore[arg-type]
    return ExecRequest(where, **given)  # type: ignore[arg-type]
