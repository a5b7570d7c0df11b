"""Where the text of a map comes from: the first of these places that is set.

    the argument, --map                    both at once are an error; @FILE is a file's text
    GPUMAP_CONTEXTS                        an empty variable is not set
    map = "..." in gpumap.toml             in this folder or the nearest one above it
    contexts=... in THEANO_FLAGS           by Theano's own rules, and saying what they drop
    contexts = ... in .theanorc, [global]  same

What comes after the first is not looked at.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from gpumap import config
from gpumap.errors import Diagnostic, QuestionError, SourceError
from gpumap.model import MapText
from gpumap.text import cut, file_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

Notes = tuple[Diagnostic, ...]

_EXAMPLE = "dev0->cuda0;dev1->cuda1"
_LOST = r"(?i)#?(global\.)?contexts?\b|#.*(->|=>)|[^=]*(->|=>)"  # what is meant for the map
_RC_LIMIT = 2**20  # bytes
_SAID = 300  # characters of what configparser says, the place first
_CASED = {"floatx": "floatX"}  # a name in .theanorc may be of any case, in THEANO_FLAGS of its own


def find(
    argument: str | None = None,
    option: str | None = None,
    *,
    env: Mapping[str, str],
    cwd: Path | str,
) -> MapText | None:
    """Return the text of the map from the first place that is set; None if none is.

    Raises:
        QuestionError: `argument` and `option` are given.
        SourceError: a place cannot be read.
    """
    found = _explicit(argument, option, cwd)
    if found is None and (text := env.get("GPUMAP_CONTEXTS", "")).strip():
        found = MapText(text, "GPUMAP_CONTEXTS")
    return found or _configured(env, cwd) or _theano(env, cwd)[0]


def ignored(*, env: Mapping[str, str], cwd: Path | str) -> Notes:
    """Return what Theano's settings lose of a map: for when find() is None."""
    return _theano(env, cwd)[1]


def theano_options(*, env: Mapping[str, str], cwd: Path | str) -> Mapping[str, tuple[str, str]]:
    """Return each option that Theano is given, with its value and where that is from.

    THEANO_FLAGS wins over .theanorc, of which the section [global] is read.

    Raises:
        SourceError: one of them cannot be read.
    """
    found: dict[str, tuple[str, str]] = {}
    for path, options in _rc_options(_rc_files(env, cwd)):
        found |= {_CASED.get(key, key): (value, str(path)) for key, value in options.items()}
    for word in _words(env.get("THEANO_FLAGS", "")):
        key, equals, value = word.partition("=")
        if equals:
            found[key] = (value, "THEANO_FLAGS")
    return found


def written(path: Path) -> MapText | None:
    """Return the map that a file holds; None if it holds none.

    What the file is, its name says: gpumap.toml, .theanorc; any other is a map.

    Raises:
        SourceError: it cannot be read.
    """
    if path.name == config.NAME:
        return _toml(path)
    if path.name.endswith("theanorc"):
        return _rc([(path, _rc_read(path))])
    return _map_file(path, str(path))


def _explicit(argument: str | None, option: str | None, cwd: Path | str) -> MapText | None:
    if argument is not None and option is not None:
        problem = "the map is given twice: by the argument MAP and by --map"
        raise QuestionError(problem, "keep one of them")
    text = option if argument is None else argument
    if text is None:
        return None
    name = file_named(text)
    if name is None:
        return MapText(text, "--map" if argument is None else "argument")
    if not name:
        raise SourceError("@ names no file", f'write @FILE, or a map: "{_EXAMPLE}"')
    from pathlib import Path

    return _map_file(Path(cwd, name), name)


def _map_file(path: Path, named: str) -> MapText:
    from gpumap.files import read_text

    return MapText(read_text(path, "map file"), "@FILE", named)


def _configured(env: Mapping[str, str], cwd: Path | str) -> MapText | None:
    path = config.find(cwd, env.get("HOME"))
    return None if path is None else _toml(path, own=True)


def _toml(path: Path, *, own: bool = False) -> MapText | None:
    settings = config.read(path, own=own)
    if "map" not in settings:
        return None
    text = settings["map"]
    if not isinstance(text, str):
        raise SourceError(f"{path}: map must be text", f'write map = "{_EXAMPLE}"')
    return MapText(text, "gpumap.toml", str(path))


def _theano(env: Mapping[str, str], cwd: Path | str) -> tuple[MapText | None, Notes]:
    text, notes = _flags(env.get("THEANO_FLAGS", ""))
    if text is None:
        return _rc(_rc_files(env, cwd), notes), notes
    # empty is set too: Theano then has no map, whatever .theanorc says
    return (MapText(text, "THEANO_FLAGS", None, notes) if text else None), notes


# --- THEANO_FLAGS ------------------------------------------------------------------------------


def _flags(text: str) -> tuple[str | None, Notes]:
    words, name = _words(text), "contexts="
    values = [word.removeprefix(name) for word in words if word.startswith(name)]
    return values[-1] if values else None, tuple(_lost(text, words))


def _words(text: str) -> list[str]:
    """Split as Theano does (theano/configparser.py): `#` drops the rest."""
    import shlex

    splitter = shlex.shlex(text, posix=True)
    splitter.whitespace, splitter.whitespace_split = ",", True
    try:
        words = [word.strip() for word in splitter]
    except ValueError as error:
        message = f'THEANO_FLAGS: {str(error).lower()}: "{cut(text)}"'
        raise SourceError(message, "close the quote, or remove the backslash") from error
    return [word for word in words if word]


def _lost(text: str, words: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield what was meant for the map, and is no part of `contexts=`; a `#` may have cut it."""
    dropped = "" if "#" in "".join(words) else "".join(text.partition("#")[1:])
    every = (*words, dropped)
    lost = [word for word in every if re.match(_LOST, word) and not word.startswith("contexts=")]
    if lost:
        message = f'THEANO_FLAGS: Theano ignores "{cut(",".join(lost))}"'
        hint = f"write contexts={_EXAMPLE}: one word, entries with ; between"
        yield Diagnostic("flags-lost", message, hint=hint, severity="warning")


# --- .theanorc ---------------------------------------------------------------------------------


def _rc(files: Iterable[tuple[Path, str]], notes: Notes = ()) -> MapText | None:
    """Return the map of the last of some files that sets it, with what the flags have lost."""
    value, origin = None, ""
    for path, options in _rc_options(files):
        if options.get("contexts") != value:
            value, origin = options["contexts"], str(path)
    return MapText(value, ".theanorc", origin, notes) if value else None


def _rc_options(files: Iterable[tuple[Path, str]]) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Yield each file with the options that Theano has after it."""
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    for path, text in files:
        try:
            parser.read_string(text, str(path))
            yield path, dict(parser.items("global")) if parser.has_section("global") else {}
        except configparser.Error as error:
            why = " ".join(str(error).split())[:_SAID]
            hint = f"write [global], and below it contexts = {_EXAMPLE}; each once"
            raise SourceError(f"cannot read the .theanorc: {why}", hint) from error


def _rc_files(env: Mapping[str, str], cwd: Path | str) -> Iterator[tuple[Path, str]]:
    """Yield the files that Theano reads, with their texts; it skips those that are not there."""
    for path in _rc_paths(env, cwd):
        try:
            yield path, _rc_read(path)
        except SourceError as error:
            if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                raise


def _rc_paths(env: Mapping[str, str], cwd: Path | str) -> Iterator[Path]:
    from pathlib import Path

    folder, home = Path(cwd), env.get("HOME", "")
    for item in env.get("THEANORC", "~/.theanorc" if home else "").split(os.pathsep):
        if item == "~" or item.startswith("~/"):
            yield folder / (home + item[1:])
        elif item:  # an empty THEANORC names no file, as in Theano
            yield folder / os.path.expanduser(item)  # noqa: PTH111 - Path's raises on unknown users


def _rc_read(path: Path) -> str:
    from gpumap.files import read_text

    return read_text(path, ".theanorc", _RC_LIMIT)
