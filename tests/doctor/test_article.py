"""The three examples of "Why is Theano rarely using the GPU?" get its diagnosis, by measurement."""

import json

import pytest
from tables import table

TABLE = table(__file__)
EXAMPLE_1 = TABLE["example_1"]
EXAMPLE_2 = TABLE["example_2"]
# A host that computes 1e8 operations a second, and a device that takes 5 us for each command.
SLOW_HOST = TABLE["slow_host"]
# One command of a kernel takes 1 ms for each 200 kB: what is read again and again is seen.
NARROW = TABLE["narrow"]


def diagnosed(gpumap, *arguments):
    """Diagnose with time enough for a machine with other work."""
    answer = gpumap("doctor", *arguments, "--timeout", "90s", "--format", "json")
    (found,) = json.loads(answer.out)["result"]["diagnoses"]
    return found


def example(found, workload):
    return next(one for one in found["examples"] if one["workload"] == workload)


def test_example_1_has_no_configuration(gpumap):
    """The device works, and nothing names it: the affine map was computed on it all the same."""
    (gpumap.folder / "example.py").write_text(EXAMPLE_1)
    found = diagnosed(gpumap.fake(SLOW_HOST), "--script", "example.py")
    assert ([one["code"] for one in found["findings"]], found["verdict"]) == (["GM102"], "not used")
    assert example(found, "affine")["calls"] == 100


def test_example_2_small_calls_lose_and_large_ones_win(gpumap):
    """That its configuration comes too late is named first."""
    (gpumap.folder / "example.py").write_text(EXAMPLE_2)
    found = diagnosed(gpumap.fake(SLOW_HOST), "a->cuda0", "--script", "example.py")
    small, large = example(found, "small"), example(found, "large")
    assert found["findings"][0]["code"] == "GM106"
    assert small["found"]["code"] == "GM402"
    assert (small["device"]["low"] > small["host"]["high"], large["found"]) == (True, None)
    assert large["device"]["high"] < large["host"]["low"]


def test_example_3_runs_its_operations_one_by_one(gpumap):
    """Four kernels behind the product read and write what one would."""
    found = diagnosed(gpumap.fake(NARROW), "a->cuda0")
    chain = example(found, "chain")
    figures = chain["found"]["figures"]
    assert chain["found"]["code"] == "GM408"
    assert figures["elementwise"]["value"] == pytest.approx(4 * figures["one_pass"]["value"])


def test_the_examples_on_a_core(gpumap):
    """They are measured with -v alone: no one asked what a core does with them."""
    assert diagnosed(gpumap, "a->cpu0")["examples"] == []
    found = diagnosed(gpumap, "a->cpu0", "-v")
    assert [one["workload"] for one in found["examples"]] == ["small", "affine", "large", "chain"]
    for one in found["examples"]:
        for side in ("device", "host"):
            figure = one[side]
            assert 0.0 < figure["low"] <= figure["value"] <= figure["high"]
    assert example(found, "small")["found"]["code"] in ("GM401", "GM402", "GM406")
