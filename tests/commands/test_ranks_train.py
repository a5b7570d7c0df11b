"""`gpumap bench train` between processes: real ranks, what they learn, and what becomes of them."""

import re

import numpy as np
import pytest
from flat_report import loads
from mpi_jobs import ended
from ranks import by_mpirun, needs_mpi
from scripts import asked
from tables import table

CORES = "a->cpu0;b->cpu1"
pytestmark = needs_mpi
OWN = table(__file__, "test_bench_train")["own"]
ENDS = ("--budget", "12s", "--precision", "50%")  # on a quiet machine, and on a busy one
THREE = ("--network", "mine:Line", "--batch", "60", "--tau", "4")


def ranks(gpumap, *arguments):
    return by_mpirun(gpumap, 2, "bench", "train", "--map", CORES, *arguments)


def losses(found):
    return {
        (row["params"]["rule"], len(row["names"])): row["metrics"]["loss"]["value"]
        for row in asked(found)
        if row["case"] == "step"
    }


def test_processes_learn_what_devices_of_one_process_learn(gpumap):
    """The same losses, up to the order of sums, and every row is verified."""
    (gpumap.folder / "mine.py").write_text(OWN)
    given = (*THREE, "--average", "parameters", "--learn", "3000")
    given += (*ENDS, "--format", "json")
    code, out, err = ended(ranks(gpumap, *given))
    assert code == 0, err
    there = loads(out)
    local = gpumap("bench", "train", "--comm", "local", "--map", CORES, *given)
    assert local.code == 0, local.err
    here = loads(local.out)
    assert losses(there) == pytest.approx(losses(here), rel=1e-3)
    assert set(losses(there)) == {("bsp", 1), ("bsp", 2)}
    assert all(loss < np.log(2) for loss in losses(there).values())
    for found, comm, algorithm in ((there, "mpi", "native"), (here, "local", "ring")):
        rows = asked(found)
        assert {row["status"] for row in rows} == {"ok"}
        assert all(row["check"]["passed"] for row in rows)
        assert {row["params"]["comm"] for row in rows} == {comm}
        assert {row["params"].get("algorithm", algorithm) for row in rows} == {algorithm}


def test_an_error_of_the_users_code_on_one_rank_ends_all_and_is_named(gpumap):
    (gpumap.folder / "mine.py").write_text(OWN)
    given = ("--network", "mine:Missing", "--batch", "60", "--cases", "step", *ENDS)
    code, _, err = ended(ranks(gpumap, *given))
    assert code == 2
    said = r"error: \S+/b \(rank 1, process \d+\): mine:Missing batch failed: OSError: no such file"
    assert re.search(said, err), err
    assert "died" not in err
    assert "Traceback" not in err


def test_a_rank_that_comes_to_no_number_is_named(gpumap):
    """Its steps fail, its gradients are measured; exit 4."""
    given = ("--rate", "1e30", "--optimizer", "sgd", *ENDS, "--output", "json=r.json")
    code, _, err = ended(ranks(gpumap, *given))
    assert code == 4
    assert "Traceback" not in err
    rows = asked(loads((gpumap.folder / "r.json").read_text()))
    status = {(row["case"], len(row["names"])): row["status"] for row in rows}
    assert status == {
        ("compute", 1): "ok", ("step", 1): "failed", ("compute", 2): "ok", ("step", 2): "failed"
    }  # fmt: skip
    for row in rows:
        if row["status"] == "failed":
            assert row["reason"]["code"] == "diverged"
            named = r"/a \(rank 0, process \d+\): cpu0: what it trains is no longer a number"
            assert re.search(named, row["reason"]["text"])
