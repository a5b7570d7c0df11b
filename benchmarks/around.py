"""What was around a long benchmark: when it ran, and how busy others kept the machine."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from gpumap.machine.state import Watch

if TYPE_CHECKING:
    from gpumap.model import State

_LOOK = 1.0  # seconds of doing nothing, to see what others do


def stamp() -> str:
    """Return the time of day, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def say(text: str) -> None:
    """Tell how far it is, where no result goes."""
    print(text, file=sys.stderr, flush=True)


def state() -> dict[str, Any]:
    """Return how busy others keep the machine; this process does nothing meanwhile."""
    watch = Watch()
    time.sleep(_LOOK)
    found = watch.read()
    return {"load1": found.load1, "busy": found.busy, "steal": found.steal}


def words(state: dict[str, Any] | None) -> str:
    """Return a state in words."""
    if not state:
        return "not known"
    shares = [f"{state[key]:.0%} {key}" for key in ("busy", "steal") if state.get(key) is not None]
    return ", ".join([f"load {state.get('load1')}", *shares])


def meanwhile(state: State) -> str:
    """Return in words how busy the machine was during a measurement, which is part of it."""
    shares = f"{state.busy or 0.0:.0%} busy, {state.steal or 0.0:.0%} stolen"
    return f"machine meanwhile: load {state.load1}, {shares}"
