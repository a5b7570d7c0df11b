"""The action's steps as GitHub's runner takes them: variables, scripts, outputs, and the log."""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"]}
SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]  # what the runner means by "bash"
_EXPRESSION = re.compile(r"\$\{\{ (inputs|steps\.install\.outputs)\.([a-z-]+) \}\}")
_COMMAND = re.compile(r"\s*::([^ :]+)(?: title=([^:]*))?::(.*)")


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
