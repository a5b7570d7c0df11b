"""Jobs of several processes, started as a user's launcher would start them."""

import functools
import os
import subprocess
import sys
import tempfile

TORCHRUN = (
    *(sys.executable, "-m", "torch.distributed.run"),
    *("--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node"),
)
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n")


@functools.cache
def _folders():
    """Return where the folders of this process's jobs are, until it ends."""
    return tempfile.TemporaryDirectory(prefix="mpi-", dir="/tmp")


def tmpdir():
    """Return a job's own TMPDIR.

    Its path must be short: Open MPI keeps sockets there. Jobs that share one make and remove the
    same folder in it, and 4.1 ends with "mkdir: File exists" when they do so at once.
    """
    return tempfile.mkdtemp(dir=_folders().name)


def started(gpumap, command, **env):
    return gpumap.start(command, {"TMPDIR": tmpdir(), **env}, text=True)


def ended(process, limit=100):
    """Return the exit code and both streams; what takes longer than `limit` seconds is killed."""
    try:
        out, err = process.communicate(timeout=limit)
    finally:
        process.kill()
    return process.returncode, out, err


def run(command, cwd=None, limit=100, **env):
    """Run a program, of ranks or of its own; what takes longer than `limit` seconds is killed."""
    env = os.environ | {"TMPDIR": tmpdir()} | env
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=limit
    )


def said(command, **env):
    """Return the lines that the ranks of a program have written, in order; all end well."""
    done = run(command, **env)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())
