"""`gpumap bench train`: its table, exact on scripted devices, what it learns, and its refusals."""

import re

import pytest
from flat_report import loads
from scripts import asked, script
from tables import table

TEXTS = table(__file__)
TWO = "a->cuda0;b->cuda1"
CORES = "a->cpu0;b->cpu1"
FAST = {"rate": 2**34, "bandwidth": 2**34}
OWN = TEXTS["own"]


def train(gpumap, *arguments, map_=TWO, form="json", budget="0.2s", **env):
    given = ("--map", map_, "--format", form, "--budget", budget, "--comm", "local")
    return gpumap("bench", "train", *given, *arguments, **env)


def steps(found, figure=None):
    """Return the rows of steps by their rule, that of one device as alone; or a figure."""
    rows = {
        "alone" if len(row["names"]) == 1 else row["params"]["rule"]: row
        for row in asked(found)
        if row["case"] == "step"
    }
    return {n: row["metrics"][figure]["value"] for n, row in rows.items()} if figure else rows


def own(gpumap):
    (gpumap.folder / "mine.py").write_text(OWN)
    return gpumap


def test_two_devices_learn_what_one_learns_of_the_whole_batch(gpumap):
    """A network of one's own, from a file: after any number of steps the same loss."""
    given = ("--network", "mine:Line", "--batch", "60", "--cases", "step", "--learn", "3000")
    answer = train(own(gpumap), *given, map_=CORES)
    assert answer.code == 0, answer.err
    found = loads(answer.out)
    assert all(row["check"]["passed"] for row in asked(found))
    loss = steps(found, "loss")
    assert loss["bsp"] == pytest.approx(loss["alone"], rel=1e-4)
    assert loss["bsp"] < 0.02  # it did learn


QUESTIONS = TEXTS["questions"]


@pytest.mark.parametrize(
    ("arguments", "said"), QUESTIONS, ids=[" ".join(words) for words, _ in QUESTIONS]
)
def test_a_wrong_question_is_refused(gpumap, arguments, said):
    """With what is wrong and exit 2; no traceback."""
    own(gpumap).fake(script(memory=1 << 24, **FAST))
    answer = train(gpumap, *arguments, form="plain")
    assert answer.code == 2
    assert re.search(rf"^(error|Error): .*{re.escape(said)}", answer.err, re.MULTILINE), answer.err
    assert "Traceback" not in answer.err + answer.out


def test_a_network_that_does_not_load_ends_with_the_time_limit(gpumap):
    answer = train(own(gpumap), "--network", "mine:Slow", "--timeout", "2s", map_="a->cpu0")
    assert answer.code == 124
    assert "the time limit of 2 s was reached" in answer.err


def test_what_a_network_prints_is_no_part_of_the_report(gpumap):
    """It goes to stderr, so that what reads stdout finds the report alone."""
    words = ("--network", "mine:Loud", "--batch-per-device", "8")
    answer = train(own(gpumap), *words, map_="a->cpu0", budget="1s")
    assert (answer.code, loads(answer.out)["kind"]) == (0, "bench")
    assert "here I am" in answer.err
