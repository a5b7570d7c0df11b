"""A process that has loaded gpumap, and becomes a run of it, by a fork, as often as it is asked.

To start Python and load gpumap and NumPy is much of what a command on scripted devices costs, and
thousands of such commands run in the tests. Whatever depends on how a process starts (variables
that Python or a library reads, a script of the user's) starts one of its own.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pkgutil import walk_packages
from threading import Timer

LIBRARIES = ("numpy", "threadpoolctl", "matplotlib.figure", "matplotlib.backends.backend_svg")
# What may differ: nothing else has read it.
DRIVERS = (
    *(f"gpumap.backends.{name}" for name in ("cupy.", "jax.", "torch.", "pyopencl", "pygpu")),
    "gpumap.training.transformer",
)
READ_BY_GPUMAP = ("GPUMAP_", "HOME", "TMPDIR", "COLUMNS", "THEANO")
# They look at the process itself.
OWN_PROCESS = ("trace", "watch", "run", "exec", "scale", "doctor", "preflight")
LARGEST = 100_000  # bytes of a message


@dataclass
class Ready:
    """The process, and the environment that it was started with."""

    process: subprocess.Popen
    door: socket.socket
    env: dict[str, str]

    @classmethod
    def start(cls, env):
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(there.fileno())],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # what Python makes of its streams, it makes of pipes
                stderr=subprocess.PIPE,
                pass_fds=[there.fileno()],
            )
        return cls(process, here, dict(env))

    def fits(self, arguments, env) -> bool:
        """Return whether such a run is the same however its process has started."""
        if env.get("GPUMAP_BACKEND") != "fake" or (arguments and arguments[0] in OWN_PROCESS):
            return False
        return fixed(env) == fixed(self.env)

    def run(self, command, folder, env, limit) -> tuple[int, bytes, bytes]:
        """Run a command; return its exit code, as `subprocess` has it, and what it wrote.

        After `limit` seconds it is killed.
        """
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        job = json.dumps([command, str(folder), env]).encode()
        socket.send_fds(self.door, [job], [out_end, err_end])
        os.close(out_end)
        os.close(err_end)
        late = Timer(limit, os.kill, (int(self.door.recv(LARGEST)), signal.SIGKILL))
        late.start()
        with ThreadPoolExecutor() as pool:
            written = pool.map(read, (out, err))
        late.cancel()
        return int(self.door.recv(LARGEST)), *written

    def close(self):
        self.door.close()
        self.process.communicate(timeout=60)


def read(end) -> bytes:
    with os.fdopen(end, "rb") as stream:
        return stream.read()


def fixed(env):
    """Return what Python and the libraries may have read when the process started."""
    return {key: value for key, value in env.items() if not key.startswith(READ_BY_GPUMAP)}


def main(door):
    """Load all that scripted devices need, and become each run that is asked for."""
    import gpumap

    for module in walk_packages(gpumap.__path__, "gpumap."):
        if not module.name.startswith(DRIVERS):
            import_module(module.name)
    for library in LIBRARIES:
        with suppress(ImportError):  # what is not installed is not missed before a run wants it
            import_module(library)
    while serve(door):
        pass


def serve(door) -> bool:
    """Let a child become the next run, and tell how it ended; return whether there is another."""
    job, ends, _, _ = socket.recv_fds(door, LARGEST, 2)
    if not job:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy has threads, and lets go of them before a fork
        child = os.fork()
    if child == 0:
        become(door, *json.loads(job), *ends)
    for end in ends:
        os.close(end)
    door.send(str(child).encode())
    _, status = os.waitpid(child, 0)
    door.send(str(os.waitstatus_to_exitcode(status)).encode())
    return True


def become(door, command, folder, env, *ends):
    """Be the program that `command` starts, with these ends as stdout and stderr."""
    door.close()
    for number, end in enumerate(ends, 1):
        os.dup2(end, number)
        os.close(end)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = command
    from gpumap.__main__ import main as program

    sys.exit(program())


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as own:
        main(own)
