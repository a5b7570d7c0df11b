"""The maps that stand in files, by their syntax alone; nothing beside Python's own library."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpumap import sources
from gpumap.errors import Diagnostic, Exit, MapError, SourceError
from gpumap.model import replace
from gpumap.parse import parse_map
from gpumap.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from gpumap.model import MapText

    Tell = Callable[[Iterable[Diagnostic], str | None], None]  # with the text that they point into

_KEYS = {  # where in a file its map begins
    "gpumap.toml": re.compile(r"""^[ \t]*(["']?)map\1[ \t]*=""", re.MULTILINE),
    ".theanorc": re.compile(  # a section ends where a line begins another
        r"^\[global\].*\n(?:(?!\[).*\n)*?(?=(?i:contexts)\s*[=:])", re.MULTILINE
    ),
}


def check(
    files: Sequence[Path], folder: Path, env: Mapping[str, str], tell: Tell, *, strict: bool
) -> tuple[Exit, str]:
    """Check every map of the files; return the exit code, and what to say if it is 0.

    Args:
        files: as they are to be named; those of a relative path are in `folder`.
        folder: the working folder.
        env: variables, which a .theanorc may name.
        tell: is called with what is wrong or odd, file by file.
        strict: a warning ends in exit code 1.
    """
    count, wrong, warned = 0, False, False
    for path in files:
        found, problems = _checked(path, folder, env)
        count += found is not None
        wrong |= any(problem.severity == "error" for problem in problems)
        warned |= any(problem.severity == "warning" for problem in problems)
        tell(problems, found.text.rstrip("\n") if found else None)  # a file ends in one
    if warned and strict:
        tell([Diagnostic("strict", "--strict: there are warnings", hint="see above")], None)
    if wrong:
        return Exit.QUESTION, ""
    if warned and strict:
        return Exit.NO, ""
    return Exit.OK, f"{_many(count, 'map')} in {_many(len(files), 'file')}: well-formed.\n"


def _checked(
    path: Path, folder: Path, env: Mapping[str, str]
) -> tuple[MapText | None, Sequence[Diagnostic]]:
    """Return the map of a file, if it has one, and all that is wrong or odd about it."""
    try:
        found, notes = sources.written(folder / path, env)
    except SourceError as error:
        return None, error.diagnostics
    if found is None:
        return None, [_placed(note, path, None) for note in notes]
    try:
        told = parse_map(found.text).notes
    except MapError as error:
        told = error.diagnostics
    return found, [_placed(one, path, _line(found, one)) for one in (*notes, *told)]


def _placed(told: Diagnostic, path: Path, line: int | None) -> Diagnostic:
    """Return a diagnostic that says which file it is of, and which line."""
    place = printable(str(path)) + (f", line {line}" if line else "")
    return replace(told, message=f"{place}: {told.message.removeprefix('.theanorc: ')}")


def _line(found: MapText, told: Diagnostic) -> int | None:
    """Return the line of a message: of a setting, where it begins."""
    if found.origin == "--map-file":
        return 1 + found.text.count("\n", 0, told.span.start if told.span else 0)
    from pathlib import Path

    from gpumap.files import read_text

    text = read_text(Path(found.path or ""), "file")
    key = _KEYS[found.origin].search(text)
    return 1 + text.count("\n", 0, key.end()) if key else None


def _many(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")
