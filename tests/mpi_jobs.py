"""Jobs of several processes, started as a user's launcher would start them."""

from __future__ import annotations

import subprocess

MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n")


def started(gpumap, command, **env):
    """Start a command in a folder of gpumap's; its streams are pipes."""
    # Open MPI looks for its own helpers, and keeps its sockets in a path that must be short
    every = {**gpumap.env, "TMPDIR": "/tmp", **env}  # noqa: S108 - of mpirun's choosing
    return subprocess.Popen(
        command, cwd=gpumap.folder, env=every, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def ended(process, limit=100):
    """Return the exit code and both streams; `limit` is in seconds."""
    out, err = process.communicate(timeout=limit)
    return process.returncode, out, err
