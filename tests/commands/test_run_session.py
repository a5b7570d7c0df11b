"""`gpumap run --cfg`: Theano-MPI's session file starts a training, and is never executed."""

import shlex
import shutil
import signal
from pathlib import Path

import pytest
from mpi_jobs import tmpdir
from ranks import measures, two_cores
from shell import BIN, ended, until
from tables import table

TABLE = table(__file__)
PYTHON = (BIN / "gpumap").read_text().partition("\n")[0].removeprefix("#!")
EXAMPLE = TABLE["example"]
MODEL = "--network models.modelfile:ModelClass"
TRAIN = f"{shlex.quote(PYTHON)} -P -m gpumap bench train"
# it ends where nothing disturbs, and has time where something does
ENDS = ("--budget", "12s", "--precision", "50%")
OWN = Path(__file__).parents[2] / "examples" / "own_network.py"


@pytest.fixture
def session(gpumap):
    """Run gpumap with a session file of this text, by words like those of a user."""

    def run(text, *words, **env):
        (gpumap.folder / "s.cfg").write_text(text)
        return gpumap("run", "--cfg", "s.cfg", *words, **env)

    gpumap.env["TMPDIR"] = tmpdir()
    return run


@pytest.mark.parametrize(("line", "call", "noted"), TABLE["how_bsp_exchanges"])
def test_how_bsp_exchanges(session, line, call, noted):
    """Each of Theano-MPI's ways has its option; what is not as there is said."""
    answer = session(EXAMPLE + line, "--dry-run")
    comm = "nccl" if "nccl" in line else "local"
    assert answer.out.endswith(f"{f'--comm {comm} --rule bsp {MODEL} {call}'.strip()}\n")
    assert (answer.err != "") == noted


@pytest.mark.parametrize(("text", "words", "call"), TABLE["calls"], ids=range(2))
def test_the_call_that_a_dry_run_prints(session, text, words, call):
    answer = session(text, "--dry-run", "--quiet", *words)
    assert (answer.code, answer.err) == (0, "")
    assert " --quiet" in answer.out  # that is asked of bench train, too
    assert answer.out.replace(" --quiet", "") == f"{TRAIN} {call}\n"


@pytest.mark.parametrize("value", ["$(touch x)", "a;touch x"])
def test_what_is_meant_literally_stays_data(gpumap, session, value):
    """In single quotes; a process is given it as an argument, and no shell ever sees it."""
    text = f"DEVICES=cpu0,cpu0\nMODELFILE='{value}'\nMODELCLASS='{value}'"
    answer = session(text, "--", *ENDS)
    assert answer.code == 2, answer
    assert "x" not in [file.name for file in gpumap.folder.iterdir()]
    assert shlex.quote(f"{value}:{value}") in answer.err


def test_variables_are_for_whom_they_concern(gpumap, session):
    """A time limit of every command's is bench train's own here, and is no contradiction."""
    answer = session(EXAMPLE, "--dry-run", GPUMAP_TIMEOUT="9s", GPUMAP_OUTPUT_DIR="d")
    assert answer.code == 0, answer
    assert not (gpumap.folder / "d").exists()


@two_cores
def test_a_session_trains_a_class_of_its_folder(gpumap, session):
    """MODELFILE is a module beside it, as in Theano-MPI; its name disturbs no other module."""
    shutil.copy(OWN, gpumap.folder / "modelfile.py")
    (gpumap.folder / "click.py").write_text("raise SystemExit('not me')")
    text = "RULE=BSP\nDEVICES=cpu0,cpu1\nMODELFILE=modelfile\nMODELCLASS=Logistic\n"
    given = ("--quiet", "--", *ENDS, "--timeout", "60s", "--format", "plain")
    answer = session(f"{text}BSP_EXCH_STRATEGY=ar", *given)
    assert (answer.code, answer.err) == (0, ""), answer
    assert "modelfile:Logistic" in answer.out
    assert "host" in answer.out


def test_the_process_becomes_the_training(gpumap):
    """So that a signal, the terminal and the exit code are its own."""
    (gpumap.folder / "s.cfg").write_text("RULE=BSP\nDEVICES=cpu0\n")
    given = ("run", "--cfg", "s.cfg", "--quiet", "--", "--budget", "60s")
    process = gpumap.start([gpumap.command, *given])
    until(lambda: measures(process.pid), process)
    assert b"\0bench\0train\0" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    process.send_signal(signal.SIGINT)
    answer = ended(process)
    assert (answer.code, "interrupted" in answer.out) == (130, True)
