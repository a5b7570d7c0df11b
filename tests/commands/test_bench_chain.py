"""`gpumap bench chain`: exact on scripted devices, verified on real ones, told whatever happens."""

import json

import pytest
from scripts import RATE, asked, exact, figures, report, script
from shell import SIMULATED

from gpumap.bench.chain import CASES
from gpumap.bench.chain_work import OPS, operations

TWO = "a->cuda0;b->cuda1"
ROWS = 1024
BANDWIDTH = 2**24  # bytes of its first buffer that a scripted kernel takes in a second
LATENCY = 2.0**-10
FUSED, KERNEL = 40 * ROWS / BANDWIDTH, 20 * ROWS / BANDWIDTH
GEMM = 2 * 50 * ROWS / RATE
HOST_RATE = 2**25
HOST = ROWS * operations("chain") / HOST_RATE
COLD = FUSED + 3 * LATENCY + (40 * ROWS + 200 + 20) / BANDWIDTH
PRODUCT = "wrong-product"


def scripted(*devices, host=HOST_RATE, **every):
    """Return a script of devices beside a host of that rate."""
    return f"[host]\nrate = {float(host)}\n{script(*devices, **every)}"


def chain(gpumap, *arguments, map_=TWO, rows=ROWS, form="json", budget="300s", **env):
    """Run `bench chain` with time for twenty blocks."""
    given = ("--rows", str(rows), "--map", map_, "--format", form, "--budget", budget)
    return gpumap("bench", "chain", *given, *arguments, **env)


def rows(found):
    """Return the rows of what was asked for, by case, operation, place and names."""
    keys = ("op", "place")
    return {
        (r["case"], *(r["params"][k] for k in keys if k in r["params"]), "+".join(r["names"])): r
        for r in asked(found)
    }


def measured(time, op="chain", **others):
    """Return time and rate of all rows, and other figures."""
    return exact(time=time, rate=ROWS * operations(op) / time, **others)


def test_every_figure_is_the_scripted_one(gpumap):
    """Fused over separate and over the host, many over one, each operation, and the cold call."""
    answer = chain(gpumap.fake(scripted()))

    found = report(answer)
    actual = {key: figures(row) for key, row in rows(found).items()}
    separate = GEMM + 4 * KERNEL
    share = {"time": FUSED / 2, "device_time": FUSED / 2, "rate": ROWS * 120 / FUSED}
    expected = {
        ("separate", "a"): measured(separate, device_time=separate,
                                    speedup_over_host=HOST / separate),
        ("fused", "a"): measured(FUSED, device_time=FUSED, speedup=separate / FUSED,
                                 speedup_over_host=HOST / FUSED),
        ("host", "a"): measured(HOST),
        ("solo", "a"): exact(**share),
        ("solo", "b"): exact(**share),
        ("many", "a+b"): measured(FUSED / 2, speedup=2, ideal=2, efficiency=1, overlap=1,
                                  speedup_over_host=2 * HOST / FUSED),
        ("cold", "a"): measured(COLD, calls_to_amortise_setup=(COLD - FUSED) / (HOST - FUSED)),
    }  # fmt: skip
    for op in OPS:
        alone, theirs = GEMM if op == "gemm" else KERNEL, ROWS * operations(op) / HOST_RATE
        expected["op", op, "host", "a"] = measured(theirs, op)
        expected["op", op, "device", "a"] = measured(
            alone, op, device_time=alone, speedup=theirs / alone
        )
    assert expected == actual
    assert (answer.code, found["simulated"], answer.err) == (0, True, SIMULATED)
    assert all(row["check"]["passed"] for row in found["measurements"])
    assert {row["case"] for row in asked(found)} == set(CASES)


def test_a_requested_reference_without_kernels_is_refused(gpumap):
    """Most cases need a kernel on it: nothing of them could be measured."""
    gpumap.fake(scripted({}, {"features": []}))
    assert [chain(gpumap, "--reference", name).code for name in "ba"] == [2, 0]


@pytest.mark.parametrize(("arguments", "said"), [
    (("--rows", "1"), "1 rows cannot be split over 2 names"),
    (("--rows", "99999999999"), "is not a whole number from 1 to 999,999,999"),
    (("--rows", "ten"), "'ten'"),
    (("--rows", "1000000"), "cuda0 would need "),
    (("--dtype", "float16"), '"float16"'),
    (("--cases", "both"), '"both"'),
    (("--cases", "many", "--map", "a->cuda0"), "the case many needs two names"),
])  # fmt: skip
def test_a_wrong_question_is_refused(gpumap, arguments, said):
    """With exit 2."""
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
