"""Limits and what a gate makes of a report: by options, variables, files, on scripted devices."""

import pytest
from flat_report import flat
from saved_reports import written
from scripts import report, script, scripted
from tables import table

from gpumap.bench.registry import BENCHMARKS, find
from gpumap.bench.selectors import EVERYWHERE
from gpumap.judge.limits import split_id

TWO = "a->cuda0;b->cuda1"
GOOD = "dot.many.speedup>=1.8"  # it is 2, exactly
DOT = ("bench", "dot", "--size", "64", "--cases", "many", "--format", "json")
BEFORE = table(__file__)["before"]


@pytest.mark.parametrize(("devices", "map_", "more", "code", "status", "word"), BEFORE)
def test_what_comes_before_a_limit(gpumap, devices, map_, more, code, status, word):
    """Absent devices can skip the run, those that fail cannot; no figure is no pass."""
    mapped = ("--map", map_) if map_ else ()
    answer = gpumap.fake(scripted(devices))(*DOT, *mapped, "--limit", GOOD, *more)
    found = report(answer)
    assert (answer.code, found["exit_code"], found["status"]) == (code, code, status)
    assert [verdict["verdict"] for verdict in found["verdicts"]] == [word]
    assert {error["exit"] for error in found["errors"] if error["code"] == "absent"} <= {code}


def test_each_command_takes_its_own_limits_of_a_file(gpumap):
    (gpumap.folder / "gpumap.toml").write_text(f'limit = ["transfer.h2d.latency<1s", "{GOOD}"]\n')
    found = report(gpumap.fake(script())(*DOT, "--map", TWO))
    assert [verdict["text"] for verdict in found["verdicts"]] == [GOOD]
    assert gpumap("check", "--map", TWO).code == 0


@pytest.mark.parametrize("name", ["dot", "chain", "allreduce", "train", "copies", "selftest"])
def test_a_limit_can_select_every_row_by_every_key_and_figure(name):
    """A metric of a report that the table of selectors lacks could have no limit."""
    found = flat(written(name).tree)
    families = ((key, family) for key in BENCHMARKS for family in find(key).families)
    known = {f"{key}.{case}{f.suffix}": f for key, f in families for case in f.cases}
    rows = [*found["measurements"], *found["fits"]]
    assert len(rows) > 1
    for row in rows:
        head, keys = split_id(row["id"])
        family = known[head]
        assert set(keys) | set(row.get("params", ())) <= {*family.keys, *EVERYWHERE}
        assert set(row["metrics"]) <= set(family.metrics)
    assert len(found["fits"]) >= 2 or name != "copies"
