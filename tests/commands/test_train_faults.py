"""`gpumap bench train` asked for what cannot be, and with networks that misbehave."""

import json

import pytest
from test_bench_train import OWN

ONE = "a->cpu0"
QUICK = ("--budget", "1s", "--batch-per-device", "8")
NETWORK = f"""{OWN}
import time

class Loud(Line):
    def gradients(self, x, y, share):
        print("here I am")
        return super().gradients(x, y, share)

class Slow(Line):
    def __init__(self):
        time.sleep(1000)
"""


def train(gpumap, *arguments, **env):
    return gpumap("bench", "train", "--map", ONE, "--comm", "local", *QUICK, *arguments, **env)


@pytest.fixture
def own(gpumap):
    (gpumap.folder / "nets.py").write_text(NETWORK)
    return gpumap


def test_a_network_that_does_not_load_ends_with_the_time_limit(own):
    """It is loaded before there is a report, and the limit holds there too."""
    answer = train(own, "--network", "nets:Slow", "--timeout", "2s")
    assert (answer.code, answer.out) == (124, "")
    assert "the time limit of 2 s was reached: nets:Slow is being loaded\n  fix: " in answer.err


def test_what_a_network_prints_is_no_part_of_the_report(own):
    """It goes to stderr, so that what reads stdout finds the report alone."""
    answer = train(own, "--network", "nets:Loud", "--format", "json")
    assert (answer.code, json.loads(answer.out)["status"]) == (0, "ok")
    assert "here I am" in answer.err
