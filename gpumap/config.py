"""gpumap.toml, and [tool.gpumap] of pyproject.toml: where they are, and what they say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gpumap.errors import Diagnostic, SourceError
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

NAME = "gpumap.toml"
PROJECT = "pyproject.toml"


def find(cwd: Path | str) -> Path | None:
    """Return the gpumap.toml that is nearest to `cwd`: in it or in one of its parents."""
    return next(_upwards(cwd, NAME), None)


def project(cwd: Path | str) -> tuple[Path, Mapping[str, Any]] | None:
    """Return the nearest pyproject.toml that has a table [tool.gpumap], and that table.

    Raises:
        SourceError: one on the way cannot be read: it could be the one; or its table is none.
    """
    for path in _upwards(cwd, PROJECT):
        from gpumap.files import read_text

        text = read_text(path, "configuration")
        if "gpumap" not in text and "\\" not in text:  # most are so; TOML takes its time
            continue
        tool = read(path).get("tool", {})
        table = tool.get("gpumap") if isinstance(tool, dict) else None
        if isinstance(table, dict):
            return path, table
        if table is not None:
            problem = f"{printable(str(path))}: tool.gpumap is no table"
            raise SourceError(problem, "write [tool.gpumap], and its settings in lines below")
    return None


def _upwards(cwd: Path | str, name: str) -> Iterator[Path]:
    """Yield the files of this name in `cwd` and in its parents."""
    folder, parent = "", os.fspath(cwd)
    while folder != parent:  # as text: every start looks here, and pathlib takes 5 ms
        folder, parent = parent, os.path.dirname(parent)  # noqa: PTH120
        path = os.path.join(folder, name)  # noqa: PTH118
        if os.path.lexists(path):  # also a dangling link: read() says so, nothing is passed over
            from pathlib import Path

            yield Path(path)


def read(path: Path) -> Mapping[str, Any]:
    """Return the tables and values of the TOML file `path`."""
    import tomllib

    from gpumap.files import read_text

    text = read_text(path, "configuration")
    place = f"cannot read the configuration {printable(str(path))}"
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = 'a setting is written key = value, text in quotes: map = "dev0->cuda0"'
        raise SourceError(f"{place}: {printable(str(error))[:200]}", hint) from error
    except ValueError as error:  # a number of thousands of digits
        raise SourceError(f"{place}: a number is too long", "shorten it") from error
    except RecursionError as error:
        raise SourceError(f"{place}: brackets are nested too deeply", "remove some") from error


def check_keys(config: Mapping[str, Any], known: Collection[str], path: Path) -> None:
    """Raise SourceError, one diagnostic per key, if `config` has a top-level key not in `known`."""
    unknown = tuple(_unknown(key, known, path) for key in config if key not in known)
    if unknown:
        raise SourceError(unknown)


def check_types(
    config: Mapping[str, Any], types: Mapping[str, tuple[type, ...]], path: Path
) -> None:
    """Raise SourceError with one diagnostic for each value that is of another type than its key's.

    A list is one of texts.
    """
    wrong = [key for key, value in config.items() if not _fits(value, types[key])]
    if wrong:
        raise SourceError(tuple(_mistyped(key, types[key], path) for key in wrong))


def _fits(value: Any, types: tuple[type, ...]) -> bool:
    if type(value) is list:
        return list in types and all(isinstance(item, str) for item in value)
    return type(value) in types


def _mistyped(key: str, types: tuple[type, ...], path: Path) -> Diagnostic:
    words = {str: "a text", bool: "true or false", list: "a list of texts"}
    wanted = " or ".join(words[type_] for type_ in types)
    message = f"{printable(str(path))}: {key} is not {wanted}"
    example = "true" if types == (bool,) else '"..."'
    return Diagnostic("wrong-type", message, hint=f"write {key} = {example}")


def _unknown(key: str, known: Collection[str], path: Path) -> Diagnostic:
    from difflib import get_close_matches

    message = f'{printable(str(path))}: unknown key "{printable(key)[:80]}"'
    close = get_close_matches(key, known, n=1)
    hint = f"write {close[0]}" if close else f"remove it; known are {', '.join(sorted(known))}"
    return Diagnostic("unknown-key", message, hint=hint)
