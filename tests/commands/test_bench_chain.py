"""`gpumap bench chain`: what is refused, and what is left of a device that is wrong."""

import json

import pytest
from scripts import asked, script

TWO = "a->cuda0;b->cuda1"
ROWS = 1024
HOST_RATE = 2**25
PRODUCT = "wrong-product"


def scripted(*devices, host=HOST_RATE, **every):
    return f"[host]\nrate = {float(host)}\n{script(*devices, **every)}"


def chain(gpumap, *arguments, map_=TWO, rows=ROWS, form="json", budget="300s", **env):
    given = ("--rows", str(rows), "--map", map_, "--format", form, "--budget", budget)
    return gpumap("bench", "chain", *given, *arguments, **env)


def rows(found):
    keys = ("op", "place")
    return {
        (r["case"], *(r["params"][k] for k in keys if k in r["params"]), "+".join(r["names"])): r
        for r in asked(found)
    }


def test_a_requested_reference_without_kernels_is_refused(gpumap):
    """Most cases need a kernel on it: nothing of them could be measured."""
    gpumap.fake(scripted({}, {"features": []}))
    assert [chain(gpumap, "--reference", name).code for name in "ba"] == [2, 0]


@pytest.mark.parametrize(("arguments", "said"), [
    (("--rows", "1"), "1 rows cannot be split over 2 names"),
    (("--rows", "99999999999"), "is not a whole number from 1 to 999,999,999"),
    (("--rows", "ten"), "'ten'"), (("--rows", "1000000"), "cuda0 would need "),
    (("--dtype", "float16"), '"float16"'), (("--cases", "both"), '"both"'),
    (("--cases", "many", "--map", "a->cuda0"), "the case many needs two names"),
])  # fmt: skip
def test_a_wrong_question_is_refused(gpumap, arguments, said):
    answer = chain(gpumap.fake(scripted(memory=1 << 20)), *arguments)
    assert (answer.code, said in answer.err) == (2, True), answer.err


def test_wrong_data_are_no_speed(gpumap):
    """A product that is wrong: what is computed by it fails, the fused kernel does not."""
    answer = chain(gpumap.fake(scripted(fault=PRODUCT)), map_="a->cuda0", form="json")
    found = rows(json.loads(answer.out))
    assert (answer.code, found["separate", "a"]["metrics"]) == (4, {})
    assert found["op", "gemm", "device", "a"]["status"] == "failed"
    assert found["fused", "a"]["status"] == "ok"
    assert "speedup" not in found["fused", "a"]["metrics"]
