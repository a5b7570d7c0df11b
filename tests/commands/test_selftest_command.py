"""`gpumap selftest`: round trips and false alarms, exact on scripted devices."""

import pytest
from scripts import asked, report, script

from gpumap.app.selftest import _refuse
from gpumap.errors import Exit
from gpumap.model import Alarms


@pytest.mark.parametrize(("false", "passed", "inconclusive", "expected"), [
    (0, 12, 0, []), (1, 11, 0, [("false-alarm", Exit.NO)]), (1, 0, 11, [("false-alarm", Exit.NO)]),
    (0, 11, 1, [("inconclusive", Exit.INCONCLUSIVE)]),
    (0, 5, 0, [("inconclusive", Exit.INCONCLUSIVE)]),  # too few runs
])  # fmt: skip
def test_what_the_runs_mean_for_the_exit_code(false, passed, inconclusive, expected):
    """No script of independent noise raises an alarm: so it is counted by hand."""
    refused = []

    class Record:
        def refuse(self, diagnostic, exit_=Exit.NO):
            refused.append((diagnostic.code, exit_))

    _refuse(Record(), Alarms("x", "cpu:0", "a", 0.05, 20, false, passed, inconclusive))
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
