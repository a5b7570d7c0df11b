"""Ranks that are processes: every algorithm gives over MPI what MPI's own calls give."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from commands.ranks import ROOT, needs_mpi
from mpi_jobs import run, said
from tables import table
from test_comm_threads import assert_said_by_threads

from gpumap.training.model_class import Recorder

TABLE = table(__file__)
RANKS = Path(__file__).with_name("engine_ranks.py")
LOOP = (sys.executable, str(RANKS.with_name("loop_ranks.py")))
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_rank_has_what_mpis_own_calls_give(ranks):
    """Two have the bits of two threads, by every rule whose order is known."""
    program = (sys.executable, "-m", "mpi4py", str(RANKS), "mpi")
    assert_said_by_threads(said([*MPIRUN, "-n", str(ranks), *program]), ranks)


def of_users(ranks, *arguments, launcher=MPIRUN):
    program = (*LOOP, *arguments)
    return said([*launcher, "-n", str(ranks), *program] if launcher else program)


@needs_mpi
def test_a_loop_of_ones_own_has_the_parameters_of_one_worker(tmp_path):
    """On parts of a batch, 30 examples over 4 ranks, as one worker on all, but for rounding."""
    lines = of_users(4, str(tmp_path / "parameters.npz"))
    assert [line.partition(":")[0] for line in lines] == [f"rank {n} of 4" for n in range(4)]
    assert all(float(line.split()[-1]) < 1e-5 for line in lines)


def test_a_loop_of_ones_own_is_plain_on_one_rank(tmp_path):
    """Without a launcher and without mpi4py, bit for bit."""
    (line,) = of_users(1, str(tmp_path / "parameters.npz"), launcher=())
    assert line == "rank 0 of 1: off by 0.0e+00"


@needs_mpi
def test_what_is_wrong_with_one_ranks_arrays_is_raised_on_all():
    """Calls must match. A rank of no examples is none of the mean; large weights have one."""
    messages = TABLE["wrong"]
    told = {(rank, kind): text for kind, text in messages.items() for rank in range(3)}
    # the rank that has it does not name itself
    for rank, *kinds in ((2, "none", "nothing", "weight"), (0, "file")):
        told |= {(rank, k): messages[k].replace(f"rank {rank}: ", "") for k in kinds}
    mine = "QuestionError: rank 0 calls gpumap.average, and this rank calls gpumap.broadcast"
    told[2, "call"] = mine
    lines = of_users(3, "none", *messages)
    assert lines == sorted(f"{rank} {kind} {text}" for (rank, kind), text in told.items())


@needs_mpi
def test_a_rank_that_ends_with_an_exception_ends_the_others():
    """They wait for it in a call of MPI: without that the job hangs."""
    done = run([*MPIRUN, "-n", "2", *LOOP, "none", "raise"])
    assert done.returncode != 0
    assert "RuntimeError: as users' code does" in done.stderr


EXAMPLES = Path(__file__).parents[2] / "examples"


def session(rule, file):
    done = run([sys.executable, "-c", TABLE["rule"].format(rule, str(file))], EXAMPLES, **ROOT)
    assert done.returncode == 0, done.stderr
    with np.load(file) as saved:
        return json.loads(done.stdout.partition("wait ")[2]), [saved["arr_0"], saved["arr_1"]]


@needs_mpi
def test_a_model_class_on_two_devices_is_one_on_both_their_batches(tmp_path, monkeypatch):
    """By BSP, with momentum: the parameters of one worker whose batches are twice as large."""
    epochs, found = session("BSP()", tmp_path / "p.npz")
    monkeypatch.syspath_prepend(EXAMPLES)
    alone = importlib.import_module("model_class").ModelClass()
    data = alone.data
    data.x, data.y = data.x.reshape(40, 32, 8), data.y.reshape(40, 32)
    data.n_batch_train, data.n_batch_val = 32, 8
    recorder = Recorder()
    for epoch in range(alone.n_epochs):
        for batch in range(32):
            alone.train_iter(batch, recorder)
        alone.adjust_hyperp(epoch)
    recorder = Recorder()
    for batch in range(8):
        alone.val_iter(batch, recorder)
    for one, other in zip(found, alone.params, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert [epoch["epoch"] for epoch in epochs] == [0, 1, 2, 3]
    assert epochs[-1]["val_loss"] == pytest.approx(np.mean(recorder.val, axis=0)[0], rel=1e-5)


@needs_mpi
@pytest.mark.parametrize("rule", ["EASGD(tau=2)", "GOSGD(chance=0.2)"])
def test_a_model_class_learns_at_its_own_pace(tmp_path, rule):
    """A loss of 0.69 is that of knowing nothing; what a late rank knows less draws others back."""
    epochs, _ = session(rule, tmp_path / "p.npz")
    assert [epoch["val_loss"] < 0.65 for epoch in epochs] == [True] * 4
