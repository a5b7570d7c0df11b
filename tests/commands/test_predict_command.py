"""`gpumap predict --report`: computed from what links were measured to cost."""

import pytest
from flat_report import loads
from report_schema import checked
from saved_reports import signed, written
from shell import SIMULATED


def test_a_link_that_was_measured(gpumap):
    """Its model is exact on a scripted clock: 2^-10 s and 2^28 B/s; what is scripted says so."""
    path = written("copies").path
    answer = gpumap("predict", "--report", str(path), "--bytes", "1MiB", "--devices", "2",
                    "--format", "json")  # fmt: skip
    assert (answer.code, answer.err) == (0, SIMULATED)
    tree = checked(answer.out)
    assert tree["simulated"] is True
    link = tree["prediction"]["link"]
    assert link["source"].startswith("transfer.d2d.fit[backend=fake,memory=device,mode=sync,")
    (forecast,) = (f for f in tree["prediction"]["forecasts"] if f["algorithm"] == "ring")
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
