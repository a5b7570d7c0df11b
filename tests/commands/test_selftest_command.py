"""`gpumap selftest`: round trips and false alarms, exact on scripted devices."""

from types import SimpleNamespace

import pytest
from scripts import asked, report, script
from tables import table

from gpumap.app.selftest import _refuse
from gpumap.errors import Exit
from gpumap.model import Alarms


@pytest.mark.parametrize(("false", "passed", "inconclusive", "expected"), table(__file__)["runs"])
def test_what_the_runs_mean_for_the_exit_code(false, passed, inconclusive, expected):
    """No script of independent noise raises an alarm: so it is counted by hand."""
    refused = []
    record = SimpleNamespace(refuse=lambda found, end=Exit.NO: refused.append([found.code, end]))
    _refuse(record, Alarms("x", "cpu:0", "a", 0.05, 20, false, passed, inconclusive))
    assert refused == expected


def test_two_names_of_one_device_are_one(gpumap):
    found = report(gpumap.fake(script({}))("selftest", "a->cuda0;b->cuda0", "--format", "json"))
    assert {(row["case"], *row["names"]) for row in asked(found)} == {("a", "a"), ("b", "a")}


def test_real_devices(gpumap):
    answer = gpumap("selftest", "a->cpu0", "--budget", "6", "--format", "json")
    found = report(answer)
    (of_a,) = found["alarms"]
    assert answer.code in (0, 1, 5)  # the machine's noise is what it is
    assert (answer.code == 1) == (of_a["false"] > 0)
    assert found["simulated"] is False
