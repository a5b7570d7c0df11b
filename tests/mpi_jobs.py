"""Jobs of several processes, started as a user's launcher would start them."""

import functools
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
