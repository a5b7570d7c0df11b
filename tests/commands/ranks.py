"""The processes that an mpirun has started, as tests look at them from outside."""

from __future__ import annotations

from contextlib import suppress

import psutil


def members(parent):
    """Return the processes of mpirun, by their rank."""
    found = {}
    for child in psutil.Process(parent).children():
        with suppress(psutil.Error):
            found[int(child.environ()["OMPI_COMM_WORLD_RANK"])] = child.pid
    return found


def measures(pid):
    """Return whether a rank has taken more time than it takes to start: it spins as it waits."""
    return psutil.Process(pid).cpu_times().user > 2.0
