"""Settings: gpumap.toml, and what Theano's do with a map."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from gpumap.errors import Diagnostic, SourceError
from gpumap.text import cut, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    TheanoOptions = Mapping[str, "Setting"]

NAME = "gpumap.toml"
_LIMIT = 2**16  # bytes


def find(cwd: Path | str, home: str | None = None) -> Path | None:
    """Return the gpumap.toml that is nearest to `cwd`: in it or in one of its parents.

    Nothing is looked for above the folder `home`.
    """
    folder, parent = "", os.fspath(cwd)
    while folder != parent:  # as text: every start looks here, and pathlib takes 5 ms
        folder, parent = parent, os.path.dirname(parent)  # noqa: PTH120
        path = os.path.join(folder, NAME)  # noqa: PTH118
        if os.path.lexists(path):  # also a dangling link: read() says so, nothing is passed over
            from pathlib import Path

            return Path(path)
        if home and _same(folder, home):
            return None
    return None


def _same(folder: str, other: str) -> bool:
    try:
        return os.path.samefile(folder, other)  # noqa: PTH121 - as above
    except (OSError, ValueError):
        return False


def read(path: Path, *, own: bool = False) -> Mapping[str, Any]:
    """Return the tables and values of the TOML file `path`.

    `own` refuses one that a user other than this one and root can have written: one that is found,
    and not named.
    """
    import tomllib

    from gpumap.files import read_text

    try:
        return tomllib.loads(read_text(path, "configuration", _LIMIT, own=own))
    except (ValueError, RecursionError) as error:
        message = f"cannot read the configuration {path}: {str(error)[:200]}"
        hint = 'a setting is written key = value, text in quotes: map = "dev0->cuda0"'
        raise SourceError(message, hint) from error


def check(config: Mapping[str, Any], types: Mapping[str, tuple[type, ...]], path: Path) -> None:
    """Raise SourceError if a top-level key is none of `types`, or its value is of another type.

    There is a diagnostic for each such key. A list is one of texts.
    """
    wrong = [_unknown(key, types, path) for key in config if key not in types]
    if not wrong:
        mistyped = (key for key, value in config.items() if not _fits(value, types[key]))
        wrong = [_mistyped(key, types[key], path) for key in mistyped]
    if wrong:
        raise SourceError(tuple(wrong))


def _fits(value: Any, types: tuple[type, ...]) -> bool:
    if type(value) is list:
        return list in types and all(isinstance(item, str) for item in value)
    return type(value) in types


def _mistyped(key: str, types: tuple[type, ...], path: Path) -> Diagnostic:
    words = {str: "a text", bool: "true or false", list: "a list of texts"}
    message = f"{path}: {key} is not {' or '.join(words[type_] for type_ in types)}"
    example = "true" if bool in types else '"..."'
    return Diagnostic("wrong-type", message, hint=f"write {key} = {example}")


def _unknown(key: str, known: Collection[str], path: Path) -> Diagnostic:
    message = f'{path}: unknown key "{cut(key)}"'
    close = nearest(key, known)
    there = f"remove it; known are {', '.join(sorted(known))}"
    hint = f"did you mean {close[0]}?" if close else there
    return Diagnostic("unknown-key", message, hint=hint)


# --- what Theano does with a map beside its other options
#
# Theano 1.0.5: gpuarray/__init__.py defines one context for each text of a device, `device` before
# `contexts`; configdefaults.py refuses a `device` that is none.

_GPUS = ("cuda", "opencl")


class Setting(NamedTuple):
    """A value that decides placement, and where it is from: a variable, or a file."""

    value: str = ""
    origin: str = ""


def mapped_device(options: TheanoOptions) -> str | None:
    """Return the device that `device` sends all work to; None where that is the processor."""
    value = options.get("device", Setting()).value
    return None if not value or value.startswith("cpu") else renamed(value) or value


def renamed(device: str) -> str | None:
    """Return what a device of Theano's old back-end is called now, as gpu0 is cuda0."""
    if not device.startswith("gpu"):
        return None
    index = re.fullmatch("gpu([0-9]{1,4})", device)
    return f"cuda{int(index[1])}" if index else "cuda"


def refused_device(options: TheanoOptions) -> str | None:
    """Return a `device` at which `import theano` fails, such as a name of the map."""
    value = options.get("device", Setting()).value
    return None if not value or value.startswith(("cpu", *_GPUS)) else value


def lost_names(options: TheanoOptions) -> dict[str, tuple[str, str]]:
    """Return the names that Theano prints as mapped and does not define, each with two texts.

    Who has its device, `device=cuda0` or the name that came first; and how it gets one.
    """
    lost: dict[str, tuple[str, str]] = {}
    owners: dict[str, tuple[str, str]] = {}
    if (value := options.get("device", Setting()).value).startswith(_GPUS):
        option = cut(f"device={value}")
        owners[value] = option, f"remove {option}"
    for entry in options.get("contexts", Setting()).value.split(";"):
        name, arrow, device = (part.strip() for part in entry.partition("->"))
        own = cut(name), "give each name a device of its own"
        owner = owners.setdefault(device, own)
        if arrow and owner != own:
            lost[name] = owner
    return lost
