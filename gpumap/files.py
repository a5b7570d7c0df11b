"""The user's files, read and written: bounded, never blocking, and atomic; and gpumap's own."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedWriter

LIMIT = 16 * 2**20  # a map of 100,000 entries takes 2 MiB

_CHECK = "check the path, and its permissions"
_PART = 1 << 20  # bytes, for which room is taken whatever there is
_BLOCK = 4096  # bytes, of what has room at all
# Where the system's own words do not tell what to do.
_FIXES = {
    errno.EISDIR: "name a file in it",
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.ENXIO: "name a regular file, or start its reader first",
}


def read_text(path: Path, what: str, limit: int = LIMIT, *, own: bool = False) -> str:
    """Return the UTF-8 text of the regular file `path`; never block, never read beyond `limit`.

    Args:
        path: the file.
        what: what it should be, in the user's words, for the error message.
        limit: the largest size in bytes that is accepted.
        own: whether to refuse it where a user other than this one and root can have written it.
    """
    data = read_bytes(path, what, limit, own=own)
    place = f"cannot read the {what} {path}"
    if b"\0" in data:
        raise SourceError(f"{place}: it is not text (a NUL at byte {data.index(0)})", _CHECK)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"{data[error.start]:#04x} at byte {error.start}"
        raise SourceError(f"{place}: it is not UTF-8 ({byte})", "save it as UTF-8") from error


def read_bytes(path: Path, what: str, limit: int = LIMIT, *, own: bool = False) -> bytes:
    """Return what the regular file `path` holds; as `read_text`, whatever its bytes mean."""
    place = f"cannot read the {what} {path}"
    with _explained(place), open(path, "rb", opener=_opened) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise SourceError(f"{place}: it is no regular file", "it must be one")
        if own:
            _refuse_others(path, state, place)
        most = min(limit, max(state.st_size, _PART))  # files in /proc say 0
        if state.st_size > most or len(data := file.read(most + 1)) > most:
            raise SourceError(f"{place}: it is larger than {most} bytes", "name a smaller file")
    return data


def shipped(package: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML file that is a part of gpumap.

    A line break in a text is a blank.
    """
    import tomllib
    from importlib.resources import files

    text = files(package).joinpath(name).read_text(encoding="utf-8")
    tables: dict[str, Any] = _folded(tomllib.loads(text))
    return tables


def _folded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _folded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_folded(each) for each in value]
    return value if isinstance(value, int) else " ".join(value.split())


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write `content` to `path` so that a reader sees the old one or all of the new one.

    A symbolic link is followed. What cannot be replaced, such as /dev/stdout or a FIFO, is
    written to as it is.
    """
    # a lone surrogate (a file name that is no UTF-8) must not cost the whole report
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with _explained(f"cannot write {path}"):
        state = _target_state(path)
        if state is not None and not stat.S_ISREG(state.st_mode):
            _append(path, data)
        else:
            _replace(path.resolve(), data, state and stat.S_IMODE(state.st_mode))


def check_writable(path: Path) -> None:
    """Find out beforehand whether `write_atomic` can write to `path`, as far as that can be tried.

    What is no regular file is not opened: who reads a FIFO would see its end.

    Raises:
        SourceError: it cannot, and why not.
    """
    with _explained(f"cannot write {path}"):
        state = _target_state(path)
        if state is None or stat.S_ISREG(state.st_mode):
            with _temporary(path.resolve()) as file:
                file.write(bytes(_BLOCK))


def empty(path: Path) -> None:
    """Empty a regular file that will be written, so that its old content is not taken for the new.

    Nothing is raised: an error with it is reported when it is written.
    """
    with suppress(OSError, ValueError):
        if path.is_file():
            os.truncate(path, 0)


def cache_folder(env: Mapping[str, str]) -> Path | None:
    """Return where this user's cache is; None where no variable tells."""
    if given := env.get("GPUMAP_CACHE_DIR"):
        return Path(given)
    xdg = env.get("XDG_CACHE_HOME", "")
    if xdg.startswith("/"):  # a relative one is to be ignored: XDG Base Directory, "Environment"
        return Path(xdg) / "gpumap"
    home = env.get("HOME", "")
    return Path(home) / ".cache" / "gpumap" if home.startswith("/") else None


def others(state: os.stat_result) -> str | None:
    """Return how a user other than this one and root can write a file or folder; None: no way.

    A sticky folder such as /tmp gives no access to the files of others. The group that is a user's
    own, by Debian's and Fedora's rule, has no other members.
    """
    if state.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {state.st_uid}"
    mode = state.st_mode
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return None
    if mode & stat.S_IWOTH:
        return "every user can write to it"
    if mode & stat.S_IWGRP and not _private(state.st_gid, state.st_uid):
        return f"group {state.st_gid} can write to it"
    return None


def _private(group: int, owner: int) -> bool:
    """Return whether a group is that of one user alone: this one, or the owner."""
    import grp
    import pwd

    try:
        found = grp.getgrgid(group)
        users = [pwd.getpwuid(user) for user in {owner, os.geteuid()}]
    except KeyError:
        return False
    return any(
        (user.pw_gid, user.pw_name) == (group, found.gr_name)
        and set(found.gr_mem) <= {user.pw_name}
        for user in users
    )


def _refuse_others(path: Path, state: os.stat_result, place: str) -> None:
    """Raise SourceError if another user can have written an opened file, or put it there."""
    folders = dict.fromkeys((path.parent, path.resolve().parent))
    seen = (state, path.lstat(), *(folder.stat() for folder in folders))
    for where, found in zip(("", "", *(f"{each}: " for each in folders)), seen, strict=True):
        if why := others(found):
            hint = "take it over (chown, chmod go-w), or put a file of your own nearer"
            raise SourceError(f"{place}: {where}{why}", hint)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # or it waited on a FIFO without a writer


def _target_state(path: Path) -> os.stat_result | None:
    """Return what is at a path that will be written, if anything is; raises OSError."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode):
        path.open("ab").close()  # no folder may be, and a rename would not ask it of a file
    return state


def _append(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
    # only the open may not wait for a reader; a slow one gets all the time it needs
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _replace(target: Path, data: bytes, mode: int | None) -> None:
    with _temporary(target) as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        Path(file.name).replace(target)


@contextmanager
def _temporary(target: Path) -> Iterator[BufferedWriter]:
    """Create a file beside a target, as open() would by the umask; it is gone at the end."""
    path = target.with_name(f".gpumap-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with path.open("xb") as file:
            yield file
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _explained(place: str) -> Iterator[None]:
    """Raise SourceError, with its fix, for what the system says of a file."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SourceError(f"{place}: {reason}", _FIXES.get(error.errno or 0, _CHECK)) from error
    except ValueError as error:
        raise SourceError(f"{place}: that is no path", _CHECK) from error
