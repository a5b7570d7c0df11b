"""`gpumap bench train` with networks of the user's own."""

from flat_report import loads
from tables import table

TEXTS = table(__file__)
TWO = "a->cuda0;b->cuda1"
OWN = TEXTS["own"]


def train(gpumap, *arguments, map_=TWO, form="json", budget="0.2s", **env):
    given = ("--map", map_, "--format", form, "--budget", budget, "--comm", "local")
    return gpumap("bench", "train", *given, *arguments, **env)


def own(gpumap):
    (gpumap.folder / "mine.py").write_text(OWN)
    return gpumap


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
