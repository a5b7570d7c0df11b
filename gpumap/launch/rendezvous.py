"""A meeting of the ranks of one node and one job: who has taken which device.

Without a network: a file of the user's, one for each job, with a line for each rank. A rank keeps
the byte of its number locked. The lock is the process's own (POSIX, `fcntl`): it outlives `execve`,
no child has it, and it is gone when the process is. Who comes drops the lines of ranks that have
ended: they are of an earlier start. Later ones stay, so that a command may end at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from gpumap.errors import BusyError, QuestionError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRIVATE = "XDG_RUNTIME_DIR"
_TEMPORARY = "/tmp"  # noqa: S108 - of the system: ranks may have a TMPDIR each
_PAUSE = 0.01  # seconds between two looks
_WRITTEN = 5.0  # seconds in which who writes has done so
_WRITER = 1 << 40  # the byte that is locked by who writes; those before it are ranks


class Claim(NamedTuple):
    """What a rank has taken: its name in the map, the device there, and what it really is."""

    name: str
    ref: str
    device: str
    process: int


class Meeting:
    """The file of a job on this node."""

    def __init__(self, job: str, env: Mapping[str, str]) -> None:
        """Make the file, or use it where it is there.

        Args:
            job: what all ranks of the job know, and no other job of the node.
            env: of this process.

        Raises:
            QuestionError: the file cannot be made, or others may write to it.
        """
        base = env.get(_PRIVATE, "")
        if not (base.startswith("/") and os.access(f"{base}/", os.W_OK | os.X_OK)):
            base = _TEMPORARY  # srun hands on the variable of another node, where the folder is
        folder = f"{base}/gpumap-{os.getuid()}"
        self._path = f"{folder}/{hashlib.sha256(job.encode()).hexdigest()[:16]}"
        try:
            _make(folder)
            self._file = _opened(self._path)  # once: to close it would end the locks
        except OSError as error:
            raise _unusable(self._path, error.strerror or "") from error

    def take(self, rank: int, claim: Claim) -> None:
        """Write what a rank has taken.

        Raises:
            BusyError: another process of the job is this rank.
            QuestionError: the file cannot be written, or not be locked.
        """
        try:
            until = time.monotonic() + _WRITTEN
            while not self._locked(_WRITER):
                if time.monotonic() > until:
                    raise _unusable(self._path, "another rank does not come to an end with it")
                time.sleep(_PAUSE)
            claims = self.claims()
            if not self._locked(rank):
                raise _twice(rank, claims.get(rank))
            kept = {n: c for n, c in claims.items() if n != rank and self._lives(n)}
            lines = ("\t".join(map(str, (n, *c))) for n, c in (kept | {rank: claim}).items())
            text = "".join(f"{line}\n" for line in lines)
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, text.encode(errors="surrogateescape"), 0)
            self._unlock(_WRITER)
        except OSError as error:
            raise _unusable(self._path, error.strerror or "") from error
        os.set_inheritable(self._file, True)  # noqa: FBT003 - or the lock would end with this program

    def claims(self) -> dict[int, Claim]:
        """Return what each rank has taken that has come."""
        size = os.fstat(self._file).st_size
        text = os.pread(self._file, size, 0).decode(errors="surrogateescape")
        lines = (line.split("\t") for line in text.split("\n")[:-1])
        return {
            int(rank): Claim(name, ref, device, int(process))
            for rank, name, ref, device, process in (each for each in lines if _is_claim(each))
        }

    def wait(self, rank: int, ranks: int, claim: Claim, patience: float) -> int:
        """Wait for the other ranks; return how many of them have not come in time.

        Args:
            rank: of this process on this node; its claim is taken.
            ranks: of this node.
            claim: what this rank has taken.
            patience: in seconds.

        Raises:
            BusyError: another rank has taken the same device.
        """
        until = time.monotonic() + patience
        while True:
            others = {n: c for n, c in self.claims().items() if n < ranks and n != rank}
            for number, other in others.items():
                same = claim.name == other.name or claim.ref != other.ref
                if claim.device == other.device and same:  # the map may give it two names
                    raise _busy((rank, claim), (number, other))
            missing = ranks - 1 - len(others)
            if not missing or time.monotonic() > until:
                return missing
            time.sleep(_PAUSE)

    def _lives(self, rank: int) -> bool:
        """Return whether a rank has its byte locked."""
        if not self._locked(rank):
            return True
        self._unlock(rank)
        return False

    def _locked(self, byte: int) -> bool:
        """Lock a byte, if no other process has; return whether that worked."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _unlock(self, byte: int) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)


def _make(folder: str) -> None:
    """Make a folder that no other user can write to, or read."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib is slow
    found = os.lstat(folder)
    private = not stat.S_IMODE(found.st_mode) & 0o077
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or not private:
        raise _unusable(folder, "it is no folder of this user's alone")


def _opened(path: str) -> int:
    """Open a plain file of this user; follow no link."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_nlink != 1:
        os.close(file)
        raise _unusable(path, "it is no plain file of this user's alone")
    return file


def _unusable(path: str, why: str) -> QuestionError:
    fix = "let XDG_RUNTIME_DIR name a folder of your own (chmod 700), or omit --verify"
    return QuestionError(f"the ranks of this node cannot meet in {path}: {why}", fix)


def _is_claim(parts: list[str]) -> bool:
    return len(parts) == 1 + len(Claim._fields) and parts[0].isdecimal() and parts[-1].isdecimal()


def _twice(rank: int, other: Claim | None) -> BusyError:
    who = f"process {other.process} ({other.name})" if other else "another process"
    message = f"{who} is local rank {rank} of this job, too"
    return BusyError(message, "start one `gpumap exec` for each rank")


def _busy(*ranks: tuple[int, Claim]) -> BusyError:
    """Return that two ranks have one device; both say the same."""
    each = (f"local rank {n} ({c.name}->{c.ref}, process {c.process})" for n, c in sorted(ranks))
    who = " and ".join(each)
    fix = "let the launcher narrow no devices, or each rank to its own; name each device once"
    return BusyError(f"{who} have one device: {ranks[0][1].device}", fix)
