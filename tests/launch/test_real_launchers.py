"""`gpumap exec` under launchers themselves, and `gpumap preflight` as the prolog of a Slurm."""

import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest
from commands.ranks import ALLOWED, ROOT, two_cores
from mpi_jobs import MPIRUN, ended, run, started
from shell import until
from tables import table

TABLE = table(__file__)
PYTHON = sys.executable
WHERE = "import os; print(os.environ['GPUMAP_NAME'], *os.sched_getaffinity(0))"
NODE = os.uname().nodename
CALLS = {
    "Open MPI": (*MPIRUN, "2"),
    "MPICH": ("mpiexec.mpich", "-n", "2"),
    "Slurm": ("srun", "--kill-on-bad-exit", "-n", "2"),
    "torchrun": ("torchrun", "--nproc-per-node", "2", "--no-python"),
}
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")
_FOLDERS = "/usr/sbin", "/usr/bin"
pytestmark = two_cores


def program(name):
    return shutil.which(name, path=os.pathsep.join((os.environ["PATH"], *_FOLDERS)))


def _free():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def node(folder, more=""):
    """Start a Slurm of this node, with `more` lines of configuration; give the variables for srun.

    It is on free ports, in a folder of its own. slurmd takes root; where there can be no Slurm,
    the test is skipped. Each daemon is a child in the foreground, that is ended by its process id.
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
    found = {"host": host, "folder": folder, "cpus": os.cpu_count(), **ports}
    conf.write_text(TABLE["conf"].format(**found) + more)
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
                until(sock.exists)
        until(lambda: state(env) == "idle")
        yield env
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(10.0)
            daemon.kill()
            daemon.wait()


def state(env):
    return run([program("sinfo"), "--noheader", "--format=%T"], **env).stdout.strip()


@pytest.fixture(scope="module")
def slurm_node(tmp_path_factory):
    with node(tmp_path_factory.mktemp("slurm")) as env:
        yield env


@pytest.mark.parametrize("by", CALLS)
def test_each_rank_has_the_cores_of_its_entry(request, gpumap, tmp_path, by):
    """Whatever its launcher itself has bound it to: where it runs is read from the kernel."""
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "PYTHONWARNINGS": "", **ROOT}
    call = CALLS[by]
    if by == "Slurm":
        env |= request.getfixturevalue("slurm_node")
    if shutil.which(call[0], path=gpumap.env["PATH"]) is None:
        pytest.skip(f"no {call[0]} (make system installs it, and pip that of torch)")
    words = ("a->cpu1;b->cpu0", "--verify", "--", PYTHON, "-c", WHERE)
    answer = gpumap.run([*call, gpumap.command, "exec", *words], **env)
    assert answer.code == 0, answer.err
    assert sorted(answer.out.split("\n"))[1:] == [f"a {ALLOWED[1]}", f"b {ALLOWED[0]}"]
    for name, number, core in (("a", 0, 1), ("b", 1, 0)):
        rank = f"verified: {name} is local rank {number} of 2 on {NODE} ({by})"
        assert f"{rank}, cpu{core}, cores {ALLOWED[core]}\n" in answer.err


def test_a_job_runs_where_the_prolog_passes_and_a_node_that_fails_it_is_drained(gpumap):
    """The same prolog, the same node: first one device is expected, then two."""
    folder, path = gpumap.folder, os.environ["PATH"]
    wanted, prolog = folder / "wanted", folder / "prolog.sh"
    wanted.write_text("1")
    text = TABLE["prolog"].format(folder=folder, command=gpumap.command, wanted=wanted, path=path)
    prolog.write_text(text)
    prolog.chmod(0o755)
    more = f"Prolog={prolog}\nPrologFlags=Alloc\n"
    with node(folder, more) as env:
        srun = [program("srun"), "-n", "1", "echo", "it ran"]
        done = run(srun, **env)
        assert (done.returncode, done.stdout) == (0, "it ran\n"), done.stderr
        wanted.write_text("2")
        job = started(gpumap, srun, **env)
        try:
            until(lambda: state(env).startswith("drain"))
        finally:
            job.terminate()
            _, out, _ = ended(job)
    assert out == ""
    assert "1 of 2 Fake found" in (folder / "prolog.log").read_text()
