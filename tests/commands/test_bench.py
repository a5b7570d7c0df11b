"""`gpumap bench`: what is refused, and the reference."""

import pytest
from scripts import report, script

TWO = "a->cuda0;b->cuda1"


@pytest.mark.parametrize("bench", ["dot", "chain"])
def test_the_reference_is_the_requested_name(gpumap, bench):
    """Also in a dry run; a name that the map does not have is exit 2."""
    gpumap.fake(script())

    def run(name, *more):
        words = ("--map", "a->cuda0;b->cuda1", "--reference", name, "--format", "json", *more)
        return gpumap("bench", bench, "--budget", "2s", *words)

    for found in (report(run("b")), report(run("b", "--dry-run"))):
        rows = [row for row in found["measurements"] if row["case"] in ("one", "fused")]
        assert rows
        assert all(row["names"] == ["b"] for row in rows)
    assert run("x\x1b[31m").code == 2
    assert "\x1b" not in run("x\x1b[31m").err


def test_a_requested_reference_without_kernels_is_refused(gpumap):
    """Most cases of a chain need a kernel on it: nothing of them could be measured."""
    gpumap.fake(script({}, {"features": []}))
    words = ("bench", "chain", "--rows", "1024", "--map", TWO, "--budget", "9s", "--reference")
    assert [gpumap(*words, name).code for name in "ba"] == [2, 0]
