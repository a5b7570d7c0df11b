"""`gpumap selftest`: round trips, false alarms and the noise floor, exact on scripted devices."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest
from report_schema import validate
from scripts import figures, report, rows
from scripts import script as scripted
from shell import SIMULATED

TWO = "a->cuda0;b->cuda1"
THRESHOLDS = [0.01, 0.02, 0.03, 0.05]
RATE = 2**26  # so slow that products are small


def script(*devices, **every):
    """Return a script of slow devices."""
    return scripted(*devices, **{"rate": RATE} | every)


def selftest(gpumap, *arguments, map_=TWO, **env):
    """Run `selftest` and ask for JSON."""
    return gpumap("selftest", "--map", map_, "--format", "json", *arguments, **env)


def stored(gpumap):
    """Return the files of the cache of this user."""
    return sorted((gpumap.folder.parent / "home").rglob("*.json"))


def test_without_noise_everything_is_the_same(gpumap):
    """Every run at every threshold; any change can be told. Nothing scripted is stored."""
    answer = selftest(gpumap.fake(script()))

    found = report(answer)
    noise = found["selftest"]["noise"]
    same = {"regression": 0, "improvement": 0, "same": 6, "inconclusive": 0}
    assert (answer.code, found["status"], answer.err) == (0, "ok", SIMULATED)
    assert [
        (n["device"], n["name"], n["runs"], n["run_blocks"], n["noise_floor"]) for n in noise
    ] == [("cuda:0", "a", 6, 20, 0.0), ("cuda:1", "b", 6, 20, 0.0)]
    assert [[{"threshold": t, **same} for t in THRESHOLDS]] * 2 == [n["alarms"] for n in noise]
    assert (found["selftest"]["stored"], stored(gpumap)) == (None, [])


def test_b_is_held_against_a(gpumap):
    """The same product on the same device, in every block; and a verdict at each threshold."""
    found = report(selftest(gpumap.fake(script())))

    a, b = rows(found)["a", "a"], rows(found)["b", "a"]
    assert (None, a["id"], a["params"], a["work"]) == (
        a["against"], b["against"], b["params"], b["work"],
    )  # fmt: skip
    assert (a["blocks"], len(a["blocks"])) == (b["blocks"], 120)
    assert figures(b) == {**figures(a), "speedup": 1.0}
    whole = [v for v in found["verdicts"] if v["id"] == b["id"]]
    base = a["metrics"]["time"]["value"]
    assert [
        ("selftest", "time", "same", 1.0, 1.0, 1.0, base, threshold) for threshold in THRESHOLDS
    ] == [
        (v["rule"], v["metric"], v["verdict"], v["value"], v["low"], v["high"], v["base"],
         v["threshold"]) for v in whole
    ]  # fmt: skip


def test_every_key_is_required(gpumap):
    """Without any one of its keys the self-test is not valid: null says what does not apply."""
    found = report(selftest(gpumap.fake(script()), map_="a->cuda0"))
    objects = {
        "selftest": lambda r: r["selftest"],
        "trip": lambda r: r["selftest"]["round_trips"][0],
        "noise": lambda r: r["selftest"]["noise"][0],
        "alarms": lambda r: r["selftest"]["noise"][0]["alarms"][0],
        "report": lambda r: r,
    }

    for name, pick in objects.items():
        for key in ["selftest"] if name == "report" else list(pick(found)):
            less = copy.deepcopy(found)
            del pick(less)[key]
            with pytest.raises(jsonschema.ValidationError):
                validate(less)


# Of this noise one run in six is taken for a change, by the seed of the script.
ALARM = {"noise": 0.4}


def test_a_false_alarm_is_a_no(gpumap):
    """Exit 1, and the row of the table says how many."""
    answer = selftest(gpumap.fake(script({}, ALARM)))

    found = report(answer)
    quiet, noisy = found["selftest"]["noise"]
    alarms = [a["regression"] + a["improvement"] for a in noisy["alarms"]]
    assert (answer.code, found["status"]) == (1, "no")
    assert (quiet["noise_floor"], alarms) == (0.0, [1, 1, 1, 1])
    assert noisy["noise_floor"] > 0.05
    assert [(e["code"], e["message"], e["name"]) for e in found["errors"]] == [
        ("false-alarm", "b: in 1 of 6 runs noise was taken for a change of 5%", "b")
    ]


def test_noise_that_hides_a_change_is_inconclusive(gpumap):
    """Exit 5: no alarm, and nothing that could be trusted to raise one."""
    answer = selftest(gpumap.fake(script(noise=0.4, noise_seed=3)), map_="a->cuda0")

    found = report(answer)
    (error,) = found["errors"]
    assert (answer.code, found["status"], error["code"]) == (5, "inconclusive", "inconclusive")
    assert error["message"] == "a: noise hides a change of 5%"


def test_too_few_blocks_are_inconclusive(gpumap):
    """Exit 5, no floor: it fails closed."""
    slow = script({"rate": 2**16})

    answer = selftest(gpumap.fake(slow), map_="a->cuda0")

    found = report(answer)
    (noise,) = found["selftest"]["noise"]
    assert (answer.code, noise["noise_floor"]) == (5, None)
    assert "too few to find the noise floor" in found["errors"][0]["message"]


@pytest.mark.parametrize(
    ("fault", "code", "status"),
    [("flip", 4, "wrong-data"), ("lost", 3, "absent"), ("memory", 3, "absent")],
)
def test_a_device_that_fails_its_round_trip_is_not_measured(gpumap, fault, code, status):
    """The others are proved all the same; nobody is measured."""
    answer = selftest(gpumap.fake(script({"fault": fault}, {})))

    found = report(answer)
    trips = [(t["name"], t["passed"]) for t in found["selftest"]["round_trips"]]
    assert (answer.code, found["status"]) == (code, status)
    assert trips == [("a", False), ("b", True)]
    assert (
        found["measurements"], found["selftest"]["noise"], found["verdicts"],
    ) == ([], [], [])  # fmt: skip
    assert {"a"} == {error["name"] for error in found["errors"]}


def test_wrong_products_are_wrong_data(gpumap):
    """Exit 4; such a device has no noise floor, and the other one keeps its own."""
    answer = selftest(gpumap.fake(script({}, {"fault": "wrong-product"})))

    found = report(answer)
    assert (answer.code, found["status"]) == (4, "wrong-data")
    assert [noise["name"] for noise in found["selftest"]["noise"]] == ["a"]


def test_an_absent_device(gpumap):
    """Exit 3 before anything is tried."""
    answer = selftest(gpumap.fake(script({})))

    assert (answer.code, report(answer)["selftest"]) == (3, None)


def test_two_names_of_one_device_are_one(gpumap):
    """One round trip, one measurement, under the first name."""
    found = report(selftest(gpumap.fake(script({})), map_="a->cuda0;b->cuda0"))

    assert [trip["name"] for trip in found["selftest"]["round_trips"]] == ["a"]
    assert {("a", "a"), ("b", "a")} == set(rows(found))


def test_a_dry_run_does_nothing(gpumap):
    """It shows the cases and the time."""
    answer = gpumap.fake(script())("selftest", "--map", TWO, "--dry-run")

    lines = answer.out.splitlines()
    assert answer.code == 0
    assert "plan: 4 cases in 2 groups, nothing measured" in lines
    assert lines[-1] == "time: 60.0 s (--budget)"


TABLE = """\
Mapped name a to device cuda0: Fake device (simulated)
Mapped name b to device cuda1: Fake device (simulated)

round trips of 4 KiB
  device    name    backend    status
  cuda0     a       fake       ok
  cuda1     b       fake       ok

A against A: dot 64 x 64 float32, fake
  case    on                    time                       rate  a/b                            error    n  status
  a       a     7.81 ms [7.81, 7.81]  67.1 MFLOP/s [67.1, 67.1]  -                  0.003 < 1  120  ok
  b       a     7.81 ms [7.81, 7.81]  67.1 MFLOP/s [67.1, 67.1]  1.00 [1.00, 1.00]  0.003 < 1  120  ok
  a       b     7.81 ms [7.81, 7.81]  67.1 MFLOP/s [67.1, 67.1]  -                  0.003 < 1  120  ok
  b       b     7.81 ms [7.81, 7.81]  67.1 MFLOP/s [67.1, 67.1]  1.00 [1.00, 1.00]  0.003 < 1  120  ok

false alarms
  on    runs            at 1%    at 2%    at 3%    at 5%      noise floor
  a     6 of 20 blocks  0 of 6   0 of 6   0 of 6   0 of 6           0.00%
  b     6 of 20 blocks  0 of 6   0 of 6   0 of 6   0 of 6           0.00%
  noise floor: the smallest threshold at which 95% of the runs are called the same; scripted, and not kept

time: median of n blocks [95% interval, in this run], seed 1; every result verified
"""  # noqa: E501 - a table as it is printed


def test_the_whole_text(gpumap):
    """As a pipe gets it; the rounding error is the processor's own."""
    answer = gpumap.fake(script())("selftest", "--map", TWO)

    shown = [line.split() for line in answer.out.splitlines()]
    expected = [line.split() for line in TABLE.splitlines()]
    assert [[w for w in line if w != "0.003"] for line in expected] == [
        [w for n, w in enumerate(line) if line[n + 1 : n + 2] != ["<"]] for line in shown
    ]
    assert (answer.code, answer.err) == (0, SIMULATED)


# --- on what is really here


def test_a_real_core(gpumap):
    """Its bytes and products are right, and where a floor is found, it is kept for this machine."""
    answer = selftest(gpumap, "--backend", "numpy", "--budget", "6", map_="a->cpu0")

    found = report(answer)
    (noise,) = found["selftest"]["noise"]
    assert answer.code in (0, 1, 5)  # the machine's noise is what it is
    assert [(t["device"], t["backend"], t["passed"]) for t in found["selftest"]["round_trips"]] == [
        ("cpu:0", "numpy", True)
    ]
    assert found["simulated"] is False
    files = stored(gpumap)
    if noise["noise_floor"] is None or noise["noise_floor"] > 0.05:
        assert (files, answer.code != 0) == ([], True)
    else:
        (path,) = files
        assert str(path) == found["selftest"]["stored"]
        assert {"cpu:0": noise["noise_floor"]} == json.loads(path.read_text())["noise_floors"]
        assert found["fingerprint"]["hash"] == json.loads(path.read_text())["fingerprint"]


def test_a_spoilt_cache_costs_no_result(gpumap):
    """A note, twice; the figures are there."""
    (gpumap.folder / "file").write_text("")
    arguments = ("--backend", "numpy", "--budget", "4", "--seed", "2")

    answer = selftest(gpumap, *arguments, map_="a->cpu0", GPUMAP_CACHE_DIR="file/cache")

    found = report(answer)
    assert answer.code in (0, 1, 5)
    assert found["selftest"]["stored"] is None
    if (found["selftest"]["noise"][0]["noise_floor"] or 1.0) <= 0.05:
        assert "note: the noise floors are not stored: " in answer.err


def test_one_device_of_each_other_backend(gpumap):
    """Without --backend, every backend that is usable here moves its bytes too."""
    answer = selftest(gpumap, "--budget", "2", map_="a->cpu0")

    found = report(answer)
    usable = {b["name"] for b in found["backends"] if b["usable"]}
    assert usable == {t["backend"] for t in found["selftest"]["round_trips"]}
    assert all(t["passed"] for t in found["selftest"]["round_trips"])
    assert {None, "a"} >= {t["name"] for t in found["selftest"]["round_trips"]}
