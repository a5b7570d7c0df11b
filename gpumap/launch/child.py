"""The start of one process: what happens between fork and exec, and what went wrong there.

The environment of each process.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpumap.machine import orphans
from gpumap.machine.numa import pin
from gpumap.model import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.launch.places import Place
    from gpumap.model import Device

TOKEN = "GPUMAP_RUN"  # noqa: S105 - the name of a variable: by its value a run knows its processes
HERE = "127.0.0.1"
LIMITS = "raise the limit (ulimit -u, ulimit -n), or map fewer names"  # what mends a lack of room
# Python ignores some, and a run handles others: the program gets what the run was given.
_OURS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
_PYTHONS = (signal.SIGPIPE, signal.SIGXFSZ)
_STDOUT = 1  # a process that has it from this one has its stdin, too
_BECOMING = 60.0  # seconds that an exec may take: the program may be on a slow network
_STEPS = 4096  # bytes, more than a child says
_LOOK = 0.002  # seconds between two looks at a child that should have ended


@dataclass(frozen=True, slots=True)
class Shared:
    """What all processes of a run are told alike."""

    token: str
    port: int
    address: str = HERE
    backend: str | None = None  # what was asked to drive the devices


def environments(
    places: Sequence[Place], shared: Shared, given: Mapping[str, str]
) -> tuple[dict[str, str], ...]:
    """Return for each place the variables that its process gets beside those that were `given`."""
    world = ";".join(f"{place.name}->{identity(place.device)}" for place in places)
    return tuple(
        _environment(place, rank, len(places), world, shared, given)
        for rank, place in enumerate(places)
    )


def identity(device: Device) -> str:
    """Return a device as a map may name it, by what stays the same whatever is visible."""
    if device.kind is Kind.CUDA and (known := device.uuid or device.pci):
        return f"{Kind.CUDA}@{known}"
    return str(device.ref)


def inside(place: Place) -> str:
    """Return the device of a place as it is named in the process that is bound there."""
    one_core = place.device.kind is Kind.CPU and place.device.ref.index is not None
    if one_core and place.cores:
        return f"{Kind.CPU}0"
    return identity(place.device)


def visible(device: Device) -> str | None:
    """Return what CUDA_VISIBLE_DEVICES must be for just this device; None: it is left alone.

    OpenCL drivers of NVIDIA read it too, so that it must not hide what OpenCL is to drive.
    """
    if device.kind is Kind.CUDA:
        return device.uuid
    return "" if device.in_host_memory else None


def _environment(
    place: Place, rank: int, size: int, world: str, shared: Shared, given: Mapping[str, str]
) -> dict[str, str]:
    outer = given.get(TOKEN)
    found = {
        "GPUMAP_NAME": place.name,
        "GPUMAP_DEVICE": identity(place.device),
        "GPUMAP_CONTEXTS": f"{place.name}->{inside(place)}",
        "GPUMAP_WORLD": world,
        TOKEN: f"{outer}:{shared.token}" if outer else shared.token,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": shared.address,
        "MASTER_PORT": str(shared.port),
    }
    if not given.get("OMP_NUM_THREADS"):
        found["OMP_NUM_THREADS"] = str(place.threads)
    if (devices := visible(place.device)) is not None:
        found["CUDA_VISIBLE_DEVICES"] = devices
    if shared.backend is not None:
        found["GPUMAP_BACKEND"] = shared.backend
    return found


@dataclass(frozen=True, slots=True)
class Order:
    """A process to start: its program, its variables, and where it runs."""

    path: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cores: tuple[int, ...] = ()  # none: wherever this process may run
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """A process; which of its steps failed, and the errno of each."""

    pid: int
    failed: Mapping[str, int]


def start(order: Order, out: int, err: int) -> Started:
    """Start a process in a session of its own; it dies with this one.

    Its steps are "affinity" and "exec", without which it has ended, and "memory", without which it
    runs all the same.
    """
    import gpumap.machine.numa  # noqa: F401 - nothing is imported between fork and exec

    prctl = orphans.prctl()
    reading, writing = os.pipe()
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OURS)
    try:
        pid = os.fork()
        if not pid:
            try:
                os.close(reading)
                if prctl is not None:
                    prctl(orphans.PARENT_DEATH, signal.SIGKILL)
                if os.getppid() == parent:  # else it died before the kernel knew
                    _become(order, (out, err, writing), before)
            finally:
                os._exit(127)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(writing)
    rows = (line.split() for line in _said(reading).decode().splitlines())
    return Started(pid, {step: int(number) for step, number in rows})


def reap(pid: int, patience: float) -> None:
    """Wait until a child has ended; kill it where it has not within `patience` seconds."""
    with suppress(ChildProcessError):
        for last in (False, True):
            until = time.monotonic() + patience
            while not os.waitpid(pid, os.WNOHANG)[0]:
                if time.monotonic() > until:
                    break  # after a SIGKILL it is the kernel's, in a driver's call for example
                time.sleep(_LOOK)
            else:
                return
            if not last:
                os.kill(pid, signal.SIGKILL)


def _said(reading: int) -> bytes:
    """Return what a child says before it is another program: at most until it should be one."""
    said = b""
    until = time.monotonic() + _BECOMING
    try:
        while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
            if not (more := os.read(reading, _STEPS)):
                break
            said += more
    finally:
        os.close(reading)
    return said


def _become(order: Order, pipes: tuple[int, int, int], mask: object) -> None:
    """Turn into the program; comes back only where that fails."""
    out, err, writing = pipes

    def say(step: str, number: int) -> None:
        os.write(writing, f"{step} {number}\n".encode())

    os.setsid()
    handled = (each for each in _OURS if signal.getsignal(each) is not signal.SIG_IGN)
    for each in (*handled, *_PYTHONS):
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # type: ignore[arg-type]
    if out != _STDOUT:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    if order.cores and not pin(order.cores):
        say("affinity", errno.EINVAL)
        return
    if order.memory is not None:
        from gpumap.machine.numa import take_memory_of

        if number := take_memory_of(order.memory):
            say("memory", number)
    try:
        os.execve(order.path, order.argv, order.env)  # noqa: S606 - a program, not a shell
    except OSError as error:
        say("exec", error.errno or errno.EINVAL)
