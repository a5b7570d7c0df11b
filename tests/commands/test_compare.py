"""`gpumap compare` and --base: verdicts, exit codes, accepting, confirming; on scripted devices."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time

import click
import pytest
import saved_reports
from scripts import RATE, asked, report, script
from shell import Shell

from gpumap.cli import group
from gpumap.commands import again, interrupts
from gpumap.errors import QuestionError

TWO = "a->cuda0;b->cuda1"
PRODUCT = 2.0**-12
RATIO = pytest.approx(1.276, rel=3e-3)  # of the slow launches
SLOW = 1.25 * PRODUCT  # seconds for each launch: a small product takes more, no anchor does


def dot(gpumap, *arguments, map_="a->cuda0", cases="solo", **env):
    """Run a small benchmark; small products need no time to be multiplied for real."""
    given = ("--size", "64", "--cases", cases, "--map", map_)
    return gpumap("bench", "dot", *given, "--quiet", *arguments, **env)


def saved(gpumap, name, *arguments, code=0, **env):
    """Run it, and keep its report."""
    answer = dot(gpumap, "--output", name, *arguments, **env)
    assert answer.code == code, answer.err
    return gpumap.folder / name


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A base, and a report of a device that launches more slowly: measured once for all tests."""
    folder, home = (tmp_path_factory.mktemp(name) for name in ("pair", "home"))
    shell = Shell(folder, {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"})
    saved(shell.fake(script({})), "base.json")
    saved(shell.fake(script({}, launch=SLOW)), "new.json")
    return folder


@pytest.fixture
def pair(gpumap, measured):
    """Both of them, and the device that launches slowly."""
    for name in ("base.json", "new.json"):
        shutil.copy(measured / name, gpumap.folder)
    return gpumap.fake(script({}, launch=SLOW))


def compare(gpumap, *arguments, base="base.json", new="new.json", **env):
    """Compare two saved reports."""
    return gpumap("compare", base, new, *arguments, **env)


def judged(answer):
    """Return what was judged of each row: case, metric, word."""
    return [
        (v["id"].partition("[")[0], v["metric"], v["verdict"]) for v in report(answer)["verdicts"]
    ]


def edited(gpumap, name, change):
    """Change a saved report."""
    path = gpumap.folder / name
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


# --- verdicts


@pytest.mark.parametrize("name", ["base.json", "new.json"])
def test_a_forged_report_is_not_judged(pair, name):
    """An error is at most 1, whatever a file says of its bound."""

    def change(tree):
        for row in tree["measurements"]:
            row["check"] |= {"max_error": 1e29, "bound": 1e30}

    edited(pair, name, change)

    answer = compare(pair)

    assert (answer.code, answer.out) == (2, "")


def notes(answer):
    """Return the codes and severities of a report's notes, but that it is simulated."""
    every = [(n["code"], n["severity"]) for n in report(answer)["map"]["notes"]]
    return [note for note in every if note[0] != "simulated"]


def codes(answer):
    """Return the codes and exits of a report's errors."""
    return [(error["code"], error["exit"]) for error in report(answer)["errors"]]


def test_a_threshold_that_is_not_reached(pair):
    """Of 30 %."""
    assert compare(pair, "--threshold", "30%").code == 0
    assert compare(pair, GPUMAP_THRESHOLD="30%").code == 0


@pytest.mark.parametrize(
    ("rate", "code", "reason"), [(2.0**30, 1, "device-slower"), (2.0**32, 0, None)]
)
def test_a_device_that_changed_is_judged(gpumap, rate, code, reason):
    """Half as fast, its control too: an alarm. Twice as fast: none, and a note."""
    saved(gpumap.fake(script({})), "base.json")
    saved(gpumap.fake(script({}, rate=rate)), "new.json")

    found = report(compare(gpumap, "--format", "json"))
    assert (found["exit_code"], [v["reason"] for v in found["verdicts"]]) == (code, [reason])
    assert "compared" in {note["code"] for note in found["map"]["notes"]}


@pytest.mark.parametrize(("more", "code"), [((), 5), (("--inconclusive", "pass"), 0)])
def test_what_stays_open_is_exit_5(gpumap, more, code):
    """Five blocks give no interval."""
    saved(gpumap.fake(script({})), "base.json")

    tree = json.loads((gpumap.folder / "base.json").read_text())
    (gpumap.folder / "new.json").write_text(json.dumps(saved_reports.few(tree, 5)))
    answer = compare(gpumap, "--format", "json", *more)
    found = report(answer)
    assert (answer.code, [(v["verdict"], v["reason"]) for v in found["verdicts"]]) == (
        code, [("inconclusive", "few-samples")],
    )  # fmt: skip
    assert codes(answer) == [("inconclusive", code)]


@pytest.mark.parametrize(("more", "code"), [((), 1), (("--allow-missing",), 0)])
@pytest.mark.parametrize(
    ("base", "new", "word"), [("all", "one", "missing"), ("one", "all", "new")]
)
def test_a_row_that_only_one_report_has(gpumap, base, new, word, more, code):
    """Is no pass, unless that is allowed; and it is said all the same."""
    gpumap.fake(script({}))
    saved(gpumap, "one.json")
    saved(gpumap, "all.json", cases="solo,one")

    answer = compare(gpumap, "--format", "json", *more, base=f"{base}.json", new=f"{new}.json")
    assert (answer.code, judged(answer)) == (
        code, [("dot.solo", "time", "pass"), ("dot.one", "time", word)],
    )  # fmt: skip
    assert codes(answer) == [(word, code)]


@pytest.mark.parametrize("more", [(), ("--allow-missing",), ("--other-machine",)])
def test_nothing_in_common_is_no_pass(gpumap, more):
    """Whatever is allowed."""
    gpumap.fake(script({}))
    saved(gpumap, "base.json")
    saved(gpumap, "new.json", "--size", "32")

    answer = compare(gpumap, *more)
    assert answer.code == 1
    assert ("nothing-judged", 1) in codes(compare(gpumap, *more, "--format", "json"))


# --- what cannot be compared


def test_another_machine_is_compared_only_where_that_is_wished(pair):
    """Exit 2; else the ratio, no verdict, and exit 0. Another device is another machine."""
    other = {"hash": "sha256:" + "0" * 64, "cpu": "Another"}
    edited(pair, "base.json", lambda r: r["fingerprint"].update(other))

    refused, wished = compare(pair), compare(pair, "--other-machine", "--format", "json")

    (verdict,) = report(wished)["verdicts"]
    assert (refused.code, refused.out, wished.code) == (2, "", 0)
    assert (verdict["verdict"], verdict["threshold"], verdict["value"]) == ("skipped", None, RATIO)
    saved(pair.fake(script()), "cuda1.json", map_="a->cuda1")
    assert compare(pair, base="cuda1.json").code == 2


@pytest.mark.parametrize("which", ["base", "new"])
@pytest.mark.parametrize(
    ("keys", "arguments", "code"),
    [
        ({"fault": "wrong-product"}, (), 4),
        ({"fault": "lost", "fault_after": 50}, (), 3),
        ({}, ("--dry-run",), 0),
    ],
)
def test_a_broken_report_is_refused(gpumap, which, keys, arguments, code):
    """Whichever it is; with a whole report of the refusal."""
    saved(gpumap.fake(script({})), "good.json")
    saved(gpumap.fake(script({}, **keys)), "bad.json", *arguments, code=code)

    files = {"base": "good.json", "new": "good.json", which: "bad.json"}
    answer = compare(gpumap, "--format", "json", **files)
    found = report(answer)
    assert (answer.code, found["status"], found["verdicts"]) == (2, "error", [])
    assert f"the {which} report cannot be compared: " in found["errors"][0]["message"]


def test_a_script_and_hardware_are_not_compared(gpumap):
    """Simulated figures are never held against real ones."""
    saved(gpumap.fake(script({})), "base.json")
    real = {"GPUMAP_BACKEND": "numpy"}
    saved(gpumap, "new.json", "--budget", "500ms", map_="a->cpu0", **real)

    answer = compare(gpumap)
    assert (answer.code, "one is simulated and the other is real" in answer.err) == (2, True)


@pytest.mark.parametrize("text", ["", "{}", "[" * 100_000, None], ids=range(4))
def test_what_is_no_report_is_refused(pair, text):
    """It stays as it is."""
    path = pair.folder / "odd.json"
    path.write_text((pair.folder / "base.json").read_text()[:2000] if text is None else text)
    before = path.read_text()

    for which in ("base", "new"):
        answer = compare(pair, **{which: "odd.json"})
        assert (answer.code, answer.out, path.read_text()) == (2, "", before)
        assert "odd.json" in answer.err


# --- what is said beside it


def test_another_version_is_a_note(pair):
    """Whether a new library is slower is what users ask."""
    edited(pair, "base.json", lambda r: r["fingerprint"]["libraries"].update(other="1"))

    answer = compare(pair, "--format", "json", new="base.json")
    assert (answer.code, notes(answer)) == (0, [])
    answer = compare(pair, "--format", "json")
    assert (answer.code, notes(answer)) == (1, [("compared", "note")])


def test_a_variable_that_was_set_otherwise_is_told(gpumap):
    """It may be why."""
    gpumap.fake(script({}))
    saved(gpumap, "base.json", OMP_NUM_THREADS="1")
    saved(gpumap, "new.json")

    assert "note: OMP_NUM_THREADS: 1 in base, nothing in new: " in compare(gpumap).err


# --- accepting


def test_accepting_writes_new_over_base(pair):
    """With why, when and what inside; and then it is the base."""
    answer = compare(pair, "--accept", "a new driver", "--format", "json")
    base, new = (json.loads((pair.folder / f"{n}.json").read_text()) for n in ("base", "new"))

    (entry,) = base.pop("accepted")
    assert (answer.code, report(answer)["status"], new.pop("accepted")) == (0, "ok", [])
    assert base == new
    assert entry.pop("when").endswith("Z")
    assert entry.pop("base_started") < entry["new_started"]
    assert entry == {
        "reason": "a new driver", "verdicts": {"regression": 1}, "new_started": new["started"],
    }  # fmt: skip
    assert compare(pair).code == 0
    assert "note: base.json is now " in answer.err
    assert "warning: " in answer.err


def test_the_history_of_a_base_is_kept(pair):
    """The first acceptance stands first; and the file is a report by the schema."""
    compare(pair, "--accept", "first")
    compare(pair, "--accept", "second\n<b>")

    found = json.loads((pair.folder / "base.json").read_text())
    report(type("Answer", (), {"out": json.dumps(found)}))
    assert [entry["reason"] for entry in found["accepted"]] == ["first", "second\n<b>"]
    assert [entry["verdicts"] for entry in found["accepted"]] == [{"regression": 1}, {"pass": 1}]


def test_another_machine_is_accepted_only_where_it_may_be_another(pair):
    """A base moves to new hardware by --other-machine; the entry says that nothing was judged."""
    edited(pair, "base.json", lambda r: r["fingerprint"].update(cpu="Another"))
    before = (pair.folder / "base.json").read_bytes()

    assert compare(pair, "--accept", "new runner").code == 2
    assert (pair.folder / "base.json").read_bytes() == before
    assert compare(pair, "--accept", "new runner", "--other-machine").code == 0
    (entry,) = json.loads((pair.folder / "base.json").read_text())["accepted"]
    assert entry["verdicts"] == {"skipped": 1}


@pytest.mark.parametrize("reason", ["", " \n"])
def test_accepting_without_a_reason_is_refused(pair, reason):
    """Nothing is written."""
    before = (pair.folder / "base.json").read_bytes()

    assert compare(pair, "--accept", reason).code == 2
    assert (pair.folder / "base.json").read_bytes() == before


@pytest.mark.parametrize(
    ("keys", "arguments", "code"),
    [({"fault": "wrong-product"}, (), 4), ({}, ("--dry-run",), 0), ({}, ("--size", "32"), 0)],
)
def test_what_is_broken_or_another_thing_is_not_accepted(pair, keys, arguments, code):
    """The old base stays."""
    before = (pair.folder / "base.json").read_bytes()
    saved(pair.fake(script({}, **keys)), "bad.json", *arguments, code=code)

    assert compare(pair, "--accept", "yes", new="bad.json").code == 2
    assert (pair.folder / "base.json").read_bytes() == before


def test_a_disk_that_is_full_leaves_the_old_base(pair):
    """As a limit on the size of files does; nothing is left beside it."""
    before = (pair.folder / "base.json").read_bytes()
    files = sorted(pair.folder.iterdir())
    command = f"ulimit -f 1; exec {pair.command} compare base.json new.json --accept yes"

    assert pair.run(["bash", "-c", command]).code == 2
    assert (pair.folder / "base.json").read_bytes() == before
    assert sorted(pair.folder.iterdir()) == files


# --- confirming


def test_confirming_pools_the_samples_of_both_runs(pair):
    """Of the same device; the saved report stays as it was."""
    before = (pair.folder / "new.json").read_bytes()
    answer = compare(pair, "--confirm", "--format", "json")

    (verdict,) = report(answer)["verdicts"]
    assert (answer.code, verdict["verdict"], verdict["value"]) == (1, "regression", RATIO)
    assert notes(answer) == [("compared", "note")]
    assert (pair.folder / "new.json").read_bytes() == before  # it names this file as its output


def test_half_of_the_samples_slow_is_no_pass(pair):
    """The device is as it was: the first samples count all the same."""
    pair.fake(script({}))
    answer = compare(pair, "--confirm", "--format", "json")

    (verdict,) = report(answer)["verdicts"]
    assert (answer.code, verdict["verdict"]) == (5, "inconclusive")
    assert verdict["low"] < 1.05 < verdict["high"]


def test_what_is_not_suspicious_is_not_measured_again(pair):
    """A device that is lost by now changes nothing."""
    pair.fake(script({}, fault="lost"))

    assert compare(pair, "--confirm", new="base.json").code == 0


@pytest.mark.parametrize("fault", ["lost", "wrong-product"])
def test_what_cannot_be_measured_again_is_no_pass(pair, fault):
    """It stays what it was, with a warning."""
    pair.fake(script({}, fault=fault))
    answer = compare(pair, "--confirm", "--format", "json")

    (verdict,) = report(answer)["verdicts"]
    assert (answer.code, verdict["verdict"]) == (1, "regression")
    assert [severity for _, severity in notes(answer)] == ["warning"]


def test_confirming_does_not_confirm_itself(pair):
    """Neither options nor variables that judge or write go along."""
    env = {
        "GPUMAP_CONFIRM": "1", "GPUMAP_BASE": "base.json", "GPUMAP_FORMAT": "json",
        "GPUMAP_LIMIT": "dot.solo.time<=1ns", "GPUMAP_OUTPUT": "json=other.json",
    }  # fmt: skip
    answer = compare(pair, **env)

    other = json.loads((pair.folder / "other.json").read_text())
    assert (answer.code, other["kind"], judged(answer)) == (
        1, "compare", [("dot.solo", "time", "regression")],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["run", "rm"], "its command line is not one of bench and transfer-cost"),
        (["transfer-cost"], "its command line is not one of"),  # it says that it is a bench
        (["bench", "nothing"], 'there is no command "nothing"'),
        (["bench"], 'there is no command ""'),
        (["bench", "dot", "--evil"], 'its command line has "--evil", which is no option'),
        (["bench", "dot", "a->cpu0"], 'its command line has "a->cpu0", which is no option'),
    ],
)
def test_a_report_of_another_command_is_not_run(pair, argv, why):
    """Its command line is text from a file: only what measures is run, with options it knows."""
    edited(pair, "new.json", lambda r: r.update(argv=argv))

    answer = compare(pair, "--confirm", "--format", "json")

    assert answer.code == 1
    assert any(why in note["message"] for note in report(answer)["map"]["notes"])


def test_only_options_that_measure_are_repeated():
    """However they are written."""
    with group.make_context("gpumap", ["bench"], resilient_parsing=True) as context:
        bench = group.get_command(context, "bench")
        command = bench.get_command(context, "dot")
    options = {text: p for p in command.params for text in (*p.opts, *p.secondary_opts)}
    given = [
        "--size", "64", "--output", "x", "--output=json=y", "--quiet", "--limit", "--size",
        "--format=json", "--base=b", "--confirm", "--allow-missing", "--other-machine",
        "--threshold", "1%", "--inconclusive", "pass", "--if-absent=skip", "--map", "a->cpu0",
        "--map-file=m", "--require-idle", "--budget=1s", "--seed",
    ]  # fmt: skip

    assert list(again._kept(given, options)) == [
        "--size", "64", "--require-idle", "--budget=1s", "--seed",
    ]  # fmt: skip
    with pytest.raises(QuestionError):
        list(again._kept(["--", "x"], options))


def test_every_option_that_judges_or_writes_is_left_away():
    """A new option of these groups must not slip by."""
    with group.make_context("gpumap", ["bench"], resilient_parsing=True) as context:
        commands = [group.get_command(context, name) for name in again.COMMANDS]
    commands += [c for g in commands if isinstance(g, click.Group) for c in g.commands.values()]
    named = {p.name for command in commands for p in command.params}

    assert named >= again._LEFT_AWAY
    assert named - again._LEFT_AWAY == {
        "size", "dtype", "cases", "sizes", "model", "backend", "budget", "timeout", "precision",
        "reference", "rows", "seed", "dry_run", "require_idle", "comm", "algorithm", "wire",
        "tensors", "alpha", "average", "batch", "batch_per_device", "chance", "input_", "learn",
        "network", "optimizer", "preset", "rate", "rule", "start", "sweep", "tau", "warmup",
    }  # fmt: skip


def test_who_waits_for_the_fresh_run_can_end_it(pair):
    """SIGTERM: exit 130, with a report."""
    log = pair.folder / "commands.log"
    pair.fake(f'log = "{log.name}"\n' + script({}, fault="hang", fault_after=20))
    process = subprocess.Popen(
        [pair.command, "compare", "base.json", "new.json", "--confirm", "--format", "json"],
        cwd=pair.folder, env=pair.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while not log.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)

    found = json.loads(out)
    assert (process.returncode, found["status"], found["verdicts"]) == (130, "interrupted", [])


def test_an_ignored_interrupt_is_heard_while_the_fresh_run_is_waited_for():
    """A run that ends ignores it, so that its report is written; but this may take long."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in interrupts.ENDING}
    try:
        with pytest.raises(KeyboardInterrupt), again._interruptible():
            signal.raise_signal(signal.SIGINT)
        assert {signal.getsignal(number) for number in interrupts.ENDING} == {signal.SIG_IGN}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("limit", ["soon", None, -1, 0, 1e30, True, [3]])
def test_a_time_limit_that_is_none_is_not_believed(limit):
    """A report may be edited."""
    made = type("Report", (), {"settings": {"timeout_s": limit}})

    expected = 1 if limit is True else again._LIMIT
    assert again._limit(made) == expected + again._GRACE


# --- while measuring


def test_a_base_and_a_limit_are_both_judged(gpumap):
    """Either can say no."""
    saved(gpumap.fake(script({})), "base.json")
    answer = dot(gpumap, "--base", "base.json", "--limit", "dot.solo.time<=1ns", "--format", "json")

    assert (answer.code, [(v["rule"], v["verdict"]) for v in report(answer)["verdicts"]]) == (
        1, [("limit", "fail"), ("base", "pass")],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rate", "given", "name"),
    [(1.0, (), "a"), (1.0, ("--base", "base.json"), "b"), (0.5, ("--base", "base.json"), "b")],
    ids=["no base", "as fast", "slow"],
)
def test_the_reference_runs_where_it_ran_in_the_base(gpumap, rate, given, name):
    """Its row has the same id then: it is not missing, however fast the devices are now."""
    two = ({"name": "Fake GPU A"}, {"name": "Fake GPU B", "rate": 1.25 * RATE})
    saved(gpumap.fake(script(*two)), "base.json", cases="one", map_=TWO)
    two[1]["rate"] = rate * RATE

    answer = dot(gpumap.fake(script(*two)), *given, "--format", "json", cases="one", map_=TWO)

    assert [row["names"] for row in asked(report(answer))] == [[name]]
    assert "missing" not in answer.err


def test_a_run_that_confirms_has_the_same_reference(gpumap):
    """Whatever is faster by now: most samples of both runs are as quick as those of the base."""
    rates = {"base.json": (1.0, 1.25), "new.json": (1.0, 0.25), None: (2.0, 1.25)}
    for name, (one, other) in rates.items():
        slow, quick = {"name": "A", "rate": one * RATE}, {"name": "B", "rate": other * RATE}
        gpumap.fake(script(slow, quick))
        given = ("--base", "base.json") if name == "new.json" else ()
        if name is not None:
            dot(gpumap, *given, "--output", name, cases="one", map_=TWO)

    answer = compare(gpumap, "--confirm", "--format", "json")

    (verdict,) = report(answer)["verdicts"]
    assert (answer.code, verdict["verdict"]) == (0, "pass")


def test_copies_are_held_against_a_base(gpumap):
    """Through the same anchor, spacing like time; not the ladder of the model."""
    run = ("transfer-cost", "--sizes", "1KiB", "--cases", "h2d", "--map", "a->cuda0", "--quiet",
           "--format", "json")  # fmt: skip
    keys = {"features": ["kernels"], "latency": 2.0**-12}
    gpumap.fake(script(keys))(*run, "--output", "base.json")
    answer = gpumap.fake(script(keys | {"bandwidth": 2**22}))(*run, "--base", "base.json")

    found = judged(answer)
    assert answer.code == 1
    assert {word for _, _, word in found} == {"regression"}
    assert {metric for _, metric, _ in found} <= {"time", "spacing", "speedup"}


def test_a_benchmark_confirms_by_itself(gpumap):
    """The samples of a second run join those of the first."""
    saved(gpumap.fake(script({})), "base.json")
    gpumap.fake(script({}, launch=SLOW))
    answer = dot(gpumap, "--base", "base.json", "--confirm", "--output", "json=new.json")

    found = json.loads((gpumap.folder / "new.json").read_text())
    words = [v["verdict"] for v in found["verdicts"]]
    assert (answer.code, words) == (1, ["regression"])
    assert "compared" in {note["code"] for note in found["map"]["notes"]}


@pytest.mark.parametrize("text", [None, "{}", "dry"])
def test_a_base_that_cannot_be_used_is_told_before_anything_is_measured(gpumap, text):
    """Exit 2, and no device was touched."""
    log = gpumap.folder / "commands.log"
    gpumap.fake('log = "commands.log"\n' + script({}))
    if text == "dry":
        saved(gpumap, "base.json", "--dry-run")
        log.unlink(missing_ok=True)
    elif text is not None:
        (gpumap.folder / "base.json").write_text(text)

    answer = dot(gpumap, "--base", "base.json")
    assert (answer.code, answer.out, log.exists()) == (2, "", False)


@pytest.mark.parametrize(
    "option", ["--confirm", "--allow-missing", "--other-machine", "--threshold=1%"]
)
def test_terms_without_a_base_are_refused(gpumap, option):
    """A gate that judges nothing would be green for ever."""
    assert dot(gpumap.fake(script({})), option).code == 2


def test_a_base_of_another_machine_is_told_before_anything_is_measured(gpumap):
    """As soon as the devices are known; where that is wished all the same, it is measured."""
    saved(gpumap.fake(script()), "base.json", map_="a->cuda1")
    given = ("--base", "base.json", "--format", "json")
    refused, wished = dot(gpumap, *given), dot(gpumap, *given, "--other-machine")
    real = dot(gpumap, *given, map_="a->cpu0", GPUMAP_BACKEND="numpy")

    assert (refused.code, {row["status"] for row in report(refused)["measurements"]}) == (
        2, {"skipped"},
    )  # fmt: skip
    assert "ok" in {row["status"] for row in report(wished)["measurements"]}
    assert (real.code, report(real)["measurements"]) == (2, [])  # the base is simulated


@pytest.mark.parametrize(
    ("keys", "arguments", "code"),
    [
        ({"fault": "wrong-product"}, (), 4),
        ({"fault": "lost"}, (), 3),
        ({}, ("--dry-run",), 0),
        ({"ref": "cuda7"}, ("--if-absent", "skip"), 0),
    ],
)
def test_a_run_that_failed_keeps_its_exit_code(gpumap, keys, arguments, code):
    """It is not compared: nothing has passed, and nothing failed."""
    saved(gpumap.fake(script({})), "base.json")
    gpumap.fake(script({}, **keys))
    answer = dot(gpumap, "--base", "base.json", *arguments, "--format", "json")

    assert (answer.code, report(answer)["verdicts"]) == (code, [])


@pytest.mark.parametrize("name", ["base.json", "new.json"])
def test_a_comparison_is_not_written_over_a_report(gpumap, pair, name):
    """It is no report of figures: the base would be gone."""
    before = (gpumap.folder / name).read_bytes()

    answer = compare(pair, "--output", name)

    assert (answer.code, (gpumap.folder / name).read_bytes()) == (2, before)
