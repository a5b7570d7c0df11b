"""`gpumap bench train` with networks of the user's own."""

from flat_report import loads
from tables import table


def train(gpumap, network, *arguments):
    """Train a network of a file beside it on a core."""
    (gpumap.folder / "mine.py").write_text(table(__file__)["own"])
    given = ("--map", "a->cpu0", "--format", "json", "--comm", "local", *arguments)
    return gpumap("bench", "train", "--network", f"mine:{network}", *given)


def test_a_network_that_does_not_load_ends_with_the_time_limit(gpumap):
    answer = train(gpumap, "Slow", "--budget", "0.2s", "--timeout", "2s")
    assert answer.code == 124
    assert "the time limit of 2 s was reached" in answer.err


def test_what_a_network_prints_is_no_part_of_the_report(gpumap):
    """It goes to stderr, so that what reads stdout finds the report alone."""
    answer = train(gpumap, "Loud", "--budget", "1s", "--batch-per-device", "8")
    assert (answer.code, loads(answer.out)["kind"]) == (0, "bench")
    assert "here I am" in answer.err
