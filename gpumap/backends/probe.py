"""Ask a backend what is there, in a child process: a driver may crash, hang, or print.

The child is ``python -m gpumap.backends.probe NAME FD``; its answer is one JSON object, written to
a file of its own so that nothing a driver prints can reach it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.model import Device, DeviceRef, Kind, Probe

if TYPE_CHECKING:
    from collections.abc import Mapping

TIME_LIMIT = 20.0  # seconds; a cold driver on a large machine takes five
_PACKAGE_ROOT = Path(__file__).parents[2]


def probe_in_child(name: str, host: Host, install: str, time_limit: float = TIME_LIMIT) -> Probe:
    """Return what the backend's `inventory` says in a child process, or why it did not.

    A backend is called as the module of its library; `install` says how to get that.
    """
    if find_spec(name) is None:  # spares the child
        return Probe(name, usable=False, reason="not installed", fix=install)
    answer, code, errors = _ask(name, host.env, time_limit)
    if code is None:
        reason = f"its driver did not answer within {time_limit:g} s"
        return Probe(name, usable=False, reason=reason, fix="`gpumap devices` tries again")
    if code < 0:
        reason = f"its driver crashed while probed ({_signal_name(-code)})"
        fix = "remove or update the driver: /etc/OpenCL/vendors, OCL_ICD_VENDORS"
        return Probe(name, usable=False, reason=reason, fix=fix)
    try:
        return _decoded(json.loads(answer))
    except (ValueError, KeyError, TypeError):
        last = errors.strip().rpartition("\n")[2]
        return Probe(name, usable=False, reason=f"the probe failed: {last or f'exit {code}'}")


def _ask(name: str, env: Mapping[str, str], time_limit: float) -> tuple[str, int | None, str]:
    """Return what the child wrote, its exit code (None: it did not end in time), its stderr."""
    path = os.pathsep.join(p for p in (str(_PACKAGE_ROOT), env.get("PYTHONPATH", "")) if p)
    with _scratch() as answer, _scratch() as errors:
        # -P: a json.py or pyopencl.py in the user's folder is not what is asked for
        command = [sys.executable, "-P", "-m", "gpumap.backends.probe", name, str(answer.fileno())]
        child = subprocess.Popen(  # noqa: S603 - our own module
            command,
            env={**env, "PYTHONPATH": path},
            pass_fds=[answer.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # what a driver starts ends with it
        )
        code = _ended(child, time_limit)
        return _text(answer), code, _text(errors)


def _ended(child: subprocess.Popen[bytes], time_limit: float) -> int | None:
    """Return the exit code of `child`, or None if it had to be stopped."""
    try:
        return child.wait(time_limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if child.returncode is None:
            os.killpg(child.pid, signal.SIGKILL)  # a child that has not been waited for still is
            child.wait()


def _scratch() -> IO[bytes]:
    """Return a file without a name: no one who keeps it open can make the reader wait."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("gpumap-probe"), "w+b")
    return tempfile.TemporaryFile()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _encoded(probe: Probe) -> dict[str, Any]:
    devices = [{**asdict(d), "silicon": sorted(d.silicon)} for d in probe.devices]
    return {**asdict(replace(probe, devices=())), "devices": devices}


def _decoded(answer: dict[str, Any]) -> Probe:
    devices = tuple(_device(device) for device in answer.pop("devices"))
    return Probe(**{**answer, "notes": tuple(answer["notes"])}, devices=devices)


def _device(fields: dict[str, Any]) -> Device:
    kind = Kind(fields["kind"])
    given = {
        **fields,
        "kind": kind,
        "ref": DeviceRef(**{**fields["ref"], "kind": kind}),
        "cores": tuple(fields["cores"]),
        "silicon": frozenset(fields["silicon"]),
    }
    return Device(**given)


def _end_with_parent() -> None:
    """A parent that is killed while it waits must leave no hanging driver behind (Linux)."""
    from contextlib import suppress
    from ctypes import CDLL

    pr_set_pdeathsig = 1  # <linux/prctl.h>
    with suppress(AttributeError, OSError):
        CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _main(name: str, descriptor: int) -> None:
    """Be the child: write the backend's inventory to `descriptor`; end when the parent ends."""
    _end_with_parent()
    from gpumap.machine.topology import read

    backend: Any = load(name, Host(dict(os.environ), read()))
    answer = json.dumps(_encoded(backend.inventory()))
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(answer)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
