"""Limits and what a gate makes of a report: by options, variables, files, on scripted devices."""

from __future__ import annotations

import json

import pytest
from scripts import report, script
from shell import SIMULATED, Answer, on_a_terminal

from gpumap.judge.select import EVERYWHERE, FAMILIES, taken_apart

TWO = "a->cuda0;b->cuda1"
MANY = "dot.many[backend=fake,dtype=float32,names=a+b,size=64]"
SOLO = "dot.solo[backend=fake,dtype=float32,names={},size=64]"
GOOD = "dot.many.speedup>=1.8"  # it is 2, exactly
BAD = "dot.many.speedup>=2.5"
HINT = "  fix: see what holds it back (`gpumap explain` has each cause), or ask for less\n"
NO_ROW = (
    ": no row that was measured has this\n  fix: --dry-run lists the rows that there would be\n"
)
MISSED = f"error: limit {BAD}: {MANY} has 2.00 [2.00, 2.00]\n{HINT}"


def dot(gpumap, *arguments, map_=TWO, **env):
    """Run a small benchmark."""
    given = ("--size", "64", "--cases", "many", "--map", map_)
    return gpumap("bench", "dot", *given, *arguments, **env)


def limits(*texts):
    """Return the options that ask for limits."""
    return [word for text in texts for word in ("--limit", text)]


def judged(found):
    """Return each verdict: its limit, row and word."""
    return [(v["text"], v["id"], v["verdict"]) for v in found["verdicts"]]


@pytest.fixture
def two(gpumap):
    """Two devices, on which `many` is exactly twice as fast as `one`."""
    return gpumap.fake(script())


# --- verdicts and exit codes


@pytest.mark.parametrize(
    ("asked", "code", "status", "said"),
    [
        ([GOOD], 0, "ok", ""),
        ([BAD], 1, "no", MISSED),
        ([GOOD, BAD], 1, "no", MISSED),
        (["dot.many.speedup<=200%", "dot.many[names=a+b].time<=250us"], 0, "ok", ""),
        (
            ["dot.solo[name=c].time<=1s"], 1, "no",
            f"error: limit dot.solo[name=c].time<=1s{NO_ROW}",
        ),
    ],
)  # fmt: skip
def test_a_limit_decides_the_exit_code(two, asked, code, status, said):
    """What is missed is said with its row, its figure and its interval."""
    answer = dot(two, *limits(*asked), "--format", "json")

    found = report(answer)
    assert (code, status, said) == (answer.code, found["status"], answer.err[len(SIMULATED) :])
    assert (found["exit_code"], answer.err[: len(SIMULATED)]) == (code, SIMULATED)


def test_verdicts_and_settings_are_in_the_report(two):
    """One for each row that a limit selects."""
    found = report(dot(two, *limits(BAD, "dot.solo.time<1s"), "--format", "json"))

    assert found["verdicts"][0] == {
        "rule": "limit", "text": BAD, "id": MANY, "metric": "speedup", "verdict": "fail",
        "value": 2.0, "low": 2.0, "high": 2.0, "limit": 2.5, "base": None, "threshold": None,
        "reason": None, "relative": None,
    }  # fmt: skip
    assert judged(found)[1:] == [("dot.solo.time<1s", SOLO.format(n), "pass") for n in "ab"]
    assert (found["settings"]["inconclusive"], found["settings"]["if_absent"]) == ("fail", "fail")
    assert [(e["code"], e["exit"]) for e in found["errors"]] == [("limit", 1)]


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [("fail", 5, "error"), ("pass", 0, "warning")],
)
def test_a_figure_that_is_too_uncertain(gpumap, word, code, said):
    """Under six blocks are no ground for a pass; to let it pass is said, too."""
    slow = gpumap.fake(script(rate=2**18))
    asked = (*limits(GOOD), "--inconclusive", word, "--budget", "3s")

    answer = dot(slow, *asked, "--format", "json")

    found = report(answer)
    assert (code, "inconclusive", "inconclusive") == (
        answer.code, found["status"], found["verdicts"][0]["verdict"],
    )  # fmt: skip
    (error,) = found["errors"]
    assert (error["code"], error["severity"], error["exit"]) == ("inconclusive", said, code)
    assert dot(slow, *asked, "--quiet").err.startswith("error") == (word == "fail")


def test_a_row_that_was_left_out_for_time_is_no_ground_for_a_failure_either(gpumap):
    """Nothing is known of it, as of one with fewer than six samples."""
    slow = gpumap.fake(script(rate=2**18))

    found = report(dot(slow, *limits(BAD), "--budget", "3s", "--format", "json"))

    reasons = {row["reason"]["code"] for row in found["measurements"] if row["id"] == MANY}
    assert (reasons, found["verdicts"][0]["verdict"]) == ({"budget"}, "inconclusive")


@pytest.mark.parametrize(
    ("words", "code"),
    [((), 0), (("--strict",), 5), (("--strict", "--inconclusive", "pass"), 5)],
)
def test_few_samples_fail_a_run_only_where_that_is_asked_for(gpumap, words, code):
    """Its status is inconclusive whatever its exit code is."""
    slow = gpumap.fake(script(rate=2**18))

    answer = dot(slow, *words, "--budget", "3s", "--format", "json")

    found = report(answer)
    assert (answer.code, found["status"]) == (code, "inconclusive")
    assert (found["exit_code"], found["settings"]["strict"]) == (code, bool(words))
    assert [note["code"] for note in found["map"]["notes"] if note["severity"] == "warning"] == [
        "inconclusive"
    ]


def test_strict_takes_no_warning(gpumap):
    """Two names of one device are one."""
    shared = gpumap.fake(script())

    codes = [dot(shared, *words, map_="a->cuda0;b->cuda0").code for words in ((), ("--strict",))]

    assert codes == [0, 1]


def test_wrong_data_come_before_a_limit(gpumap):
    """Exit 4; the row has no figure, so its limit is missed."""
    wrong = gpumap.fake(script({"fault": "wrong-product"}, {}))

    answer = dot(wrong, *limits(GOOD), "--if-absent", "skip", "--format", "json")

    found = report(answer)
    assert (answer.code, found["status"]) == (4, "wrong-data")
    assert judged(found) == [(GOOD, MANY, "fail")]


def test_a_time_limit_is_no_pass(gpumap):
    """Exit 124, and what was not measured is missing."""
    hanging = gpumap.fake(script({}, {"fault": "hang"}))

    answer = dot(hanging, *limits(GOOD), "--timeout", "2s", "--format", "json")

    found = report(answer)
    assert (answer.code, found["status"]) == (124, "timeout")
    assert judged(found) == [(GOOD, MANY, "missing")]


def test_a_limit_on_the_model_and_on_copies(gpumap):
    """As scripted: 5 us and 50 GB/s."""
    quick = gpumap.fake(script({}, latency=5e-6, bandwidth=5e10, rate=1e12, features=[]))
    asked = ["transfer.h2d.latency<=5.1us", "transfer.h2d[mode=sync,name=a].peak_bandwidth>=49GB/s",
             "transfer.h2d[memory=pageable,mode=sync].bandwidth>=70MB/s",
             "transfer.h2d.half_size<=4KiB"]  # fmt: skip

    answer = quick("transfer-cost", "--map", "a->cuda0", "--sizes", "small", "--cases", "h2d",
                   "--budget", "1s", "--format", "json", *limits(*asked))  # fmt: skip

    words = {}
    for text, id_, word in judged(report(answer)):
        words.setdefault(text, {})[id_.partition("[")[0]] = word
    assert [words[text] for text in asked] == [
        {"transfer.h2d.fit": "pass"}, {"transfer.h2d.fit": "pass"}, {"transfer.h2d": "pass"},
        {"transfer.h2d.fit": "fail"},
    ]  # fmt: skip
    assert answer.code == 1


def test_a_limit_on_a_self_test(two):
    """Whatever measures is a gate."""
    answer = two(
        "selftest", "--map", "a->cuda0", *limits("selftest.b.speedup>=1.5"), "--format", "json"
    )

    assert answer.code == 1
    assert ("selftest.b.speedup>=1.5", "fail") in {
        (t, word) for t, _, word in judged(report(answer))
    }


def test_a_dry_run_judges_nothing(two):
    """And says so."""
    answer = dot(two, *limits(BAD), "--dry-run", "--format", "json")

    assert (answer.code, report(answer)["verdicts"]) == (0, [])
    assert "note: a dry run measures nothing: no limit is judged\n" in answer.err


# --- absent devices

GONE = "a->cuda0;b->cuda7"
NOTE = """\
{} in entry 2: b: cuda7 is not there
  a->cuda0;b->cuda7
           ^~~~~~~~
  {}: there is cuda0, cuda1
"""


def test_absent_devices_can_skip_the_run(two):
    """Exit 0, skipped, and why: nothing has passed."""
    answer = dot(two, *limits(GOOD), "--if-absent", "skip", "--format", "json", map_=GONE)

    found = report(answer)
    assert (answer.code, found["status"], found["exit_code"]) == (0, "skipped", 0)
    assert answer.err == SIMULATED + NOTE.format("note", "hint")
    assert judged(found) == [(GOOD, None, "skipped")]
    assert [(e["code"], e["name"], e["exit"]) for e in found["errors"]] == [("absent", "b", 0)]
    assert found["settings"]["if_absent"] == "skip"


SKIPPED = """\
skipped: b: cuda7 is not there

limits
  limit                  row      figure  verdict
  dot.many.speedup>=1.8  -             -  skipped
"""


def test_a_skipped_run_says_so_on_stdout(two):
    """Also where nobody reads stderr."""
    answer = dot(two, *limits(GOOD), "--if-absent", "skip", "--quiet", map_=GONE)

    assert Answer(0, SKIPPED, "") == answer


def test_absent_devices_fail_by_default(two):
    """Exit 3, before the limits' 1."""
    answer = dot(two, *limits(GOOD), map_=GONE)

    assert answer.code == 3
    assert answer.err == (SIMULATED + NOTE.format("error", "fix") + f"error: limit {GOOD}{NO_ROW}")


def test_a_backend_that_is_not_there_can_skip_the_run(gpumap):
    """No map, no device, and still a report that says why."""
    gpumap.fake("")

    answer = gpumap("bench", "dot", "--if-absent", "skip", "--format", "json")

    found = report(answer)
    assert (answer.code, found["status"]) == (0, "skipped")
    assert {error["code"] for error in found["errors"]} == {"absent"}


@pytest.mark.parametrize("fault", ["lost", "memory"])
def test_a_device_that_fails_is_not_absent(gpumap, fault):
    """It is there: exit 3."""
    answer = dot(gpumap.fake(script({"fault": fault}, {})), "--if-absent", "skip")

    assert answer.code == 3


# --- where limits come from


def words(answer):
    """Return the limits that were judged."""
    return [verdict["text"] for verdict in report(answer)["verdicts"]]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("gpumap.toml", f'limit = "{GOOD}"\n'),
        ("gpumap.toml", f'limit = ["{GOOD}"]\n'),
        ("pyproject.toml", f'[tool.gpumap]\nlimit = ["{GOOD}"]\n'),
    ],
)
def test_limits_of_a_file(two, file, text):
    """One, or a list of them."""
    (two.folder / file).write_text(text)

    assert words(dot(two, "--format", "json")) == [GOOD]


def test_option_then_variable_then_file(two):
    """As with every setting; of the files gpumap.toml comes first."""
    (two.folder / "pyproject.toml").write_text('[tool.gpumap]\nlimit = "dot.many.time<4s"\n')
    by_project = dot(two, "--format", "json")
    (two.folder / "gpumap.toml").write_text('limit = "dot.many.time<3s"\nformat = "json"\n')
    by_file = dot(two)
    variable = {"GPUMAP_LIMIT": "dot.many.time < 2s;\n dot.one.time < 2s ;"}
    by_variable = dot(two, **variable)
    by_option = dot(two, *limits("dot.many.time<1s"), **variable)

    assert [words(answer) for answer in (by_project, by_file, by_variable, by_option)] == [
        ["dot.many.time<4s"], ["dot.many.time<3s"], ["dot.many.time < 2s", "dot.one.time < 2s"],
        ["dot.many.time<1s"],
    ]  # fmt: skip


@pytest.mark.parametrize("blank", [";", " ", ";;", "\n", "; ;"])
def test_a_blank_variable_does_not_turn_limits_off(two, blank):
    """An empty cell of a CI matrix would make every gate green."""
    (two.folder / "gpumap.toml").write_text('limit = "dot.many.time<1ns"\n')

    answer = dot(two, GPUMAP_LIMIT=blank)

    assert (answer.code, "it is set, and holds no limit" in answer.err) == (2, True)


def test_each_command_takes_its_own_limits_of_a_file(two):
    """One file has those of all commands."""
    (two.folder / "gpumap.toml").write_text(f'limit = ["transfer.h2d.latency<1s", "{GOOD}"]\n')

    assert words(dot(two, "--format", "json")) == [GOOD]
    assert two("check", "--map", TWO).code == 0


def test_a_limit_on_what_the_command_does_not_measure(two):
    """On the command line it is a mistake."""
    answer = dot(two, *limits("transfer.h2d.latency<1s"))

    assert Answer(2, "", (
        "error: Invalid value for '--limit': transfer.h2d.latency<1s is a limit on transfer, and "
        "this command measures dot and anchor; leave it to the command that does\n"
        "  see: gpumap bench dot --help\n"
    )) == answer  # fmt: skip


PLACE = """\
dot.many has no metric "spedup"
  dot.many.spedup>1
           ^~~~~~
  fix: write speedup; """


@pytest.mark.parametrize(
    ("make", "origin"),
    [
        (lambda _: (limits("dot.many.spedup>1"), {}), ""),
        (lambda _: ((), {"GPUMAP_LIMIT": "dot.many.spedup>1"}), "the variable GPUMAP_LIMIT"),
        (
            lambda folder: (folder / "gpumap.toml").write_text('limit = "dot.many.spedup>1"'),
            "gpumap.toml or [tool.gpumap]",
        ),
        (
            lambda folder: (folder / "pyproject.toml").write_text(
                '[tool.gpumap]\nlimit = "dot.many.spedup>1"'
            ),
            "gpumap.toml or [tool.gpumap]",
        ),
    ],
)
def test_a_limit_that_is_none_is_refused_before_anything_runs(gpumap, make, origin):
    """Wherever it is from: with its place, and what there is. No script, so no device is asked."""
    made = make(gpumap.folder)
    arguments, env = made if isinstance(made, tuple) else ((), {})

    answer = dot(gpumap, *arguments, "--backend", "fake", **env)

    assert (answer.code, answer.out) == (2, "")
    assert PLACE in answer.err
    assert (f"  the value is from {origin}\n" in answer.err) == bool(origin)


@pytest.mark.parametrize(
    "text",
    ["dot.many.\x1b[31m>=1", "dot.many[name=\x1b[2J,size=\u202e].x>=1", "\x07" * 9, "::error::x",
     "dot.many.speedup>=\x1b[31m1", "<script>alert(1)</script>"],
)  # fmt: skip
def test_a_hostile_limit_is_harmless(two, text):
    """No control character reaches the terminal, and no traceback."""
    answer = dot(two, *limits(text))

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.replace("\n", "").isprintable()
    assert "Traceback" not in answer.err


def test_a_hostile_name_is_harmless_in_a_verdict(two):
    """It is shown as ids write it."""
    name = "<b>[red]%|`::error::"
    limit = f"dot.solo[name={name.replace(']', '%5d')}].time<1s"

    answer = dot(two, *limits(limit), "--format", "json", map_=f"{name}->cuda0;b->cuda1")

    quoted = "<b%3e%5bred%5d%25|`::error::"
    assert judged(report(answer)) == [(limit, SOLO.format(quoted), "pass")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("map = 'a->cuda0'\n", ': unknown key "map"\n  fix: remove it; known are limit\n'),
        (
            "limit = 3\n",
            ': limit is not a text or a list of texts\n  fix: write limit = "..."\n',
        ),
    ],
)
def test_a_project_asks_for_limits_only(two, text, said):
    """A map is a machine's, and stands in gpumap.toml."""
    (two.folder / "pyproject.toml").write_text(f"[tool.gpumap]\n{text}")

    assert Answer(2, "", f"error: {two.folder}/pyproject.toml{said}") == dot(two)


def test_settings_of_gpumap_toml_reach_a_benchmark(two):
    """A command inside of a group has the same defaults as any other."""
    (two.folder / "gpumap.toml").write_text('format = "json"\nquiet = true\n')

    answer = dot(two)

    assert (answer.code, answer.err, json.loads(answer.out)["status"]) == (0, "", "ok")


# --- as tables


def test_verdicts_are_a_table_on_a_terminal(two):
    """With every word of the limit."""
    given = ("bench", "dot", "--size", "64", "--cases", "many", "--map", TWO, *limits(GOOD))

    code, out = on_a_terminal(two, *given, columns=160)

    assert code == 0
    assert GOOD in out
    assert "pass" in out[out.index("limits") :]


# --- the table of rows


@pytest.mark.parametrize(
    ("command", "device"),
    [
        (("bench", "dot", "--size", "64"), {}),
        (
            ("transfer-cost", "--sizes", "small", "--budget", "1s", "--cases", "h2d,affine"),
            {"latency": 5e-6, "bandwidth": 5e10, "rate": 1e12, "features": []},
        ),
        (("bench", "chain", "--rows", "100", "--budget", "2s"), {}),
        (("selftest",), {}),
    ],
)
def test_a_limit_can_select_every_row_by_every_key_and_figure(gpumap, command, device):
    """What a report has and the table of selectors has not, nobody could set a limit on."""
    fake = gpumap.fake(f"[host]\nrate = 1e8\n{script(**device)}")

    found = report(fake(*command, "--map", "a->cuda0", "--format", "json"))

    known = {f"{f.bench}.{case}{f.suffix}": f for f in FAMILIES for case in f.cases}
    rows = [*found["measurements"], *found["fits"], *found["break_evens"]]
    for row in rows:
        head, keys = taken_apart(row["id"])
        family = known[head]
        assert set(keys) | set(row.get("params", ())) <= {*family.keys, *EVERYWHERE}
        assert set(row["metrics"]) <= set(family.metrics)
    assert {"bench": 0, "transfer-cost": 2, "selftest": 0}[command[0]] <= len(found["fits"])


def test_the_example_of_a_limit_is_a_limit(gpumap):
    """Also where the selector in front of its operator is wrong."""
    answer = gpumap("bench", "dot", "--limit", "h2d.time<1ms")

    assert answer.code == 2
    assert "write it as dot.many.speedup>=1.8 or " in answer.err
