"""What the processes of a job have to say, brought to the first of them: without MPI.

Rank 0 opens a door; each other rank comes as soon as it has started, says who it is, and later what
it has found. Who came and went without a word has died. The door is a socket of this machine, and
the kernel tells each side which user the other one is: no one else is heard, or told the job.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

from gpumap.errors import AbsentError

if TYPE_CHECKING:
    from types import TracebackType

    from gpumap.parallel.comm.doors import Door

_LONGEST = 64 * 2**20  # bytes of what a rank says
_WHO = 4096  # bytes of who it is
_NAMED = 16  # ranks of those that are missing
_CHUNK = 65536
_PAUSE = 0.02  # seconds between two tries
_GREETING = 5.0  # seconds in which a door says whose it is
_HEARD = b"heard\n"
_STOPPED = "look at that process: it may be stopped"


@dataclass(frozen=True, slots=True)
class Caller:
    """A rank that has come: who it says it is, and what it has found; None: it died before."""

    rank: int
    local_rank: int
    host: str
    process: int
    text: str | None


class Host:
    """Rank 0's side: a thread hears all others, while this one looks for its own device."""

    def __init__(self, door: Door, size: int) -> None:
        """Open the door for ranks 1 to `size` - 1.

        Raises:
            AbsentError: it cannot be opened.
        """
        self._door, self._size = door, size
        self._listening = _listening(door)
        self._lines: dict[socket.socket, _Line] = {}
        self._callers: dict[int, Caller] = {}
        self._all = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def missing(self) -> list[str]:
        """Return who has not said what it has found, as a message names it."""
        here = {line.who["rank"]: line for line in list(self._lines.values()) if line.who}
        heard = set(self._callers)
        found = []
        for rank in islice((r for r in range(1, self._size) if r not in heard), _NAMED):
            line = here.get(rank)
            about = f" on {line.who['host']}, process {line.who['process']}" if line else ""
            found.append(f"rank {rank}{about}")
        others = self._size - 1 - len(heard) - len(found)
        return [*found, f"{others} more"] if others else found

    def hear(self) -> tuple[Caller, ...]:
        """Wait until each rank has said what it has found, or has died; in their order.

        A rank that never comes is waited for: who calls has a time limit.

        Raises:
            AbsentError: not all can be heard any more; fewer ranks would pass for all.
        """
        self._all.wait()
        if len(self._callers) < self._size - 1:
            said = f"rank 0 can no longer hear {', '.join(self.missing)}"
            raise AbsentError(said, "look at the memory and the open files of this machine")
        return tuple(self._callers[rank] for rank in sorted(self._callers))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the door; who still waits sees that nobody hears it."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._all.wait(_GREETING)

    def _serve(self) -> None:
        """Be the thread."""
        try:
            with selectors.DefaultSelector() as selector, self._listening:
                selector.register(self._listening, selectors.EVENT_READ)
                while len(self._callers) < self._size - 1 and self._turn(selector):
                    pass
        finally:
            for each in self._lines:  # by this who was heard knows that all are
                each.close()
            self._all.set()

    def _turn(self, selector: selectors.BaseSelector) -> bool:
        """Take what has come; False: the door was closed."""
        for key, _ in selector.select():
            if key.fileobj in self._lines:
                self._listen(selector, key.data)
            elif key.fileobj is self._listening and not self._welcome(selector):
                return False
        return True

    def _welcome(self, selector: selectors.BaseSelector) -> bool:
        """Let one in; False: the door was closed."""
        try:
            line = _Line(self._listening.accept()[0])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EBADF):
                return False
            self._make_room(selector)
            return True
        with suppress(OSError):  # it has gone again
            if not _ours(line.socket):
                line.socket.close()
                return True
            line.socket.sendall(f"gpumap {self._door.job}\n".encode())
            line.socket.setblocking(False)  # noqa: FBT003 - its only way
            self._lines[line.socket] = line
            selector.register(line.socket, selectors.EVENT_READ, line)
        return True

    def _make_room(self, selector: selectors.BaseSelector) -> None:
        """Show out who has not said who it is: no more files may be open."""
        for line in [each for each in self._lines.values() if not each.who]:
            selector.unregister(line.socket)
            line.socket.close()
            del self._lines[line.socket]
        time.sleep(_PAUSE)  # where there was nobody it would be tried again at once

    def _listen(self, selector: selectors.BaseSelector, line: _Line) -> None:
        more = line.take(self._door.job, self._size)
        if more and not line.said:
            return
        selector.unregister(line.socket)
        first = bool(line.who) and line.who["rank"] not in self._callers
        if first:
            self._callers[line.who["rank"]] = line.caller()
        if line.said and first:
            with suppress(OSError):
                line.socket.setblocking(True)  # noqa: FBT003 - as above
                line.socket.sendall(_HEARD)
            return  # and stays, to the end of all
        line.socket.close()
        del self._lines[line.socket]


class Guest:
    """The side of another rank."""

    def __init__(self, door: Door, rank: int, local_rank: int, limit: float) -> None:
        """Come to rank 0, and say who this is.

        Raises:
            AbsentError: rank 0 opens no door within `limit` seconds.
        """
        self._until = time.monotonic() + limit
        who = {
            "job": door.job,
            "rank": rank,
            "local_rank": local_rank,
            "host": socket.gethostname(),
            "process": os.getpid(),
        }
        self._socket = _connected(door, json.dumps(who).encode() + b"\n", self._until)

    def tell(self, text: str) -> bool:
        """Say what this rank has found, and return whether rank 0 has heard it.

        It returns when all are heard: who left before could begin the job's next command, and come
        to the door of this one.

        Raises:
            AbsentError: rank 0 is there, and does not answer within the time.
        """
        data = text.encode(errors="replace")
        with self._socket:
            self._socket.settimeout(max(0.0, self._until - time.monotonic()) + _GREETING)
            try:
                self._socket.sendall(b"%d\n" % len(data) + data)
                heard = self._socket.recv(len(_HEARD), socket.MSG_WAITALL) == _HEARD
            except TimeoutError as error:
                raise AbsentError("rank 0 does not answer any more", _STOPPED) from error
            except OSError:
                return False
            with suppress(OSError):
                self._socket.recv(1)  # there is nothing more but the end, with the last rank
        return heard


@dataclass(eq=False, slots=True)
class _Line:
    """What has come over one connection."""

    socket: socket.socket
    who: dict[str, Any] = field(default_factory=dict)
    said: bool = False
    _text: bytearray = field(default_factory=bytearray)
    _length: int | None = None

    def take(self, job: str, size: int) -> bool:
        """Take what has come; False: nothing more will, or it is no rank of this job."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._text += data
        if not self.who:
            line = self._first_line()
            if line is not None:
                self.who = _who(line, job, size)
            if (line is None and len(self._text) > _WHO) or (line is not None and not self.who):
                return False
        if self.who and self._length is None:
            self._length = self._announced()
        if self._length is not None:
            if not 0 <= self._length <= _LONGEST:
                return False
            self.said = len(self._text) >= self._length
        return bool(data)

    def caller(self) -> Caller:
        """Return who it was, with its text if that is whole."""
        text = self._text[: self._length].decode(errors="replace") if self.said else None
        who = self.who
        return Caller(who["rank"], who["local_rank"], who["host"], who["process"], text)

    def _announced(self) -> int | None:
        """Return the length of what follows; below 0 for what is none."""
        line, most = self._first_line(), len(str(_LONGEST))
        if line is None:
            return None if len(self._text) <= most else -1
        return int(line) if line.isdigit() and len(line) <= most else -1

    def _first_line(self) -> bytes | None:
        line, end, rest = self._text.partition(b"\n")
        if not end:
            return None
        self._text = rest
        return bytes(line)


def _who(line: bytes, job: str, size: int) -> dict[str, Any]:
    """Return who a line says it is; nothing, if it is no rank of the job."""
    try:
        who = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(who, dict) or who.get("job") != job:
        return {}
    numbers = [who.get(key) for key in ("rank", "local_rank", "process")]
    if any(type(n) is not int or n < 0 for n in numbers) or not isinstance(who.get("host"), str):
        return {}
    return who if 0 < who["rank"] < size else {}


def _listening(door: Door) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    try:
        made.bind(door.local)
        made.listen(socket.SOMAXCONN)
    except BaseException as error:
        made.close()
        if not isinstance(error, OSError):
            raise
        said = f"rank 0 cannot open its socket for the other ranks: {error.strerror}"
        raise AbsentError(said, "end what listens there: another gpumap of this job?") from error
    return made


def _connected(door: Door, who: bytes, until: float) -> socket.socket:
    """Return a connection to rank 0, which may start later than this one and has been told who."""
    while True:
        with suppress(OSError):
            return _greeted(door, who)
        if time.monotonic() >= until:
            raise AbsentError("rank 0 does not answer", "look at what it prints")
        time.sleep(_PAUSE)


def _greeted(door: Door, who: bytes) -> socket.socket:
    """Return a connection to a door of this job, told who; raises OSError for any other."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(_GREETING)
    try:
        made.connect(door.local)
        _know(made, door)
        made.sendall(who)
    except BaseException:
        made.close()
        raise
    made.settimeout(None)
    return made


def _know(connection: socket.socket, door: Door) -> None:
    """Refuse who is not rank 0 of this job; raises OSError."""
    greeting = f"gpumap {door.job}\n".encode()
    if not _ours(connection):
        raise PermissionError
    if connection.recv(len(greeting), socket.MSG_WAITALL) != greeting:
        raise ConnectionError


def _ours(connection: socket.socket) -> bool:
    """Return whether the same user is at the other end of a connection."""
    size = struct.calcsize("3i")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = struct.unpack("3i", found)
    return bool(user == os.getuid())
