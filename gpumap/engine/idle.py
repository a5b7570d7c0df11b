"""Whether others use the machine: then figures are not worth their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap import units
from gpumap.errors import BusyError, Diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpumap.machine.nvml import GpuUse
    from gpumap.model import Binding, Device, Others

_CORES = 0.1  # of one core, by all other processes together
_OF_OURS = 0.1  # of the cores that a run uses, above which others disturb it
_SHARE = 0.1  # of a GPU's time
_HINT = "wait for it to end, or measure without --require-idle"
_UNSEEN = "processes that are not visible from here"


def require_idle(devices: Sequence[Device]) -> None:
    """Look at the cores and at the CUDA devices among these; nothing of ours is open yet.

    Raises:
        BusyError: others are at work; one diagnostic for the cores and one for each device.
    """
    from gpumap.machine.nvml import Gpus
    from gpumap.machine.state import name_of, others

    with Gpus(devices) as gpus:
        check_idle(others(), gpus.uses(), name_of)


def disturbing(seen: Others, bindings: Sequence[Binding], cores: int) -> Diagnostic | None:
    """Return the warning that others use the cores that a run on a map needs, if they do.

    Those are the cores of its devices; where a device has none, any of the `cores` that there are.
    """
    places = [set(binding.device.cores) for binding in bindings]
    used = len(set().union(*places)) if places and all(places) else cores
    if seen.cores <= _OF_OURS * used:
        return None
    who = ", ".join(dict.fromkeys(one.name for one in seen.processes)) or _UNSEEN
    message = f"other processes keep {seen.cores:.1f} of {seen.of} cores busy: {who}"
    hint = "figures suffer; wait for them to end, or let --require-idle refuse to measure"
    return Diagnostic("cpu-contention", message, hint=hint, severity="warning")


def check_idle(cores: Others, uses: Iterable[GpuUse], name: Callable[[int], str]) -> None:
    """Judge what was seen; `name` is what to call a process.

    Raises:
        BusyError: others are at work.
    """
    problems = (*_cores(cores), *(d for use in uses for d in _gpu(use, name)))
    if problems:
        raise BusyError(problems)


def _cores(seen: Others) -> Iterator[Diagnostic]:
    if seen.cores > _CORES:
        who = ", ".join(_process(one.pid, one.name) for one in seen.processes)
        message = f"the machine is busy: {seen.cores:.2f} of {seen.of} cores by {who or _UNSEEN}"
        yield Diagnostic("busy", message, hint=_HINT)


def _gpu(use: GpuUse, name: Callable[[int], str]) -> Iterator[Diagnostic]:
    """Say who is on a device, also if they rest just now: they may start at any moment."""
    if use.busy is None and use.processes is None:
        from gpumap.machine.nvml import INSTALL

        message = f"cannot tell whether {use.device.ref} is busy: NVML did not respond"
        yield Diagnostic("busy", message, hint=f"{INSTALL}; or measure without --require-idle")
    elif use.processes or (use.busy or 0.0) > _SHARE:
        who = ", ".join(
            _process(pid, name(pid), units.memory(used) if used else "")
            for pid, used in (use.processes or {}).items()
        )
        share = "" if use.busy is None else f" {use.busy:.0%} of the time"
        message = f"{use.device.ref} is busy{share}: {who or _UNSEEN}"
        yield Diagnostic("busy", message, hint=_HINT)


def _process(pid: int | None, *facts: str) -> str:
    known = ", ".join(filter(None, facts))
    return f"pid {pid} ({known})" if known else f"pid {pid}"
