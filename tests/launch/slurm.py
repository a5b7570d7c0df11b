"""A Slurm of one node, this one: daemons of its own, on free ports, in a folder of its own.

slurmd takes root. Every daemon stays in the foreground, as a child that is ended by its process id.
"""

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress

import pytest
from mpi_jobs import run

LIMIT = 60.0  # seconds in which a daemon answers
_FOLDERS = "/usr/sbin", "/usr/bin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")
CONF = """
ClusterName=gpumap
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={first}
SlurmdPort={second}
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
KillWait=1
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=p Nodes={host} Default=YES OverSubscribe=FORCE:4 State=UP
"""


def program(name):
    return shutil.which(name, path=os.pathsep.join((os.environ["PATH"], *_FOLDERS)))


def _free():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(true, log):
    """Wait until something is true; else fail with a daemon's log."""
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end, log.read_text() if log.exists() else log
        time.sleep(0.05)


@contextmanager
def node(folder, more=""):
    """Start the daemons, with `more` lines of configuration; give the variables for srun.

    Where there can be no Slurm, the test is skipped.
    """
    if os.getuid():
        pytest.skip("slurmd takes root")
    for name in PROGRAMS:
        if program(name) is None:
            pytest.skip(f"no {name}: apt-get install slurm-wlm munge")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)  # munged refuses a socket that clients cannot reach
    host, conf = socket.gethostname().partition(".")[0], folder / "slurm.conf"
    ports = {"first": _free(), "second": _free()}
    conf.write_text(CONF.format(host=host, folder=folder, cpus=os.cpu_count(), **ports) + more)
    key, sock = folder / "munge.key", folder / "munge.socket"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    env = {"SLURM_CONF": str(conf)}
    calls = (
        ("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={sock}",
         f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log",
         f"--seed-file={folder}/seed"),
        ("slurmctld", "-D", "-i", "-f", str(conf)),
        ("slurmd", "-D", "-f", str(conf)),
    )  # fmt: skip
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    daemons = []
    try:
        for name, *words in calls:
            call = [program(name), *words]
            daemons.append(subprocess.Popen(call, env=os.environ | env, **streams))
            if name == "munged":
                until(sock.exists, folder / "munged.log")
        until(lambda: state(env) == "idle", folder / "slurmctld.log")
        yield env
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(LIMIT / 6)
            daemon.kill()
            daemon.wait()


def state(env):
    return run([program("sinfo"), "--noheader", "--format=%T"], **env).stdout.strip()
