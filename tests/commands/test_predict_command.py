"""`gpumap predict`: computed from what links cost, and said to be; and published tables."""

import pytest
from flat_report import loads
from report_schema import checked
from saved_reports import signed, written
from shell import SIMULATED

LINK = ("--latency", "1ms", "--bandwidth", "1GB/s")


def predicted(gpumap, *options):
    answer = gpumap("predict", *LINK, *options, "--format", "json")
    tree = checked(answer.out)
    assert (answer.code, answer.err) == (0, "")
    return tree["prediction"]


@pytest.mark.parametrize("compute", [0.203, 0.205, None])
def test_two_devices_are_faster_where_half_of_the_compute_is_more_than_an_exchange(gpumap, compute):
    step = ("--compute", f"{compute}s") if compute else ()
    tree = predicted(gpumap, *step, "--bytes", "100MB", "--devices", "2", "--algorithm", "ring")
    (forecast,) = tree["forecasts"]
    found = {name: figure["value"] for name, figure in forecast["metrics"].items()}
    comm = 2e-3 + 0.1
    assert found["comm"] == pytest.approx(comm)
    if compute is None:
        assert list(found) == ["comm"]
    else:
        assert found["speedup"] == pytest.approx(compute / (compute / 2 + comm))


def test_a_link_that_was_measured(gpumap):
    """Its model is exact on a scripted clock: 2^-10 s and 2^28 B/s; what is scripted says so."""
    path = written("copies").path
    answer = gpumap("predict", "--report", str(path), "--bytes", "1MiB", "--devices", "2",
                    "--algorithm", "ring", "--format", "json")  # fmt: skip
    assert (answer.code, answer.err) == (0, SIMULATED)
    tree = checked(answer.out)
    assert tree["simulated"] is True
    link = tree["prediction"]["link"]
    assert link["source"].startswith("transfer.d2d.fit[backend=fake,memory=device,mode=sync,")
    (forecast,) = tree["prediction"]["forecasts"]
    comm = forecast["metrics"]["comm"]
    assert comm["low"] <= comm["value"] <= comm["high"]
    ends = [2 * link["latency"][e] + 2**20 / link["bandwidth"][o]
            for e, o in (("low", "high"), ("value", "value"), ("high", "low"))]  # fmt: skip
    assert [comm[end] for end in ("low", "value", "high")] == pytest.approx(ends)


def test_a_slower_link_decides(gpumap):
    """A ring waits for its slowest link: b is half as fast."""
    tree = written("copies").tree
    for fit in tree["result"]["fits"]:
        if "names=b>a" in fit["id"]:
            fit["lines"][0]["per_byte_s"] *= 2
            bandwidth = fit["metrics"]["peak_bandwidth"]
            bandwidth |= {end: bandwidth[end] / 2 for end in ("value", "low", "high")}
    (gpumap.folder / "slow.json").write_text(signed(tree))
    answer = gpumap("predict", "--report", "slow.json", "--bytes", "1MB", "--format", "json")
    assert "names=b>a" in loads(answer.out)["prediction"]["link"]["source"]
