"""What gpumap remembers of a machine: the noise floors that a self-test found.

One JSON file for each fingerprint, so that a floor is never taken for another machine's. The folder
is GPUMAP_CACHE_DIR, else gpumap in XDG_CACHE_HOME, else ~/.cache/gpumap. A cache is a convenience:
what is wrong with it is a note, never an error, and what is read from it is believed only where it
is what gpumap writes, and no other user can have written it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.errors import Diagnostic, SourceError
from gpumap.escape import printable
from gpumap.files import read_text, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
_LIMIT = 2**16  # bytes: a hundred devices take a tenth
_HASH = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)
MOST = 0.05  # a higher floor is of a busy machine, and would call any change the same: none is kept
_HINT = "`gpumap selftest` writes a new file"
_ELSEWHERE = "let GPUMAP_CACHE_DIR name a folder of your own"
_WHAT = "noise floors"


def folder(env: Mapping[str, str]) -> Path | None:
    """Return where this user's cache is; None where no variable tells."""
    if given := env.get("GPUMAP_CACHE_DIR"):
        return Path(given)
    xdg = env.get("XDG_CACHE_HOME", "")
    if xdg.startswith("/"):  # a relative one is to be ignored: XDG Base Directory, "Environment"
        return Path(xdg) / "gpumap"
    home = env.get("HOME", "")
    return Path(home) / ".cache" / "gpumap" if home.startswith("/") else None


def load(env: Mapping[str, str], fingerprint: str) -> tuple[dict[str, float], Diagnostic | None]:
    """Return the noise floors of a machine by device id, and what is wrong with their file."""
    path = _path(env, fingerprint)
    try:
        if path is None or not path.exists():
            return {}, None
        return _floors(read_text(path, _WHAT, _LIMIT, own=True), fingerprint), None
    except (SourceError, OSError, ValueError, RecursionError) as error:
        return {}, _note(f"the stored noise floors are not used: {_why(error, path)}", _HINT)


def store(
    env: Mapping[str, str], fingerprint: str, floors: Mapping[str, float]
) -> tuple[Path | None, Diagnostic | None]:
    """Keep the noise floors of a machine; return where, or why not."""
    path = _path(env, fingerprint)
    if path is None:
        return None, _note(
            "the noise floors are not stored: no variable names a folder", _ELSEWHERE
        )
    content = {"version": VERSION, "fingerprint": fingerprint, "noise_floors": dict(floors)}
    if path.is_symlink():  # whose file it leads to is not ours to decide
        return None, _note("the noise floors are not stored: a link is in their place", _ELSEWHERE)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # as XDG has it
        write_atomic(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
        path.chmod(path.stat().st_mode & 0o755)  # whatever the umask: `load` believes no other
    except (SourceError, OSError, ValueError) as error:
        return None, _note(f"the noise floors are not stored: {_why(error, path)}", _ELSEWHERE)
    return path, None


def _path(env: Mapping[str, str], fingerprint: str) -> Path | None:
    """Return the file of a machine; a hash that is none names no file: it may be hostile."""
    match, place = _HASH.fullmatch(fingerprint), folder(env)
    return place / f"selftest-{match[1]}.json" if match and place else None


def _floors(text: str, fingerprint: str) -> dict[str, float]:
    """Return what a file holds.

    Raises:
        ValueError: it is not what `store` writes.
    """
    found = json.loads(text, parse_constant=_refused)
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise ValueError("it is of another version")
    if found.get("fingerprint") != fingerprint:
        raise ValueError("it is another machine's")
    floors = found.get("noise_floors")
    if not isinstance(floors, dict) or not all(map(_is_floor, floors.values())):
        raise ValueError("its noise floors are no shares")
    return {str(device): float(floor) for device, floor in floors.items()}


def _is_floor(value: Any) -> bool:
    return type(value) in (int, float) and 0.0 <= value <= MOST


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number")


def _why(error: Exception, path: Path | None) -> str:
    if isinstance(error, SourceError):
        return error.diagnostics[0].message
    if isinstance(error, OSError):
        words = (error.strerror or str(error)).lower()
    elif isinstance(error, json.JSONDecodeError | RecursionError):
        words = "it is no JSON"
    else:
        words = str(error)
    return f"{printable(str(path))}: {words}"


def _note(message: str, hint: str) -> Diagnostic:
    return Diagnostic("cache", message, hint=hint, severity="note")
