"""`gpumap scale`: a program on one name, on two and so on: which runs there are, how it ends."""

import csv
import signal
import sys
from types import SimpleNamespace

import pytest
from backends.frameworks import needs
from flat_report import loads
from ranks import ALLOWED, ROOT, needs_mpirun, two_cores
from shell import ended, until
from tables import table

from gpumap.app.scaling import _judged
from gpumap.judge.scaling import scale as answer
from gpumap.model import Estimate, replace
from gpumap.model.io import read

TWO = "a->cpu0;b->cpu1"
TEXTS = table(__file__)
pytestmark = two_cores


def scaled(gpumap, *options, code="pass", budget="1ms", **env):
    """Return the answer and the report; by default of one turn."""
    command = ["--budget", budget, "--output", "r.json", "--", sys.executable, "-c", code]
    answer = gpumap("scale", TWO, *options, *command, **env)
    return answer, loads((gpumap.folder / "r.json").read_text())


def test_each_run_has_the_cores_of_its_names_and_no_rank(gpumap):
    """A first run that does not count, and then a turn; inside, cores are counted anew."""
    answer, report = scaled(gpumap, "--inconclusive", "pass", code=TEXTS["told"])
    lines = [loads(line) for line in (gpumap.folder / "told").read_text().splitlines()]
    one = {"GPUMAP_COUNT": "1", "GPUMAP_CONTEXTS": "a->cpu0",
           "OMP_NUM_THREADS": "1", "RANK": None, "CUDA_VISIBLE_DEVICES": "",
           "GPUMAP_NAME": None, "cores": ALLOWED[:1]}  # fmt: skip
    both = one | {"GPUMAP_COUNT": "2", "GPUMAP_CONTEXTS": TWO,
                  "OMP_NUM_THREADS": lines[0]["OMP_NUM_THREADS"], "cores": ALLOWED[:2]}  # fmt: skip
    assert lines == [both, one, both]
    assert int(both["OMP_NUM_THREADS"]) in (1, 2)  # of two logical cores of one physical core 1
    assert (answer.code, "not shown" in answer.out) == (0, False)
    steps = report["scaling"]["steps"]
    assert [(step["names"], len(step["runs"])) for step in steps] == [(["a"], 1), (["a", "b"], 1)]
    assert [step["time"]["unit"] for step in steps] == ["s", "s"]


def test_with_ranks_each_name_is_a_process_of_a_job_of_its_own(gpumap):
    """As `gpumap run` starts them: a free port for each run, one core each, and its own work."""
    told = TEXTS["told"].replace('"RANK",', '"RANK", "WORLD_SIZE", "MASTER_PORT",')
    answer, report = scaled(gpumap, "--ranks", "--inconclusive", "pass", code=told + TEXTS["burn"])
    lines = [loads(line) for line in (gpumap.folder / "told").read_text().splitlines()]
    seen = sorted((i["WORLD_SIZE"], i["RANK"], i["GPUMAP_NAME"], i["cores"]) for i in lines)
    both = [("2", "0", "a", ALLOWED[:1]), ("2", "1", "b", ALLOWED[1:2])]
    assert seen == sorted([("1", "0", "a", ALLOWED[:1]), *both, *both])
    assert {line["GPUMAP_COUNT"] for line in lines} == {None}
    assert [line["CUDA_VISIBLE_DEVICES"] for line in lines] == [""] * 5
    ports = [line["MASTER_PORT"] for line in lines]
    assert (ports[0], ports[3]) == (ports[1], ports[4])  # of both ranks of a run
    assert (answer.code, report["scaling"]["ranks"], report["settings"]["ranks"]) == (0, True, True)
    (run,) = report["scaling"]["steps"][1]["runs"]
    first, second = run["worked_s"]
    assert first > 0.7 > second > 0.0  # of CPU time: what rank 0 did, and to start a Python


@pytest.mark.parametrize(("option", "times"), [((), 1), (("--weak",), 2)])
def test_weak_scaling_counts_the_work_that_grows(gpumap, option, times):
    """Of the same runs twice the speed-up: on two names the work is twice that of one."""
    _, report = scaled(gpumap, *option, "--inconclusive", "pass")
    one, both = report["scaling"]["steps"]
    ratio = one["runs"][0]["elapsed_s"] / both["runs"][0]["elapsed_s"]
    assert both["speedup"]["value"] == pytest.approx(times * ratio)


def test_a_program_that_wants_a_rank_is_offered_ranks(gpumap):
    """With its own words; one that fails of something else is not."""
    wants = "import os\nos.environ['RANK']"
    answer, _ = scaled(gpumap, code=wants)
    line = "it is a program of ranks: gpumap scale --ranks 'a->cpu0;b->cpu1' --budget 1ms"
    assert (answer.code, line in answer.err) == (1, True)
    answer = gpumap("scale", TWO, "--", sys.executable, "-c", wants, "scale")
    assert answer.err.rstrip().endswith(" scale")  # a word of the command's own
    answer, _ = scaled(gpumap, code="raise SystemExit('no rank is lower')")
    assert "--ranks" not in answer.err
    answer, _ = scaled(gpumap, "--ranks", "--inconclusive", "pass", code=wants)
    assert answer.code == 0


@needs_mpirun
def test_mpirun_starts_the_ranks_of_a_program_of_mpi(gpumap):
    """By `gpumap exec`, which finds the names of the run in GPUMAP_CONTEXTS."""
    inner = "echo $GPUMAP_NAME of $OMPI_COMM_WORLD_SIZE >> told"
    starts = "mpirun --bind-to none --oversubscribe -n $GPUMAP_COUNT"
    starts += f" {gpumap.command} exec -- sh -c '{inner}'"
    options = (TWO, "--budget", "1ms", "--inconclusive", "pass")
    assert gpumap("scale", *options, "--", "sh", "-c", starts, **ROOT).code == 0
    told = sorted((gpumap.folder / "told").read_text().splitlines())
    assert told == ["a of 1", "a of 2", "a of 2", "b of 2", "b of 2"]


def test_turns_go_up_and_down(gpumap):
    """So a slow change of the machine is in each number of names alike."""
    code = "import os; open('told', 'a').write(os.environ['GPUMAP_COUNT'])"
    _, report = scaled(gpumap, code=code, budget="2s")
    told = (gpumap.folder / "told").read_text()
    turns = len(report["scaling"]["steps"][0]["runs"])
    assert told == "2" + "".join("12" if turn % 2 == 0 else "21" for turn in range(turns))
    assert len(report["scaling"]["steps"][1]["runs"]) == turns


@pytest.mark.parametrize(("options", "code"), TEXTS["one_turn"])
def test_one_turn_concludes_nothing(gpumap, options, code):
    answer, report = scaled(gpumap, *options)
    assert (answer.code, report["exit_code"]) == (code, code)
    assert report["scaling"]["cause"] in ("few-samples", "cpu-contention")  # of a busy machine
    assert report["headline"]["level"] == "untrusted"
    assert "six turns take about" in answer.err


@pytest.mark.parametrize(("failing", "how", "code", "kept"), TEXTS["failing"])
def test_a_run_that_fails_is_named_and_the_others_are_kept(gpumap, failing, how, code, kept):
    program = f"import os, sys\nif os.environ['GPUMAP_COUNT'] == '{failing}': {how}"
    answer, report = scaled(gpumap, code=program, budget="5s")
    assert (answer.code, report["exit_code"]) == (code, 1)
    assert [len(step["runs"]) for step in report["scaling"]["steps"]] == kept
    (error,) = report["errors"]
    assert (error["code"], error["message"].startswith(f"on {failing} name")) == ("program", True)
    assert report["headline"]["level"] == "failed"
    lines = csv.DictReader(gpumap("report", "r.json", "--format", "csv").out.splitlines())
    states = {line["names"]: line["status"] for line in lines if line["record"] == "scale"}
    assert states == {"a": "ok", "a+b": "ok"} | {"a" if failing == "1" else "a+b": "failed"}
    if "last words" in how:
        assert error["hint"] == "it printed last: last words"


@pytest.mark.parametrize(("cause", "speedup", "code", "word"), TEXTS["judged"])
def test_a_limit_is_judged_by_interval_and_cause(gpumap, cause, speedup, code, word):
    """Of figures that are given, so that no machine has a say."""
    scaled(gpumap)
    measured = read(gpumap.folder / "r.json")
    *others, last = measured.result.scaling.steps
    steps = (*others, replace(last, speedup=Estimate(*speedup, "1")))
    scaling = replace(measured.result.scaling, cause=cause, steps=steps)
    given = replace(measured, scaling=scaling, errors=(), verdicts=(), exit_code=0)
    request = SimpleNamespace(expect=1.8, inconclusive="fail")
    judged = _judged(given, request=request, turn=0.1)
    assert (judged.exit_code, judged.verdicts[0].verdict) == (code, word)
    text = answer(judged, judged.result).text
    assert text.startswith("Limit met (speedup>=1.8): 2 names are ") == (word == "pass")
    assert text.startswith("Limit missed (speedup>=1.8): ") == (word == "fail")


def test_a_run_that_takes_too_long_has_failed(gpumap):
    answer, report = scaled(gpumap, "--timeout", "200ms", code="import time; time.sleep(60)")
    assert (answer.code, report["status"]) == (124, "timeout")
    assert {step["code"] for step in report["scaling"]["steps"]} == {124}


def test_a_program_without_an_interpreter_is_no_fault_of_gpumaps(gpumap):
    script = gpumap.folder / "bad"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    for command in ("scale", "watch"):
        answer = gpumap(command, TWO, "--", "./bad")
        assert (answer.code, "gpumap itself failed" in answer.out + answer.err) == (127, False)
        assert "interpreter" in answer.err


def test_an_interrupt_keeps_what_was_measured(gpumap):
    fourth = "[ $(wc -l < told) -lt 4 ] || { touch begun; exec sleep 60; }"
    command = [gpumap.command, "scale", TWO, "--output", "r.json", "--", "sh", "-c"]
    process = gpumap.start([*command, f"echo >> told; {fourth}"])
    until((gpumap.folder / "begun").exists, process)
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 130
    report = loads((gpumap.folder / "r.json").read_text())
    assert report["status"] == "interrupted"
    assert sum(len(step["runs"]) for step in report["scaling"]["steps"]) >= 1


@needs("torch")
def test_a_program_of_torchs_own_ranks_has_as_many_as_there_are_names(gpumap):
    """A first run on both names, and then a turn."""
    given = ("--ranks", "--inconclusive", "pass")
    answer, report = scaled(gpumap, *given, code=TEXTS["ddp"], PYTHONWARNINGS="ignore")
    assert answer.code == 0, answer.err
    done = {path.name: path.read_text() for path in gpumap.folder.glob("done-*")}
    assert done == {"done-0-of-1": ".", "done-0-of-2": "..", "done-1-of-2": ".."}
    assert [len(step["runs"][0]["worked_s"]) for step in report["scaling"]["steps"]] == [1, 2]
