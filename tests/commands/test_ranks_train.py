"""`gpumap bench train` between processes: which rank is named where a training fails."""

import re

from flat_report import loads
from mpi_jobs import ended
from ranks import by_mpirun, needs_mpi
from scripts import asked
from tables import table

TRAIN = ("bench", "train", "--map", "a->cpu0;b->cpu1")
pytestmark = needs_mpi
OWN = table(__file__)["own"]
ENDS = ("--budget", "12s", "--precision", "50%")  # on a quiet machine, and on a busy one


def test_an_error_of_the_users_code_on_one_rank_ends_all_and_is_named(gpumap):
    (gpumap.folder / "mine.py").write_text(OWN)
    given = ("--network", "mine:Missing", "--batch", "60", "--cases", "step", *ENDS)
    code, _, err = ended(by_mpirun(gpumap, 2, *TRAIN, *given))
    assert code == 2
    said = r"error: \S+/b \(rank 1, process \d+\): mine:Missing batch failed: OSError: no such file"
    assert re.search(said, err), err
    assert "died" not in err
    assert "Traceback" not in err


def test_a_rank_that_comes_to_no_number_is_named(gpumap):
    """Its steps fail, its gradients are measured; exit 4."""
    given = ("--rate", "1e30", "--optimizer", "sgd", *ENDS, "--output", "json=r.json")
    code, _, err = ended(by_mpirun(gpumap, 2, *TRAIN, *given))
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
