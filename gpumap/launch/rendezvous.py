"""A meeting of the ranks of one node and one job: who has taken which device.

Without a network: a folder of the user's, one for each job, in which each rank has a file that it
keeps locked. The lock is the process's own (POSIX, `fcntl`): it outlives `execve`, no child has it,
and it is gone when the process is, so that the file of a dead rank does not count.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from gpumap.errors import BusyError, QuestionError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

_PRIVATE = "XDG_RUNTIME_DIR"
_TEMPORARY = "/tmp"  # noqa: S108 - of the system: ranks may have a TMPDIR each
_LONGEST = 4096  # bytes of a claim
_PAUSE = 0.01  # seconds between two looks
_LINGER = 5.0  # seconds at most, until the other rank has seen the one that has lost
_MET = b"met\n"  # behind the claim
_OWNED, _WRITTEN = 0, 1  # bytes of a file: locked by its rank, and once its claim is complete


class Claim(NamedTuple):
    """What a rank has taken: its name in the map, the device there, and what it really is.

    `met`: it has seen the claim of every other rank.
    """

    name: str
    ref: str
    device: str
    process: int
    met: bool = False

    @property
    def text(self) -> str:
        """Return it as its file has it: no part holds a tab."""
        return "\t".join((self.name, self.ref, self.device, str(self.process)))


class Meeting:
    """The folder of a job on this node."""

    def __init__(self, job: str, env: Mapping[str, str]) -> None:
        """Make the folder, or use it where it is there.

        Args:
            job: what all ranks of the job know, and no other job of the node.
            env: of this process.

        Raises:
            QuestionError: the folder cannot be made, or others may write to it.
        """
        base = env.get(_PRIVATE, "")
        if not (base.startswith("/") and os.access(f"{base}/", os.W_OK | os.X_OK)):
            base = _TEMPORARY  # srun hands on the variable of another node, where the folder is
        outer = os.path.join(base, f"gpumap-{os.getuid()}")  # noqa: PTH118 - pathlib is slow
        self._folder = os.path.join(outer, hashlib.sha256(job.encode()).hexdigest()[:16])  # noqa: PTH118
        for folder in (outer, self._folder):
            _make(folder)

    def take(self, rank: int, claim: Claim) -> None:
        """Write what a rank has taken; it stays so until this process ends.

        Raises:
            BusyError: another process of the job is this rank.
            QuestionError: the file cannot be written, or not be locked.
        """
        file = self._opened(rank, os.O_RDWR | os.O_CREAT)
        assert file is not None  # it was made
        try:
            if not _locked(file, _OWNED):
                raise _twice(rank, _read(file))
            self._own = file
            os.ftruncate(file, 0)
            os.pwrite(file, f"{claim.text}\n".encode(errors="surrogateescape"), 0)
            while not _locked(file, _WRITTEN):  # another rank looks, which takes no time
                time.sleep(_PAUSE)
        except OSError as error:
            raise _unusable(self._folder, error.strerror or "") from error
        os.set_inheritable(file, True)  # noqa: FBT003 - or the lock would end with this program

    def others(self, rank: int, ranks: int, seen: Container[int] = ()) -> dict[int, Claim]:
        """Return what the other ranks that live have taken, without those that have been seen."""
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - pathlib is slow
        except OSError as error:
            raise _unusable(self._folder, error.strerror or "") from error
        numbers = [int(name) for name in names if name.isdecimal()]
        unseen = [n for n in numbers if n < ranks and n != rank and n not in seen]
        found = ((number, self._claim(number)) for number in unseen)
        return {number: claim for number, claim in found if claim}

    def wait(self, rank: int, ranks: int, claim: Claim, patience: float) -> int:
        """Wait for the other ranks; return how many of them have not come in time.

        None leaves before each has seen all: its command may end at once, and its claim with it.

        Args:
            rank: of this process on this node; its claim is taken.
            ranks: of this node.
            claim: what this rank has taken.
            patience: in seconds.

        Raises:
            BusyError: another rank has taken the same device.
        """
        until = time.monotonic() + patience
        seen: set[int] = set()  # some may have ended since
        while True:
            for number, other in self.others(rank, ranks, seen).items():
                if _collide(claim, other):
                    self._linger(number)
                    raise _busy((rank, claim), (number, other))
                seen.add(number)
            if len(seen) == ranks - 1:
                break
            if time.monotonic() > until:
                return ranks - 1 - len(seen)
            time.sleep(_PAUSE)
        self._meet()
        while not all(other.met for other in self.others(rank, ranks).values()):
            if time.monotonic() > until:
                break
            time.sleep(_PAUSE)
        return 0

    def _meet(self) -> None:
        """Write that this rank has seen all that it needs to see."""
        os.pwrite(self._own, _MET, os.fstat(self._own).st_size)

    def _linger(self, rank: int) -> None:
        """Let the other rank see this one's claim, too, before that is gone with this process."""
        until = time.monotonic() + _LINGER
        while time.monotonic() < until and (other := self._claim(rank)) and not other.met:
            time.sleep(_PAUSE)

    def _claim(self, rank: int) -> Claim | None:
        """Return the claim of a rank that lives."""
        file = self._opened(rank, os.O_RDWR)
        if file is None:
            return None
        try:
            # Shared: a rank that looks at the same time must not be taken for the owner.
            return None if _locked(file, _WRITTEN, fcntl.LOCK_SH) else _read(file)
        finally:
            os.close(file)

    def _opened(self, rank: int, flags: int) -> int | None:
        """Open the file of a rank, if it is a plain file of this user; follow no link."""
        path = os.path.join(self._folder, str(rank))  # noqa: PTH118
        try:
            file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unusable(path, error.strerror or "") from error
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_nlink != 1:
            os.close(file)
            raise _unusable(path, "it is no plain file of this user's alone")
        return file


def _make(folder: str) -> None:
    """Make a folder that no other user can write to, or read."""
    try:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)  # noqa: PTH102
        found = os.lstat(folder)
    except OSError as error:
        raise _unusable(folder, error.strerror or "") from error
    private = not stat.S_IMODE(found.st_mode) & 0o077
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or not private:
        raise _unusable(folder, "it is no folder of this user's alone")


def _unusable(path: str, why: str) -> QuestionError:
    fix = "let XDG_RUNTIME_DIR name a folder of your own (chmod 700), or omit --verify"
    return QuestionError(f"the ranks of this node cannot meet in {path}: {why}", fix)


def _locked(file: int, byte: int, how: int = fcntl.LOCK_EX) -> bool:
    """Lock a byte of a file, if no other process has; return whether that worked."""
    try:
        fcntl.lockf(file, how | fcntl.LOCK_NB, 1, byte)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _read(file: int) -> Claim | None:
    """Return the claim in a file; None where it has none."""
    text = os.pread(file, _LONGEST, 0).decode(errors="surrogateescape")
    line, end, rest = text.partition("\n")
    parts = line.split("\t")
    if not end or len(parts) != len(Claim._fields) - 1 or not parts[-1].isdecimal():
        return None
    name, ref, device, process = parts
    return Claim(name, ref, device, int(process), met=rest.encode() == _MET)


def _twice(rank: int, other: Claim | None) -> BusyError:
    who = f"process {other.process} ({other.name})" if other else "another process"
    message = f"{who} is local rank {rank} of this job, too"
    return BusyError(message, "start one `gpumap exec` for each rank")


def _collide(one: Claim, other: Claim) -> bool:
    """Return whether two ranks have one device against the map; it may give it two names."""
    return one.device == other.device and (one.name == other.name or one.ref != other.ref)


def _busy(*ranks: tuple[int, Claim]) -> BusyError:
    """Return that two ranks have one device; both say the same."""
    who = " and ".join(_each(sorted(ranks)))
    fix = "let the launcher narrow no devices, or each rank to its own; name each device once"
    return BusyError(f"{who} have one device: {ranks[0][1].device}", fix)


def _each(ranks: list[tuple[int, Claim]]) -> Iterator[str]:
    for number, claim in ranks:
        yield f"local rank {number} ({claim.name}->{claim.ref}, process {claim.process})"
