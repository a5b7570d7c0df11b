"""`gpumap bench`: what is refused, and the reference."""

import pytest
from scripts import report, script

TWO = "a->cuda0;b->cuda1"
WRONG = {
    "--size": ("0", "-1", "abc", "1e9"), "--cases": ("two", ""), "--dtype": ("int8", "float32,x"),
    "--budget": ("0", "-1"), "--timeout": ("abc",), "--precision": ("2",), "--seed": ("-1",),
    "--format": ("pdf",),
}  # fmt: skip


@pytest.mark.parametrize("words", [
    *(("dot", option, value) for option, values in WRONG.items() for value in values),
    ("dott",), ("",),  # no such benchmark
    ("dot", "--map", "a->cuda0", "--cases", "many"),  # it was asked for, and would be skipped
    ("chain", "--map", "a->cuda0", "--cases", "many"), ("chain", "--rows", "ten"),
    *(("chain", "--map", TWO, *words) for words in (
        ("--rows", "1"), ("--rows", "99999999999"), ("--dtype", "float16"), ("--cases", "both"))),
], ids=" ".join)  # fmt: skip
def test_what_cannot_be_measured_at_all_is_named(gpumap, words):
    """On stderr only; nothing was looked for."""
    answer = gpumap.fake(script())("bench", *words)
    assert (answer.code, answer.out) == (2, "")
    assert words[-1].partition(",")[0] in answer.err


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
