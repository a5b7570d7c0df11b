"""Claim a device for one rank of a job: another rank of the job on this node is refused it.

A claim is an abstract Unix socket (unix(7)). The kernel gives its name once, keeps it over
`execve`, and takes it back when the process has ended: no file and no folder is left.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import struct
import sys
from contextlib import suppress

from gpumap.errors import BusyError

_FIX = "let the launcher narrow no devices, or each rank to its own; name each device once"
_PEER = struct.Struct("3i")  # process, user, group: unix(7), SO_PEERCRED


def claim(job: str, device: str) -> None:
    """Claim a device, for this process and for the program that it becomes.

    Args:
        job: what all ranks of the job know, and no other job of the node.
        device: as every rank calls it.

    Raises:
        BusyError: another process of the job has it.
    """
    if not sys.platform.startswith("linux"):  # alone in having such sockets
        return
    text = f"{os.getuid()}\n{job}\n{device}".encode(errors="surrogateescape")
    name = f"\0gpumap-{hashlib.sha256(text).hexdigest()[:32]}"
    held = socket.socket(socket.AF_UNIX)
    try:
        held.bind(name)
    except OSError as error:
        held.close()
        if error.errno != errno.EADDRINUSE:
            raise
        if (who := _holder(name)) != os.getpid():
            other = f"process {who}" if who else "another process"
            raise BusyError(f"{other} of this job has the device {device}, too", _FIX) from error
        return
    held.listen(1)  # so that a later rank learns which process it is
    os.set_inheritable(held.detach(), True)  # noqa: FBT003 - kept to the end of the command


def _holder(name: str) -> int | None:
    """Return the process that has a name; None: it does not answer."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)  # noqa: FBT003 - as sockets have it
        asking.connect(name)
        peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        return int(_PEER.unpack(peer)[0])
    return None
