"""docs/tutorial.md, as a new user follows it: every line in its order, in one folder.

What it installs is here already, and its cores are scripted; everything else is what a reader
types. The files that it shows are written as it says.
"""

import re
import subprocess
import sys

import pytest
import yaml
from commands.scripts import RATE, script
from written import ROOT, blocks

PAGE = ROOT / "docs" / "tutorial.md"
INSTALLS = ("python3 -m venv", ".venv/bin/pip install", ". .venv/bin/activate", "mkdir gate")
ENDS = {  # the lines that do not end in 0, in their order
    'gpumap check "dev0->cpu0;dev1->cpu4096"': [3],
    "sh gate.sh": [0, 1, 1],
    "gpumap compare base.json slow.json --threshold 10%": [1],
}
_FILE = re.compile(r"`([\w.]+)`:$")


@pytest.fixture(scope="module")
def steps():
    found = []
    for block in blocks(PAGE):
        if (named := _FILE.search(block.before)) and block.language in ("toml", "sh"):
            found.append(("write", named[1], block.text))
            continue
        found += [("type", line) for line in block.lines]
    return found


def test_the_tutorial_works_word_for_word(gpumap, steps):
    """On scripted cores the gate is green, red with two names on one, red with slow cores."""
    gpumap.fake(script({"ref": "cpu0"}, {"ref": "cpu1"}, rate=4 * RATE))
    gpumap.env["GPUMAP_BUDGET"] = "15s"  # of its clock
    left = {line: list(codes) for line, codes in ENDS.items()}
    for kind, *rest in steps:
        if kind == "write":
            (gpumap.folder / rest[0]).write_text(rest[1])
            continue
        line = rest[0].partition("; echo")[0]
        if line.startswith(INSTALLS):
            continue
        if line.startswith("MKL_CBWR="):  # its slowest kernels: here cores that are slower
            gpumap.fake(script({"ref": "cpu0"}, {"ref": "cpu1"}, rate=RATE))
        answer = gpumap.run(["bash", "-c", line])
        assert answer.code == (left[line].pop(0) if line in left else 0), answer.err
        assert "Traceback" not in answer.err
    assert [codes for codes in left.values() if codes] == []  # each was met
    assert {step[1] for step in steps if step[0] == "write"} == {"gpumap.toml", "gate.sh"}


def test_the_job_is_one_that_github_takes(tmp_path, steps):
    """By the schema of SchemaStore; it runs the gate, and keeps what every gate writes."""
    (job,) = (block for block in blocks(PAGE) if block.language == "yaml")
    (tmp_path / "job.yml").write_text(job.text)
    schema = ("--builtin-schema", "vendor.github-workflows")
    command = [sys.executable, "-m", "check_jsonschema", *schema, str(tmp_path / "job.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (gate,) = yaml.safe_load(job.text)["jobs"].values()
    assert done.returncode == 0, done.stdout
    (run,) = (step["run"] for step in gate["steps"] if "gate.sh" in step.get("run", ""))
    written = [step[2] for step in steps if step[:2] == ("write", "gate.sh")]
    assert run.endswith("sh gate.sh")
    assert all(f"--output {gate['steps'][-1]['with']['path']}\n" in text for text in written)
