"""`gpumap bench dot`: exact on scripted devices, verified on real ones, told whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from scripts import RATE, TOL, anchors, asked, figures, report, rows, script
from shell import LIMIT, SIMULATED, Answer

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.bench.dot import CASES
from gpumap.machine.topology import read

TWO = "a->cuda0;b->cuda1"
SIZE = 64
OPERATIONS = 2 * SIZE**3
SOLO = OPERATIONS / RATE
FETCH = 2.0**-10 + SIZE * SIZE * 4 / 2**24
PRODUCT = 4 * SIZE**2  # bytes


def dot(gpumap, *arguments, size=SIZE, map_=TWO, **env):
    """Run `bench dot` with time for twenty blocks, and ask for JSON."""
    given = ("--size", str(size), "--map", map_, "--format", "json", "--budget", "12s", *arguments)
    return gpumap("bench", "dot", *given, **env)


def exact(**values):
    """Return the figures of a row, up to a rounding."""
    return {name: pytest.approx(value, rel=TOL, abs=0.0) for name, value in values.items()}


# --- every figure is the scripted one


def test_two_equal_devices_are_twice_as_fast(gpumap):
    """Time, rate, speed-up, ideal, efficiency and overlap of every case."""
    answer = dot(gpumap.fake(script()))

    found = report(answer)
    actual = {key: figures(row) for key, row in rows(found).items()}
    one, many = 2 * SOLO + 2 * FETCH, SOLO + 2 * FETCH
    gain, whole = one / many, {"ideal": 2, "overlap": 1}
    assert {
        ("solo", "a"): exact(time=SOLO, device_time=SOLO, rate=RATE),
        ("solo", "b"): exact(time=SOLO, device_time=SOLO, rate=RATE),
        ("one", "a"): exact(time=2 * SOLO, device_time=2 * SOLO, rate=RATE),
        ("many", "a+b"): exact(time=SOLO, rate=2 * RATE, speedup=2, efficiency=1, **whole),
        ("one+fetch", "a"): exact(time=one, device_time=2 * SOLO, rate=2 * OPERATIONS / one),
        ("many+fetch", "a+b"): exact(
            time=many, rate=2 * OPERATIONS / many, speedup=gain, efficiency=gain / 2,
            speedup_over_one=2 * SOLO / many, fetch=2 * FETCH, **whole,
        ),
        ("many+fetch+threads", "a+b"): exact(
            time=SOLO + FETCH, rate=2 * OPERATIONS / (SOLO + FETCH), speedup=2, efficiency=1,
            fetch=FETCH, **whole,
        ),
    } == actual  # fmt: skip
    assert (
        answer.code, found["status"], found["simulated"], answer.err,
    ) == (0, "ok", True, SIMULATED)  # fmt: skip
    assert {(27, "budget")} == {  # its half, the last look but one, came before 20 blocks
        (len(row["samples"]), row["stop"]["why"]) for row in found["measurements"]
    }
    assert all(row["check"]["passed"] for row in found["measurements"])


def test_unequal_devices_gain_what_their_split_allows(gpumap):
    """Speeds 1 and 0.5: an equal split gives 1.00, a balanced one would give 1.50."""
    found = report(dot(gpumap.fake(script({}, {"rate": RATE // 2})), "--cases", "many"))

    actual = {key: figures(row) for key, row in rows(found).items()}
    assert {
        ("solo", "a"): exact(time=SOLO, device_time=SOLO, rate=RATE),
        ("solo", "b"): exact(time=2 * SOLO, device_time=2 * SOLO, rate=RATE / 2),
        ("one", "a"): exact(time=2 * SOLO, device_time=2 * SOLO, rate=RATE),
        ("many", "a+b"): exact(
            time=2 * SOLO, rate=RATE, speedup=1, ideal=1, efficiency=1, overlap=1,
            ideal_balanced=1.5,
        ),
    } == actual  # fmt: skip


def test_fetches_at_once_do_not_exceed_their_ideal(gpumap):
    """Speeds 1 and 0.5: two fetches of one device against one beside each product."""
    found = report(dot(gpumap.fake(script({}, {"rate": RATE // 2}))))

    row = figures(rows(found)["many+fetch+threads", "a+b"])
    gain = (2 * SOLO + 2 * FETCH) / (2 * SOLO + FETCH)
    actual = {name: row[name] for name in ("speedup", "ideal", "efficiency")}
    assert exact(speedup=gain, ideal=gain, efficiency=1) == actual


def test_launches_are_no_part_of_what_is_called_arithmetic(gpumap):
    """The scripted arithmetic, also where the anchor's samples have a launch each."""
    found = report(dot(gpumap.fake(script(rate=2**40, launch=2.0**-13)), "--cases", "many"))

    why = rows(found)["many", "a+b"]["explanation"]
    assert why["cause"] == "launch-bound"
    assert why["figures"]["arithmetic"]["value"] == pytest.approx(OPERATIONS / 2**40)


def test_the_reference_is_the_faster_device(gpumap):
    """Of two models, whichever name it has."""
    slow = {"rate": RATE // 2, "name": "Slow GPU"}
    found = report(dot(gpumap.fake(script(slow, {})), "--cases", "one,many"))

    assert ("one", "b") in rows(found)
    expected = exact(time=2 * SOLO, device_time=2 * SOLO, rate=RATE)
    assert expected == figures(rows(found)["one", "b"])


def test_devices_that_take_turns_gain_nothing(gpumap):
    """One engine for both: serialised. The placement could do more, and the efficiency says so."""
    found = report(dot(gpumap.fake(script(engine="bus 0")), "--cases", "many"))

    row = rows(found)["many", "a+b"]
    actual = {name: row["metrics"][name]["value"] for name in ("speedup", "ideal", "efficiency")}
    assert exact(speedup=1, ideal=2, efficiency=0.5) == actual


@pytest.mark.parametrize(
    ("text", "map_"), [(script({}), "a->cuda0;b->cuda0"), (script(silicon=["card 0"]), TWO)]
)
def test_names_that_share_silicon_have_an_ideal_of_one(gpumap, text, map_):
    """Flagged, and the map's own warning stands beside it."""
    found = report(dot(gpumap.fake(text), "--cases", "many", map_=map_))

    row = rows(found)["many", "a+b"]
    assert row["flags"] == ["shared-silicon"]
    assert pytest.approx(row["metrics"]["ideal"]["value"], rel=TOL) == 1.0


def test_one_name_has_no_speed_up(gpumap):
    """The rows are there, skipped with the reason; exit 0."""
    answer = dot(gpumap.fake(script({})), map_="a->cuda0")

    found = rows(report(answer))
    skipped = {key for key, row in found.items() if row["status"] == "skipped"}
    assert (0, {("many", "a"), ("many+fetch", "a"), ("many+fetch+threads", "a")}) == (
        answer.code, skipped,
    )  # fmt: skip
    assert {"one-device"} == {found[key]["reason"]["code"] for key in skipped}


# --- the product beside it


def test_anchors_stand_beside_every_group(gpumap):
    """One for each device and size, verified, the same numbers whatever the seed; in JSON alone."""
    both = "a->cuda0;b->cuda1;c->cuda0"
    runs = [report(dot(gpumap.fake(script()), "--seed", seed, size="64,128", map_=both))
            for seed in ("1", "2")]  # fmt: skip
    table = gpumap("bench", "dot", "--size", "64,128", "--map", both)

    for found in runs:
        place = [
            (row["params"]["beside"], *row["names"], *row["devices"]) for row in anchors(found)
        ]
        assert place == [
            ("64", "a", "cuda:0"),
            ("64", "b", "cuda:1"),
            ("128", "a", "cuda:0"),
            ("128", "b", "cuda:1"),
        ]
        for row in anchors(found):
            assert (row["status"], row["check"]["passed"], row["case"]) == ("ok", True, "product")
            assert figures(row) == exact(time=2 * 512**3 / RATE, rate=RATE)
    first, second = ([row["check"] for row in anchors(found)] for found in runs)
    assert first == second
    assert [row["check"] for row in asked(runs[0])] != [row["check"] for row in asked(runs[1])]
    assert "512" not in table.out


def test_a_lost_device_is_told_once_a_row(gpumap):
    """Its anchor is skipped with the reason: what was asked for has failed, and says so."""
    answer = dot(gpumap.fake(script({}, {"fault": "lost"})))

    found = report(answer)
    failed = [row["id"] for row in asked(found) if row["status"] == "failed"]
    assert [error["message"].partition("]:")[0] + "]" for error in found["errors"]] == failed
    reason = {"code": "device-lost", "text": "cuda1 no longer answers"}
    assert [("a", "ok", None), ("b", "skipped", reason)] == [
        (*row["names"], row["status"], row["reason"]) for row in anchors(found)
    ]
    assert "anchor" not in answer.err


def test_very_many_names_on_one_device(gpumap):
    """Three hundred, and still one anchor."""
    names = ";".join(f"n{i}->cuda0" for i in range(300))

    fake = gpumap.fake(script({"rate": 2**29}))
    answer = dot(fake, "--cases", "solo", "--budget", "1000", map_=names)

    found = report(answer)
    assert (answer.code, len(asked(found)), len(anchors(found))) == (0, 300, 1)
    assert {"ok"} == {row["status"] for row in found["measurements"]}


# --- what goes wrong


def test_a_wrong_product_has_no_speed(gpumap):
    """Exit 4, no figures on its rows, and the other device is measured all the same."""
    answer = dot(gpumap.fake(script({}, {"fault": "wrong-product"})))

    found = report(answer)
    failed = {key for key, row in rows(found).items() if row["status"] == "failed"}
    assert (answer.code, found["status"]) == (4, "wrong-data")
    assert {("solo", "b"), ("many", "a+b"), ("many+fetch", "a+b"),
            ("many+fetch+threads", "a+b")} == failed  # fmt: skip
    for key, row in rows(found).items():
        assert (row["metrics"] == {}) == (key in failed)
        assert row["check"]["passed"] == (key not in failed)


def test_a_lost_device_keeps_the_rows_before_it(gpumap):
    """Exit 3; the size that was complete stays, with its figures."""
    whole = report(dot(gpumap.fake(script()), "--cases", "solo", size=64))
    for after in range(150, 4000, 150):
        text = script({}, {"fault": "lost", "fault_after": after})
        answer = dot(gpumap.fake(text), "--cases", "solo", size="64,128")
        found = report(answer)
        first, second = asked(found)[:2], asked(found)[2:]
        if first[1]["status"] == "ok" and second[1]["status"] == "failed":
            break

    assert (answer.code, found["status"]) == (3, "absent")
    assert [row["status"] for row in first + second] == ["ok", "ok", "ok", "failed"]
    assert (second[1]["reason"]["code"], second[1]["metrics"]) == ("device-lost", {})
    expected = [row["metrics"] for row in asked(whole)]
    assert expected == [row["metrics"] for row in first]
    assert "error: dot.solo[" in answer.err


@pytest.mark.parametrize("fault", [{"fault": "memory"}, {"fault": "lost"}])
def test_a_device_that_fails_at_once(gpumap, fault):
    """Exit 3, a whole report, and the device's own words on stderr."""
    answer = dot(gpumap.fake(script({}, fault)))

    found = report(answer)
    assert (answer.code, found["status"]) == (3, "absent")
    assert "cuda1" in answer.err
    assert found["errors"]


def test_a_device_that_hangs_ends_with_the_time_limit(gpumap):
    """Exit 124; the report is whole, and what was not measured is skipped: time limit."""
    text = script({}, {"fault": "hang", "fault_after": 40})
    answer = dot(gpumap.fake(text), "--timeout", "2s")

    found = report(answer)
    assert (answer.code, found["status"]) == (124, "timeout")
    assert (len(asked(found)), len(anchors(found))) == (7, 2)
    skipped = [row["reason"] for row in found["measurements"] if row["status"] == "skipped"]
    assert skipped
    assert all(reason == {"code": "stopped", "text": "time limit"} for reason in skipped)
    assert "error: the time limit of 2 s was reached\n" in answer.err


# --- wrong questions

WHOLE = "is not a size: a whole number from 1 on\n"
SOME = "  fix: --cases takes some of " + ", ".join(CASES) + "\n"
ONE = "  fix: --dtype takes one of float32, float64, float16, bfloat16, tf32\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--size", "0"), f"error: '0' {WHOLE}  fix: write --size 1024\n"),
        (("--size", "-1"), f"error: '-1' {WHOLE}  fix: write --size 1024\n"),
        (("--size", "abc"), f"error: 'abc' {WHOLE}  fix: write --size 1024\n"),
        (("--size", "1e9"), f"error: '1e9' {WHOLE}  fix: write --size 1024\n"),
        (("--cases", "two"), 'error: no case is called "two"\n' + SOME),
        (("--cases", ""), 'error: no case is called ""\n' + SOME),
        (("--dtype", "int8"), 'error: no element type is called "int8"\n' + ONE),
        (("--dtype", "float32,float64"), 'error: no element type is called "float32"\n' + ONE),
    ],
)  # fmt: skip
def test_a_wrong_option_ends_in_its_fix(gpumap, arguments, said):
    """On stderr only; nothing was looked for."""
    answer = gpumap.fake(script())("bench", "dot", *arguments)

    assert (2, "", said.replace("  fix:", "  hint:")) == (
        answer.code, answer.out, answer.err.replace("  fix:", "  hint:"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--budget", "0"), "'0' is not a duration: write 30, 30s, 500ms or 2m"),
        (("--budget", "-1"), "'-1' is not a duration: write 30, 30s, 500ms or 2m"),
        (("--timeout", "abc"), "'abc' is not a duration: write 30, 30s, 500ms or 2m"),
        (("--precision", "2"), "'2' is not a share: write 2% or 0.5%"),
        (("--seed", "-1"), "-1 is not in the range x>=0"),
        (("--format", "pdf"), "'pdf' is not one of"),
    ],
)
def test_a_wrong_value_ends_in_its_fix(gpumap, arguments, said):
    """By the option's own type."""
    answer = gpumap.fake(script())("bench", "dot", *arguments)

    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


@pytest.mark.parametrize("word", ["dott", ""])
def test_an_unknown_benchmark(gpumap, word):
    """Click knows what there is."""
    answer = gpumap("bench", word)

    assert (answer.code, answer.out) == (2, "")
    assert "No such command" in answer.err


def test_an_unknown_backend(gpumap):
    """From the map on there is a report."""
    answer = dot(gpumap, "--backend", "abc", map_="a->cpu0")

    assert (answer.code, "abc" if "abc" in answer.err else answer.err) == (2, "abc")


@pytest.mark.parametrize("map_", ["a->cpu0", "a->cpu0;b->cpu0"])
def test_too_much_memory_is_told_before_it_is_taken(gpumap, map_):
    """A million rows: exit 2, at once, and the fix."""
    answer = dot(gpumap, size=1_000_000, map_=map_)

    found = report(answer)
    error = found["errors"][-1]
    assert {"too-much-memory"} == {said["code"] for said in found["errors"]}
    assert (
        answer.code, error["code"], error["hint"],
    ) == (2, "too-much-memory", "choose a smaller size")  # fmt: skip
    assert error["message"].startswith("the host would need ")


def test_an_element_type_that_the_device_has_not(gpumap):
    """NumPy's float16 is no product of a device; a script says what its devices lack."""
    answers = [
        dot(gpumap, "--dtype", "float16", map_="a->cpu0"),
        dot(gpumap.fake(script(features=["float64"])), "--dtype", "float16"),
    ]

    assert [answer.code for answer in answers] == [2, 2]
    assert "cpu0 (numpy) has no float16 products" in answers[0].err
    assert "use --dtype float32" in answers[1].err


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32", "float64"])
def test_every_element_type_is_verified_against_its_own_rounding(gpumap, dtype):
    """The bound of a narrow type is wider, and a wrong product is wrong all the same."""
    good = report(dot(gpumap.fake(script()), "--dtype", dtype))
    bad = dot(gpumap.fake(script(fault="wrong-product")), "--dtype", dtype)

    assert good["exit_code"] == 0
    assert all(row["check"]["passed"] for row in good["measurements"])
    assert {row["params"]["dtype"] for row in asked(good)} == {dtype}
    assert bad.code == 4


# --- real devices


def pocl():
    """Return the first PoCL device, whole or as two parts, or the reason why there is none."""
    probe = load("pyopencl", Host({**os.environ, "POCL_AFFINITY": "1"}, read())).probe()
    refs = [str(device.ref) for device in probe.devices if device.cores]
    parts = [ref for ref in refs if "." in ref][:2]
    return (parts or refs[:1]), probe.reason or "no OpenCL device on a CPU"


@pytest.mark.parametrize("cases", [(), ("--dtype", "float64")])
def test_real_cores(gpumap, cases):
    """Every product is verified, and every row has its figures."""
    answer = dot(gpumap, "--budget", "1", *cases, map_="a->cpu0")

    found = report(answer)
    assert (answer.code, found["simulated"]) == (0, False)
    assert all(r["check"]["passed"] and r["metrics"] for r in found["measurements"] if r["samples"])
    assert {"ok", "skipped"} == {row["status"] for row in found["measurements"]}


def test_real_opencl_parts(gpumap):
    """PoCL's sub-devices: the real case of several devices without a GPU."""
    refs, reason = pocl()
    if not refs:
        pytest.skip(reason)
    map_ = ";".join(f"dev{n}->{ref}" for n, ref in enumerate(refs))

    answer = dot(gpumap, "--budget", "1", map_=map_)

    found = report(answer)
    assert (answer.code, "" if answer.code == 0 else answer.err) == (0, "")
    assert all(r["check"]["passed"] for r in found["measurements"] if r["status"] == "ok")
    assert {"pyopencl"} == {row["backend"] for row in found["measurements"]}


def test_a_device_that_is_lost_at_once_costs_only_its_own_rows(gpumap):
    """Also in the pilot: what the other device did is there."""
    gpumap.fake('[[device]]\nref = "cuda0"\n[[device]]\nref = "cuda1"\nfault = "lost"')

    answer = gpumap("bench", "dot", "--size", "64", "--format", "json")

    rows = asked(report(answer))
    assert answer.code == 3
    assert {row["status"] for row in rows if "dev1" in row["names"]} == {"failed"}
    assert {row["status"] for row in rows if row["names"] == ["dev0"]} == {"ok"}


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


def test_a_case_that_was_asked_for_is_not_skipped(gpumap):
    """Exit 2 before anything is measured: many needs two names."""
    answer = gpumap("bench", "dot", "--map", "a->cpu0", "--cases", "many", "--quiet")

    said = (
        "error: the case many needs two names, and the map has one\n"
        "  fix: map a second name, or leave the case away\n"
    )
    assert Answer(2, "", said) == answer


def test_too_few_samples_are_a_note(gpumap):
    """Beside their number; no flag is raised for it."""
    (row,) = asked(report(dot(gpumap.fake(script()), "--cases", "one", "--budget", "3s")))

    assert 6 <= row["stop"]["n"] < 20
    assert row["flags"] == []


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGINT] * 3, [signal.SIGTERM]])
def test_an_interruption_leaves_a_whole_report(gpumap, signals):
    """Exit 130, nothing on stderr, a row for every planned case; more Ctrl-C change nothing."""
    path = gpumap.folder / "report.json"
    command = [gpumap.command, "bench", "dot", "--size", "1024,2048", "--map", "a->cpu0",
               "--budget", "60", "--output", str(path), "--quiet"]  # fmt: skip
    child = subprocess.Popen(
        command, cwd=gpumap.folder, env=gpumap.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        _wait_for_worker(child)
        for number in signals:
            child.send_signal(number)
            time.sleep(0.02)
        _, err = child.communicate(timeout=LIMIT)
    finally:
        with suppress(ProcessLookupError):
            child.kill()

    found = report(Answer(child.returncode, path.read_text(), err.decode()))
    assert (child.returncode, err, found["status"]) == (130, b"", "interrupted")
    assert [row["case"] for row in asked(found)] == [
        "solo",
        "one",
        "many",
        "one+fetch",
        "many+fetch",
        "many+fetch+threads",
    ] * 2
    assert all(row["reason"] or row["metrics"] for row in found["measurements"])


def _wait_for_worker(child):
    """Wait until a core's thread has worked for a while: then it measures."""
    tasks = Path(f"/proc/{child.pid}/task")
    end = time.monotonic() + LIMIT
    while time.monotonic() < end and child.poll() is None:
        with suppress(OSError):
            for task in tasks.iterdir():
                ticks = int((task / "stat").read_text().rpartition(")")[2].split()[11])
                if task.name != str(child.pid) and ticks >= 20:
                    return
        time.sleep(0.02)


def test_a_full_disk_is_an_error_of_its_own(gpumap):
    """Exit 2, the result is on stdout all the same, and the message names the file."""
    where = gpumap.folder / "tiny"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(where)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip(f"no tiny file system: {mounted.stderr.decode().strip()}")
    try:
        answer = dot(gpumap.fake(script()), "--output", str(where / "report.json"))
        left = list(where.iterdir())
    finally:
        subprocess.run(["umount", str(where)], check=True)

    assert (answer.code, left) == (2, [])
    assert len(asked(report(answer))) == 7
    assert "report.json: the disk is full\n" in answer.err
