"""What tests need of mpirun: its processes, seen from outside, and one that starts nothing."""

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


def mpirun(gpumap, said="mpirun (Open MPI) 4.1.4"):
    """Put an mpirun into PATH that says so, and starts nothing."""
    folder = gpumap.folder / "bin"
    folder.mkdir()
    script = folder / "mpirun"
    script.write_text(f"#!/bin/sh\necho '{said}'\n")
    script.chmod(0o755)
    gpumap.env["PATH"] = f"{folder}:{gpumap.env['PATH']}"
    return script
