"""The GitHub Action: its metadata, and its scripts run for real, on scripted devices."""

import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import yaml
from commands.scripts import script
from junitparser import JUnitXml
from report_schema import checked
from shell import BIN, LIMIT, until
from tables import table
from written import PROJECT, ROOT

TABLE = table(__file__)
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"]}
SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]  # what the runner means by "bash"
_EXPRESSION = re.compile(r"\$\{\{ (inputs|steps\.install\.outputs)\.([a-z-]+) \}\}")
_COMMAND = re.compile(r"\s*::([^ :]+)(?: title=([^:]*))?::(.*)")
SCRIPTS = sorted((ROOT / ".github" / "action").glob("*.sh"))
TWO = "a->cuda0;b->cuda1"
COMMANDS = {"error", "warning", "notice", "group", "endgroup"}  # what a step may tell the runner
HOSTILE = TABLE["hostile"]


@dataclass(frozen=True)
class Step:
    code: int
    log: str
    outputs: dict[str, str]
    summary: str
    paths: tuple[str, ...]

    @property
    def obeyed(self):
        """Return the commands in the log: lines that begin so, unless it was told to stop."""
        found, stopped = [], None
        for line in self.log.splitlines():
            command = _COMMAND.match(line)
            if stopped is None:
                assert "##[" not in line, "the runner obeys this too"
                if command and command[1] == "stop-commands":
                    stopped = command[3]
                elif command:
                    found.append(command.groups())
            elif command and command[1] == stopped:
                stopped = None
        assert stopped is None, "the runner was left deaf"
        return found


@dataclass
class Job:
    gpumap: object
    action: Path = ROOT
    venv: str = sys.prefix
    variables: dict[str, str] = field(default_factory=dict)

    def prepare(self, name, inputs):
        """Write a step's script; return its command line, its variables and the files they name."""
        files = {key: self._file(key) for key in ("OUTPUT", "STEP_SUMMARY", "PATH")}
        script = self._file("script")
        script.write_text(STEPS[name]["run"])
        env = {key: self._filled(text, inputs) for key, text in STEPS[name]["env"].items()}
        env |= {f"GITHUB_{key}": str(file) for key, file in files.items()}
        env |= {"GITHUB_ACTION_PATH": str(self.action), "RUNNER_TEMP": str(self.gpumap.folder)}
        return [*SHELL, str(script)], self.variables | env, files

    def step(self, name="run", /, **inputs):
        given = {key.replace("_", "-"): value for key, value in inputs.items()}
        assert set(given) <= set(ACTION["inputs"])
        command, env, files = self.prepare(name, given)
        answer = self.gpumap.run(command, **env)
        return self.ended(answer.code, answer.out + answer.err, files)

    def ended(self, code, log, files):
        texts = {key: file.read_text() for key, file in files.items()}
        outputs = dict(line.split("=", 1) for line in texts["OUTPUT"].splitlines())
        return Step(code, log, outputs, texts["STEP_SUMMARY"], tuple(texts["PATH"].splitlines()))

    def _file(self, name):
        path = self.gpumap.folder.parent / f"runner-{name}"
        path.write_text("")
        return path

    def _filled(self, text, inputs):
        kind, name = _EXPRESSION.fullmatch(text).groups()
        return (
            inputs.get(name, ACTION["inputs"][name]["default"]) if kind == "inputs" else self.venv
        )


@pytest.fixture
def job(gpumap):
    return Job(gpumap.fake(script()))


@pytest.fixture
def bare(gpumap):
    return Job(gpumap)


def told(step):
    """Return what a step says at the top of the run's page: level and message."""
    return [(level, text) for level, _, text in step.obeyed if level in ("error", "notice")]


def found(step):
    return checked(Path(step.outputs["report"]).read_text())


def test_the_metadata_are_what_github_reads():
    schema = ("--builtin-schema", "vendor.github-actions")
    command = [sys.executable, "-m", "check_jsonschema", *schema, str(ROOT / "action.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_no_input_is_pasted_into_a_script(step):
    """An expression in a script is replaced before a shell reads it: quotes do not help."""
    assert "${{" not in step["run"]
    assert step["shell"] == "bash"


def test_a_step_that_never_ran_is_no_pass():
    """Where gpumap could not be set up, the outputs of its run are empty."""
    values = {name: output["value"] for name, output in ACTION["outputs"].items()}
    assert values["status"].endswith("|| 'error' }}")
    assert values["exit-code"].endswith("|| '2' }}")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(path):
    done = subprocess.run([BIN / "shellcheck", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(("devices", "inputs", "code", "status"), TABLE["ends"])
def test_the_step_ends_as_gpumap_does_and_tells_all(gpumap, devices, inputs, code, status):
    step = Job(gpumap.fake(script(**devices or {}))).step(**{"map": TWO} | (inputs or {}))
    assert step.code == code
    assert list(step.outputs) == ["exit-code", "status", "report", "junit"]
    assert (step.outputs["exit-code"], step.outputs["status"]) == (str(code), status)
    assert found(step)["exit_code"] == code
    failures = JUnitXml.fromfile(step.outputs["junit"]).failures
    assert (failures > 0) == (code > 0) or code > 1
    assert f"\ngpumap check: {status}, exit code {code}" in step.summary
    assert ("error" in {level for level, _ in told(step)}) == (code > 0)


def test_limits_one_a_line(job):
    """Blank lines and blanks around a limit are nothing; one that is missed is exit 1."""
    limits = "\n  dot.many.speedup>=1.8\r\n\n\tdot.many[size=64].speedup >= 2.5\n"
    step = job.step(command="bench dot", map=TWO, args="--size 64 --cases many", limits=limits)
    verdicts = [(v["text"], v["verdict"]) for v in found(step)["verdicts"]]
    assert (step.code, step.outputs["status"]) == (1, "no")
    assert verdicts == [
        ("dot.many.speedup>=1.8", "pass"),
        ("dot.many[size=64].speedup >= 2.5", "fail"),
    ]


def test_a_base(job):
    """A saved report as the baseline; one that is missing is no pass."""
    dot = {"command": "bench dot", "map": TWO, "args": "--size 64 --cases many"}
    base = job.step(**dot).outputs["report"]
    step, lost = job.step(**dot, base=base), job.step(**dot, base="nowhere.json")
    words = {verdict["verdict"] for verdict in found(step)["verdicts"]}
    assert (step.code, words) == (0, {"pass", "shown"})  # of what was measured beside it
    assert (lost.code, lost.outputs["status"]) == (2, "error")
    assert "nowhere.json" in told(lost)[0][1]


@pytest.mark.parametrize(("variable", "inputs", "code", "status"), TABLE["only_inputs_decide"])
def test_only_inputs_decide_and_only_where_they_can(bare, variable, inputs, code, status):
    bare.variables["GPUMAP_IF_ABSENT"] = variable
    step = bare.step(map="a->cuda4095", **inputs)
    assert (step.code, step.outputs["status"]) == (code, status)


@pytest.mark.parametrize("args", ["--help", "-h"])
def test_no_report_is_no_pass(job, args):
    """Also where gpumap itself ends well."""
    step = job.step(map=TWO, args=args)
    assert (step.code, step.outputs) == (
        2, {"exit-code": "2", "status": "error", "report": "", "junit": ""},
    )  # fmt: skip
    assert [level for level, _ in told(step)] == ["error"]


def test_a_report_that_says_something_else_does_not_count(job):
    """One of the files could not be written: the report is fine, and the step is not."""
    step = job.step(map=TWO, args="--output plain=/dev/full")
    assert found(step)["status"] == "ok"
    assert (step.code, step.outputs["exit-code"], step.outputs["status"]) == (2, "2", "error")


def test_modules_of_the_workspace_are_not_imported(job):
    """A pull request may bring a json.py."""
    for name in ("json", "shlex", "os"):
        (job.gpumap.folder / f"{name}.py").write_text("raise SystemExit('mine')\n")
    step = job.step(map=TWO, args="--needs a")
    assert (step.code, step.outputs["status"]) == (0, "ok")


def test_words_are_split_and_nothing_else(job):
    odd = [*HOSTILE, "*", "~", "a b", "", "\\", "'\"", "#", "\u00e9\u4e2d", "\t\n "]
    words = [part for word in odd for part in ("--needs", word)]
    step = job.step(map=TWO, args=shlex.join(words))
    assert found(step)["argv"][-len(words) :] == words
    assert not (job.gpumap.folder / "pwned").exists()


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["command", "map", "args", "limits", "base", "if-absent"])
def test_no_input_is_obeyed(job, name, text):
    """No shell runs it, the runner takes no command of it, and it writes no output."""
    inputs = {"command": "bench dot", "map": TWO} if name in ("limits", "base") else {"map": TWO}
    step = job.step(**inputs | {name: text})
    assert not (job.gpumap.folder / "pwned").exists()
    assert step.code in (1, 2)
    assert list(step.outputs) == ["exit-code", "status", "report", "junit"]
    assert (step.outputs["exit-code"], step.outputs["status"]) == (
        str(step.code), {1: "no", 2: "error"}[step.code],
    )  # fmt: skip
    assert {command for command, _, _ in step.obeyed} <= COMMANDS
    assert all(title.startswith("gpumap") for _, title, _ in step.obeyed if title)
    assert "\x1b" not in step.log


def begun(job):
    """Start a step whose device never answers; return the process and its files, once it hangs."""
    command, env, files = job.prepare("run", {"map": TWO})
    log = files["OUTPUT"].with_name("log")
    with log.open("w") as out:
        process = job.gpumap.start(command, env, stdout=out, stderr=subprocess.STDOUT)
    until((job.gpumap.folder / "commands.log").exists, process)
    return process, log, files


@pytest.fixture
def hanging(gpumap):
    log = 'log = "commands.log"\n'
    return Job(gpumap.fake(log + script({"fault": "hang", "fault_after": 1}, {})))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_job_has_its_report(hanging, number):
    """The runner's signal comes to the script alone: gpumap hears of it, and writes what it has."""
    process, log, files = begun(hanging)
    process.send_signal(number)
    step = hanging.ended(process.wait(LIMIT), log.read_text(), files)
    assert (step.code, step.outputs["status"]) == (130, "interrupted")
    assert found(step)["status"] == "interrupted"
    assert "\ngpumap check: interrupted, exit code 130" in step.summary


def test_gpumap_that_was_killed_is_no_pass(hanging):
    process, log, files = begun(hanging)
    for child in psutil.Process(process.pid).children(recursive=True):
        child.kill()
    step = hanging.ended(process.wait(LIMIT), log.read_text(), files)
    assert step.code == 128 + signal.SIGKILL
    assert step.outputs == {"exit-code": "137", "status": "internal", "report": "", "junit": ""}


def test_extras_and_python_are_those_of_the_project():
    """Of an extra that is none pip only warns. MPI and charts drive no device."""
    text = (ROOT / ".github" / "action" / "install.sh").read_text()
    offered = re.search(r"drivers='(.*)'", text)[1].split("|")
    drivers = {
        name for name in PROJECT["optional-dependencies"] if not name.startswith(("docs", "test"))
    }
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert set(offered) | {"mpi", "report"} == drivers
    assert f"sys.version_info >= ({oldest.replace('.', ', ')})" in text
    assert oldest in ACTION["inputs"]["python"]["description"]


@pytest.mark.parametrize(("name", "text"), [
    *(("extra", text) for text in [*HOSTILE, "test", "opencl,", "cuda14", " "]),
    *(("python", text) for text in [*HOSTILE, "nowhere/python", "true", "false", "/"]),
])  # fmt: skip
def test_what_cannot_be_set_up_is_refused(bare, name, text):
    step = bare.step("install", **{name: text})
    assert (step.code, step.outputs) == (2, {})
    assert told(step)[0][1].startswith(f'the input "{name}" is no')
    assert list(bare.gpumap.folder.iterdir()) == []


def test_what_cannot_be_installed_is_not_used(bare):
    """Where pip fails so does the step, and no later one takes what is there for gpumap."""
    bare.variables |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PYTHONWARNINGS": ""}
    step = bare.step("install", python=sys.executable)
    assert (step.code, step.outputs, step.paths) == (1, {}, ())
    assert not list(bare.gpumap.folder.glob("*/whole"))


@pytest.mark.timeout(300)
def test_it_is_set_up_from_the_actions_own_checkout(gpumap, tmp_path):
    """Another step of the job finds `gpumap` in its PATH, but no other Python; set up once."""
    pip = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    to = ["download", "-q", "--no-deps", "-d", str(tmp_path), "hatchling"]
    probe = [sys.executable, "-m", "pip", *to]
    if (answer := gpumap.run(probe, PYTHONWARNINGS="", **pip)).code:
        pytest.skip(f"no package index: {answer.err.strip().splitlines()[-1]}")
    checkout = tmp_path / "_actions" / "gpumap"
    checkout.parent.mkdir()
    checkout.symlink_to(ROOT)
    job = Job(gpumap, action=checkout, variables=pip | {"PYTHONWARNINGS": ""})
    first = job.step("install", python=sys.executable)
    assert first.code == 0, first.log
    (path,) = first.paths
    assert [file.name for file in Path(path).iterdir()] == ["gpumap"]
    job.venv = first.outputs["venv"]
    ran = job.step(map="a->cpu0", args="--syntax-only")
    assert (ran.code, ran.outputs["status"]) == (0, "ok")
    planted = gpumap.folder / path / "planted"
    planted.touch()
    second = job.step("install", python=sys.executable)
    assert (second.code, second.outputs, second.paths) == (0, first.outputs, first.paths)
    assert planted.exists()
