"""`gpumap run --cfg`: Theano-MPI's session file starts a training, and is never executed."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from mpi_jobs import tmpdir
from ranks import measures, mpirun
from shell import BIN, LIMIT, Answer

PYTHON = (BIN / "gpumap").read_text().partition("\n")[0].removeprefix("#!")
EXAMPLE = """\
# launch_session.cfg
RULE=BSP
MODELFILE=models.modelfile
MODELCLASS=ModelClass
DEVICES=cuda0,cuda1
"""
TWO = "RULE=BSP\nDEVICES=cpu0,cpu1\n"
TRAIN = f"{shlex.quote(PYTHON)} -P -m gpumap bench train"
SHORT = ("--preset", "mlp-small", "--budget", "3s", "--timeout", "40s", "--format", "plain")
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
OWN = Path(__file__).parents[2] / "examples" / "own_network.py"

two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core alone is usable")
with_mpi = pytest.mark.skipif(
    shutil.which("mpirun") is None or importlib.util.find_spec("mpi4py") is None,
    reason="no mpirun or no mpi4py: apt-get install openmpi-bin, and pip install mpi4py",
)


@pytest.fixture
def session(gpumap):
    """Run gpumap with a session file of this text, by words like those of a user."""

    def run(text, *words, **env):
        (gpumap.folder / "s.cfg").write_text(text)
        return gpumap("run", "--cfg", "s.cfg", *words, **env)

    gpumap.env["TMPDIR"] = tmpdir()
    return run


# --- the call


def test_a_dry_run_prints_the_call(session):
    """That of the example of Theano-MPI: one process with all devices of this machine."""
    answer = session(EXAMPLE, "--dry-run", "--", "--budget", "10s")

    asked = "--comm local --rule bsp --network models.modelfile:ModelClass --budget 10s"
    assert answer == Answer(0, f"{TRAIN} --map 'dev0->cuda0;dev1->cuda1' {asked}\n", "")


@pytest.mark.parametrize("choice", ["--preset mlp41m", "--preset=mlp41m", "--sweep width"])
def test_no_network_is_chosen_for_who_has_chosen(session, choice):
    """Behind the dashes; else a note says which one it is."""
    text = "RULE=BSP\nDEVICES=cpu0,cpu1\n"

    assert "bench train's preset is used" in session(text, "--dry-run").err
    assert session(text, "--dry-run", "--", *choice.split()).err == ""


@pytest.mark.parametrize(
    ("line", "local", "mpi", "note"),
    [
        ("BSP_SYNC_TYPE=cdd", "--average gradients", "--average gradients", ""),
        ("BSP_SYNC_TYPE=AVG", "--average parameters", "--average parameters", ""),
        ("BSP_EXCH_STRATEGY=ar", "--algorithm host", "--algorithm native", ""),
        ("BSP_EXCH_STRATEGY=asa32", "--algorithm alltoall", "--algorithm alltoall", ""),
        ("BSP_EXCH_STRATEGY=asa16", "--algorithm alltoall", "--algorithm alltoall", "asa16"),
        ("BSP_EXCH_STRATEGY=copper", "--algorithm tree", "--algorithm tree", ""),
        ("BSP_EXCH_STRATEGY=copper16", "--algorithm tree", "--algorithm tree", "copper16"),
        ("BSP_EXCH_STRATEGY=nccl32", "", "--algorithm native", ""),
        ("BSP_EXCH_STRATEGY=nccl16", "", "--algorithm native", "nccl16"),
    ],
)
def test_how_bsp_exchanges(gpumap, session, line, local, mpi, note):
    """Each of Theano-MPI's ways has its option; where float16 would be sent, that is said."""
    mpirun(gpumap)
    text = EXAMPLE + line
    network = "--network models.modelfile:ModelClass"

    here = session(text, "--dry-run")
    over = session(text, "--dry-run", "--launcher", "mpi")

    comm = "nccl" if "nccl" in line else "local"
    assert here.out.endswith(f"{f'--comm {comm} --rule bsp {network} {local}'.strip()}\n")
    assert over.out.endswith(f" --comm mpi --rule bsp {network} {mpi}\n")
    half = f"note: {note} sends float16 in Theano-MPI; here float32 is sent\n" if note else ""
    assert here.err == half
    said = "is for the devices of one process: MPI's own exchange takes its place"
    assert (said in over.err) == ("nccl" in line)


def test_what_is_asked_of_run_is_asked_of_bench_train(session):
    """The backend, and silence; what stands behind the dashes comes last, so that it counts."""
    text = EXAMPLE.replace("BSP", "EASGD")

    answer = session(text, "--dry-run", "--quiet", "--backend", "cupy", "--", "--rule", "gosgd")

    asked = "--comm local --rule easgd --network models.modelfile:ModelClass"
    end = f"{asked} --backend cupy --quiet --rule gosgd\n"
    assert answer == Answer(0, f"{TRAIN} --map 'dev0->cuda0;dev1->cuda1' {end}", "")


@pytest.mark.parametrize(
    ("said", "options"),
    [("mpirun (Open MPI) 4.1.4", " --bind-to none --oversubscribe"), ("HYDRA build details:", "")],
)
def test_several_hosts(gpumap, session, said, options):
    """A context for each, with the map of its devices, though nobody has asked for mpirun."""
    script = mpirun(gpumap, said)
    text = EXAMPLE.replace("cuda0,cuda1", '("node0:cuda0" "node1:cuda0,cuda1")')

    answer = session(text, "--dry-run")

    asked = "--comm mpi --rule bsp --network models.modelfile:ModelClass"
    one = f"-host node0 -np 1 {TRAIN} --map 'dev0->cuda0' {asked}"
    two = f"-host node1 -np 2 {TRAIN} --map 'dev0->cuda0;dev1->cuda1' {asked}"
    assert answer == Answer(0, f"{script}{options} {one} : {two}\n", "")


@pytest.mark.parametrize("devices", ["cpu0,cpu", "localhost:cpu0,cpu", "{name}:cpu0,cpu"])
def test_this_machine_alone_needs_no_host(gpumap, session, devices):
    """By whatever name; mpirun is then asked for, or not there."""
    script = mpirun(gpumap, "HYDRA")
    text = f"RULE=BSP\nDEVICES={devices.format(name=os.uname().nodename)}\n"

    local = session(text, "--dry-run")
    mpi = session(text, "--dry-run", "--launcher", "mpi")

    assert local.out == f"{TRAIN} --map 'dev0->cpu0;dev1->cpu' --comm local --rule bsp\n"
    call = f"{TRAIN} --map 'dev0->cpu0;dev1->cpu' --comm mpi --rule bsp"
    assert mpi.out == f"{script} -np 2 {call}\n"


# --- what is data


HOSTILE = [
    "$(touch x)",
    "`touch x`",
    "touch x",
    "RULE=$(touch x)",
    "RULE=`touch x`",
    'RULE="$(touch x)"',
    "RULE=BSP;touch x",
    "RULE=BSP\ntouch x",
    "RULE=BSP&& touch x",
    "RULE=BSP & touch x",
    "RULE=BSP | touch x",
    "RULE=BSP touch x",
    "RULE=BSP >x",
    "RULE=BSP\n>x",
    "RULE=<(touch x)",
    "DEVICES=(cpu0 $(touch x))",
    'DEVICES=("cpu0" "`touch x`")',
    "DEVICES=(cpu0);touch x",
    "DEVICES=(cpu0) touch x",
    "DEVICES[$(touch x)]=cpu0",
    "export RULE=${y:=$(touch x)}",
    'eval "touch x"',
    "f() { touch x; }; f",
    "trap 'touch x' EXIT",
]


@pytest.mark.parametrize("launcher", ["local", "mpi"])
@pytest.mark.parametrize("text", HOSTILE)
def test_a_session_file_is_never_executed(gpumap, session, text, launcher):
    """Theano-MPI sourced it: here nothing is touched, and the line is named."""
    answer = session(f"DEVICES=cpu0\n{text}\n", "--launcher", launcher)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: s.cfg, line {2 + text.count(chr(10))}: ")
    assert "a cfg is read as data\n  fix: " in answer.err
    assert [file.name for file in gpumap.folder.iterdir()] == ["s.cfg"]


@pytest.mark.parametrize("launcher", ["local", pytest.param("mpi", marks=with_mpi)])
@pytest.mark.parametrize("value", ["$(touch x)", "`touch x`", "a;touch x", "a&touch x"])
def test_what_is_meant_literally_stays_data(gpumap, session, value, launcher):
    """In single quotes; a process is given it as an argument, and no shell ever sees it."""
    text = f"DEVICES=cpu0,cpu0\nMODELFILE='{value}'\nMODELCLASS='{value}'"

    answer = session(text, "--launcher", launcher, "--", "--budget", "1s", **ROOT)

    assert answer.code == 2, answer
    assert "x" not in [file.name for file in gpumap.folder.iterdir()]
    assert shlex.quote(f"{value}:{value}") in answer.err


# --- what is wrong


def test_a_wrong_device_shows_its_place(session):
    """By the parser of maps."""
    answer = session("DEVICES=cuda0,gpu1")

    assert answer == Answer(
        2,
        "",
        'error in entry 2: s.cfg, DEVICES: "gpu1" is not a device\n'
        "  dev0->cuda0;dev1->gpu1\n"
        "                    ^~~~\n"
        "  fix: gpu0 is the name in Theano's old back-end: write cuda1\n",
    )


def test_a_wrong_strategy_lists_the_choices(session):
    """Exit 2, and nothing is started."""
    answer = session(f"{EXAMPLE}BSP_EXCH_STRATEGY=swap")

    fix = "choose one of ar, nccl32, nccl16, asa32, asa16, copper, copper16"
    error = 's.cfg, line 6: BSP_EXCH_STRATEGY cannot be "swap" here'
    assert answer == Answer(2, "", f"error: {error}\n  fix: {fix}\n")


ONE = "leave one of the two away"
BOTH = "the session file names the devices: DEVICES"


@pytest.mark.parametrize(
    ("words", "problem", "fix"),
    [
        (["a->cpu0"], f"--cfg and MAP: {BOTH}", ONE),
        (["--map", "a->cpu0"], f"--cfg and --map: {BOTH}", ONE),
        (["--map-file", "m"], f"--cfg and --map-file: {BOTH}", ONE),
        (["--no-bind"], "--cfg and --no-bind: bench train places its workers itself",
         "leave it away"),
        (["--output-dir", "d"],
         "--cfg and --output-dir: bench train prints one report for all devices",
         "give it a file behind --: -- --output report.json"),
        (["--timeout", "60s"], "--cfg and --timeout: bench train has a time limit of its own",
         "give it behind --: -- --timeout 60s"),
        (["--grace", "1s"], "--cfg and --grace: bench train ends by itself",
         "leave it away, or add --launcher mpi"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_with_it(session, words, problem, fix):
    """Exit 2: nothing is ignored in silence."""
    assert session(EXAMPLE, *words) == Answer(2, "", f"error: {problem}\n  fix: {fix}\n")


def test_this_machines_launcher_and_other_hosts(session):
    """Exit 2 where it was asked for."""
    problem = "--cfg and --launcher local: the session has devices on other hosts"
    fix = "leave --launcher away: mpirun starts it"

    answer = session("DEVICES=node7:cuda0", "--launcher", "local")

    assert answer == Answer(2, "", f"error: {problem}\n  fix: {fix}\n")


def test_variables_are_for_whom_they_concern(gpumap, session):
    """A time limit of every command's is bench train's own here, and is no contradiction."""
    answer = session(EXAMPLE, "--dry-run", GPUMAP_TIMEOUT="9s", GPUMAP_OUTPUT_DIR="d")

    assert answer.code == 0, answer
    assert not (gpumap.folder / "d").exists()


def test_an_argument_that_mpirun_would_take_for_its_own(gpumap, session):
    """Exit 2: ":" begins another context there."""
    mpirun(gpumap)

    answer = session(TWO, "--launcher", "mpi", "--", ":")

    assert (answer.code, answer.out) == (2, "")
    assert 'error: to mpirun the argument ":" ends a command\n  fix: ' in answer.err


def test_without_mpirun(gpumap, session):
    """127 as in a shell, with the fix."""
    gpumap.env["PATH"] = str(BIN)

    answer = session(TWO, "--launcher", "mpi")

    assert answer.code == 127
    assert "error: mpirun is not found" in answer.err


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("missing", "there is no such file"),
        ("folder", "it is a folder"),
        ("fifo", "it is a FIFO"),
        ("binary", "it is not text (a NUL at byte 0)"),
        ("latin", "it is not UTF-8 (0xe4 at byte 0)"),
        ("large", "it is larger than 65536 bytes"),
        ("empty", "there is no DEVICES"),
    ],
)
def test_a_file_that_is_no_session(gpumap, kind, said):
    """Exit 2 at once, with the fix: no FIFO is waited for, no gigabyte is read."""
    path = gpumap.folder / "f"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_bytes({"binary": b"\0", "latin": b"\xe4"}.get(kind, b""))
    if kind == "large":
        os.truncate(path, 1 << 30)  # of which nothing is on the disk

    answer = gpumap("run", "--cfg", "f")

    assert (answer.code, answer.out) == (2, "")
    place = "f" if kind == "empty" else f"cannot read the session file {path}"
    assert answer.err.startswith(f"error: {place}: {said}\n  fix: ")


# --- real trainings


@two_cores
def test_a_session_trains(session):
    """One process with both devices; its report and its exit code are bench train's."""
    text = "BSP_SYNC_TYPE=avg\nBSP_EXCH_STRATEGY=copper\n" + TWO

    answer = session(text, "--", *SHORT)

    assert answer.code == 0, answer
    assert "bsp of parameters tree  dev0+dev1" in answer.out
    call = f"{TRAIN} --map 'dev0->cpu0;dev1->cpu1' --comm local --rule bsp --average parameters"
    assert f"note: starting {call} --algorithm tree {' '.join(SHORT)}\n" in answer.err


@two_cores
def test_a_session_trains_a_class_of_its_folder(gpumap, session):
    """MODELFILE is a module beside it, as in Theano-MPI; what it is called harms nobody else."""
    shutil.copy(OWN, gpumap.folder / "modelfile.py")
    (gpumap.folder / "click.py").write_text("raise SystemExit('not me')")
    text = f"{TWO}MODELFILE=modelfile\nMODELCLASS=Logistic\nBSP_EXCH_STRATEGY=ar"

    answer = session(text, "--quiet", "--", *SHORT[2:])

    assert (answer.code, answer.err) == (0, ""), answer
    assert "modelfile:Logistic" in answer.out
    assert "host" in answer.out


@with_mpi
@two_cores
def test_a_session_trains_over_mpi(session):
    """A process for each device; rank 0's report comes out as it is."""
    answer = session(f"{TWO}BSP_EXCH_STRATEGY=ar", "--launcher", "mpi", "--", *SHORT, **ROOT)

    assert answer.code == 0, answer
    assert "256 examples for each device, mpi" in answer.out
    assert "  bsp native  dev0+dev1  " in answer.out


def said(*words):
    """Return what a program says."""
    return subprocess.run(words, capture_output=True, check=False, text=True).stdout


@with_mpi
def test_a_session_trains_on_two_hosts(gpumap, session):
    """The other one is this machine by another name, in a UTS namespace of its own."""
    if "Open MPI" not in said("mpirun", "--version"):
        pytest.skip("this mpirun is not Open MPI, which can be told what to call in place of ssh")
    if shutil.which("unshare") is None or said("unshare", "--uts", "echo", "made") != "made\n":
        pytest.skip("no namespace can be made here: unshare --uts")
    agent = (
        gpumap.folder / "agent"
    )  # what is called in the place of ssh: agent [options] HOST WORDS
    agent.write_text(
        "#!/bin/bash\n"
        'while [[ "$1" == -* ]]; do shift; done\n'
        'host=$1; shift; exec unshare --uts bash -c "hostname $host; $*"\n'
    )
    agent.chmod(0o755)
    env = {**ROOT, "OMPI_MCA_plm_rsh_agent": str(agent)}

    answer = session('RULE=BSP\nDEVICES=("cpu0" "other:cpu0")', "--", *SHORT, **env)

    assert answer.code == 0, answer
    assert "Mapped name node1/dev0 to device cpu0" in answer.out
    assert "  node0/dev0+node1/dev0  " in answer.out
    assert f"note: node0 is {os.uname().nodename}, node1 is other\n" in answer.err


@pytest.mark.parametrize("launcher", ["local", pytest.param("mpi", marks=with_mpi)])
def test_the_exit_code_is_that_of_the_training(session, launcher):
    """What bench train refuses is refused."""
    text = "RULE=BSP\nDEVICES=cpu0,cpu"

    answer = session(text, "--launcher", launcher, "--", "--preset", "none", **ROOT)

    assert (answer.code, answer.out) == (2, "")
    assert 'no preset is called "none"' in answer.err


def test_the_process_becomes_the_training(gpumap):
    """So that a signal, the terminal and the exit code are its own."""
    (gpumap.folder / "s.cfg").write_text("RULE=BSP\nDEVICES=cpu0\n")
    process = subprocess.Popen(
        [gpumap.command, "run", "--cfg", "s.cfg", "--quiet", "--", "--budget", "60s"],
        cwd=gpumap.folder,
        env=gpumap.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    end = time.monotonic() + LIMIT
    while not measures(process.pid):
        assert time.monotonic() < end, "it never measured"
        time.sleep(0.02)
    assert b"\0bench\0train\0" in Path(f"/proc/{process.pid}/cmdline").read_bytes()

    process.send_signal(signal.SIGINT)

    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert b"interrupted" in out
