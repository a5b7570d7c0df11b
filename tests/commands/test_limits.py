"""Limits and what a gate makes of a report: by options, variables, files, on scripted devices."""

import pytest
from scripts import report, script

from gpumap.bench.registry import every
from gpumap.bench.selectors import EVERYWHERE
from gpumap.judge.limits import split_id

TWO = "a->cuda0;b->cuda1"
GOOD = "dot.many.speedup>=1.8"  # it is 2, exactly


DOT = ("bench", "dot", "--size", "64", "--cases", "many", "--format", "json")
GONE = "a->cuda0;b->cuda7"


@pytest.mark.parametrize(("devices", "map_", "more", "code", "status", "word"), [
    (script(), GONE, ("--if-absent", "skip"), 0, "skipped", "skipped"),
    (script(), GONE, (), 3, "absent", "missing"),
    (script({"fault": "lost"}, {}), TWO, ("--if-absent", "skip"), 3, "absent", "fail"),
    (script({"fault": "memory"}, {}), TWO, ("--if-absent", "skip"), 3, "absent", "fail"),
    (script({"fault": "wrong-product"}, {}), TWO, (), 4, "wrong-data", "fail"),
    (script({}, {"fault": "hang"}), TWO, ("--timeout", "2s"), 124, "timeout", "missing"),
    ("", "", ("--if-absent", "skip"), 0, "skipped", "skipped"),  # no map, no device
])  # fmt: skip
def test_what_comes_before_a_limit(gpumap, devices, map_, more, code, status, word):
    """Absent devices can skip the run, those that fail cannot; no figure is no pass."""
    mapped = ("--map", map_) if map_ else ()
    answer = gpumap.fake(devices)(*DOT, *mapped, "--limit", GOOD, *more)
    found = report(answer)
    assert (answer.code, found["exit_code"], found["status"]) == (code, code, status)
    assert [verdict["verdict"] for verdict in found["verdicts"]] == [word]
    assert {error["exit"] for error in found["errors"] if error["code"] == "absent"} <= {code}


@pytest.mark.parametrize(("keys", "code"), [
    ("model=One%2c with [x%5d", 0), ("device=cuda1", 0), ("driver=script", 0), ("model=Two", 1),
    ("device=cuda0", 1), ("driver=1", 1), ("model=One%2c with [x%5d,size=65", 1),
])  # fmt: skip
def test_a_limit_selects_rows_by_their_device(gpumap, keys, code):
    fake = gpumap.fake(script({}, {"name": "One, with [x]"}))
    limit = f"dot.one[{keys}].rate>=1kFLOP/s"
    answer = fake(*DOT[:-4], "--cases", "one", "--map", "a->cuda1", "--limit", limit)
    assert answer.code == code, answer


def test_each_command_takes_its_own_limits_of_a_file(gpumap):
    (gpumap.folder / "gpumap.toml").write_text(f'limit = ["transfer.h2d.latency<1s", "{GOOD}"]\n')
    found = report(gpumap.fake(script())(*DOT, "--map", TWO))
    assert [verdict["text"] for verdict in found["verdicts"]] == [GOOD]
    assert gpumap("check", "--map", TWO).code == 0


QUICK = {"latency": 5e-6, "bandwidth": 5e10, "rate": 1e12, "features": []}


@pytest.mark.parametrize(("command", "device"), [
    ("bench dot --size 64", {}),
    ("transfer-cost --sizes small --budget 1s --cases h2d,affine", QUICK),
    ("bench chain --rows 100 --budget 2s", {}),
    ("bench allreduce --comm local --sizes 400,800 --budget 2s", {}),
    ("bench train --comm local --learn 160 --budget 2s", {"rate": 2**34}),
    ("selftest", {}),
])  # fmt: skip
def test_a_limit_can_select_every_row_by_every_key_and_figure(gpumap, command, device):
    """A metric of a report that the table of selectors lacks could have no limit."""
    fake = gpumap.fake(f"[host]\nrate = 1e8\n{script(**device)}")
    found = report(fake(*command.split(), "--map", TWO, "--format", "json"))
    families = ((spec.key, family) for spec in every() for family in spec.families)
    known = {f"{key}.{case}{f.suffix}": f for key, f in families for case in f.cases}
    rows = [*found["measurements"], *found["fits"]]
    assert len(rows) > 3
    for row in rows:
        head, keys = split_id(row["id"])
        family = known[head]
        assert set(keys) | set(row.get("params", ())) <= {*family.keys, *EVERYWHERE}
        assert set(row["metrics"]) <= set(family.metrics)
    assert len(found["fits"]) >= 2 or not command.startswith("transfer-cost")
