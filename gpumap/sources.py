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
from gpumap.config import Setting
from gpumap.errors import Diagnostic, QuestionError, SourceError
from gpumap.model import MapText
from gpumap.text import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_EXAMPLE = "dev0->cuda0;dev1->cuda1"
_LOST = r"(?i)#?(global\.)?contexts?\b|#.*(->|=>)|[^=]*(->|=>)"  # what is meant for the map
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
    return found or _configured(env, cwd) or _theano(env, cwd)


def ignored(env: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """Return what THEANO_FLAGS say for the map outside of `contexts=`; a `#` may have cut it."""
    text = env.get("THEANO_FLAGS", "")
    words = _words(text)
    dropped = "" if "#" in "".join(words) else "".join(text.partition("#")[1:])
    every = (*words, dropped)
    lost = [word for word in every if re.match(_LOST, word) and not word.startswith("contexts=")]
    if not lost:
        return ()
    message = f'THEANO_FLAGS: Theano ignores "{cut(",".join(lost))}"'
    hint = f"write contexts={_EXAMPLE}: one word, entries with ; between"
    return (Diagnostic("flags-lost", message, hint=hint, severity="warning"),)


def theano_options(*, env: Mapping[str, str], cwd: Path | str) -> Mapping[str, Setting]:
    """Return each option that Theano is given, with its value and where that is from.

    THEANO_FLAGS wins over .theanorc, of which the section [global] is read.

    Raises:
        SourceError: one of them cannot be read.
    """
    return _rc_options(_rc_files(env, cwd)) | _flags(env)


def written(path: Path) -> MapText | None:
    """Return the map that a file holds; None if it holds none.

    What the file is, its name says: gpumap.toml, .theanorc; any other is a map.

    Raises:
        SourceError: it cannot be read.
    """
    if path.name == config.NAME:
        return _toml(path)
    if path.name.endswith("theanorc"):
        return _rc([(path, _read(path, ".theanorc"))])
    return _map_file(path, str(path))


def _explicit(argument: str | None, option: str | None, cwd: Path | str) -> MapText | None:
    if argument is not None and option is not None:
        problem = "the map is given twice: by the argument MAP and by --map"
        raise QuestionError(problem, "keep one of them")
    text = option if argument is None else argument
    if text is None:
        return None
    if not text.startswith("@") or "->" in text:  # an entry of a map has an arrow
        return MapText(text, "--map" if argument is None else "argument")
    if text == "@":
        raise SourceError("@ names no file", f'write @FILE, or a map: "{_EXAMPLE}"')
    from pathlib import Path

    return _map_file(Path(cwd, text[1:]), text[1:])


def _map_file(path: Path, named: str) -> MapText:
    return MapText(_read(path, "map file"), "@FILE", named)


def _read(path: Path, what: str) -> str:
    from gpumap.files import read_text

    return read_text(path, what)


def _configured(env: Mapping[str, str], cwd: Path | str) -> MapText | None:
    path = config.find(cwd, env.get("HOME"))
    return None if path is None else _toml(path, own=True)


def _toml(path: Path, *, own: bool = False) -> MapText | None:
    settings = config.read(path, own=own)
    if (text := settings.get("map")) is None:
        return None
    if not isinstance(text, str):
        raise SourceError(f"{path}: map must be text", f'write map = "{_EXAMPLE}"')
    return MapText(text, "gpumap.toml", str(path))


def _theano(env: Mapping[str, str], cwd: Path | str) -> MapText | None:
    notes, given = ignored(env), _flags(env).get("contexts")
    if given is None:
        return _rc(_rc_files(env, cwd), notes)
    # empty is set too: Theano then has no map, whatever .theanorc says
    return MapText(given.value, "THEANO_FLAGS", None, notes) if given.value else None


# --- THEANO_FLAGS ------------------------------------------------------------------------------


def _flags(env: Mapping[str, str]) -> dict[str, Setting]:
    words = (word.partition("=") for word in _words(env.get("THEANO_FLAGS", "")))
    return {key: Setting(value, "THEANO_FLAGS") for key, equals, value in words if equals}


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


# --- .theanorc ---------------------------------------------------------------------------------


def _rc(files: Iterable[tuple[Path, str]], notes: tuple[Diagnostic, ...] = ()) -> MapText | None:
    """Return the map of some files, with what the flags have lost."""
    value, path = _rc_options(files).get("contexts", ("", ""))
    return MapText(value, ".theanorc", path, notes) if value else None


def _rc_options(files: Iterable[tuple[Path, str]]) -> dict[str, Setting]:
    """Return the options of some files, each of the last file that sets it anew."""
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    found: dict[str, Setting] = {}
    for path, text in files:
        try:
            parser.read_string(text, str(path))
            options = parser.items("global") if parser.has_section("global") else ()
        except configparser.Error as error:
            why = " ".join(str(error).split())[:_SAID]
            hint = f"write [global], and below it contexts = {_EXAMPLE}; each once"
            raise SourceError(f"cannot read the .theanorc: {why}", hint) from error
        for name, value in options:  # those of the files before, too
            if name not in found or found[name].value != value:
                found[name] = Setting(value, str(path))
    return {_CASED.get(name, name): setting for name, setting in found.items()}


def _rc_files(env: Mapping[str, str], cwd: Path | str) -> Iterator[tuple[Path, str]]:
    """Yield the files that Theano reads, with their texts; it skips those that are not there."""
    for path in _rc_paths(env, cwd):
        try:
            yield path, _read(path, ".theanorc")
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
