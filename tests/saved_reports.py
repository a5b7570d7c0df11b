"""Saved reports of real runs on scripted devices, each made once for all tests."""

import atexit
import json
import os
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import gettempdir, mkdtemp

from flat_report import loads
from psutil import pid_exists
from shell import Shell
from tables import table

from gpumap.model.io import digest

SLOW = {"rate": 2**32, "latency": 2.0**-10, "bandwidth": 2**28}  # few iterations make a sample
ODD = (
    {}, {"rate": 2**31, "noise": 0.02}, {"fault": "flip"},
    {"fault": "lost", "fault_after": 40}, {"fault": "hang"},
)  # fmt: skip
HOST = "[host]\nrate = 1e8\n\n"  # slow enough that few iterations make a sample, as above
DEVICES = HOST + "\n".join(
    f'[[device]]\nref = "cuda{number}"\n'
    + "\n".join(f"{key} = {json.dumps(value)}" for key, value in (SLOW | odd).items())
    for number, odd in enumerate(ODD)
)
COMMANDS = {name: tuple(shlex.split(line)) for name, line in table(__file__).items()}
FORMATS = ("plain", "rich")


@dataclass(frozen=True)
class Written:
    """What a run wrote: its report as JSON, in other formats, what it said and how it ended."""

    path: Path
    text: str
    others: dict[str, str]
    err: str
    code: int

    @property
    def tree(self):
        return json.loads(self.text)

    @property
    def flat(self):
        return loads(self.text)


@cache
def _folder():
    """Return this process's folder; those of processes that were killed go: they had no exit."""
    for old in Path(gettempdir()).glob("gpumap-saved-*-*"):
        if not pid_exists(int(old.name.split("-")[2])):
            rmtree(old, ignore_errors=True)
    made = Path(mkdtemp(prefix=f"gpumap-saved-{os.getpid()}-"))
    atexit.register(rmtree, made)
    return made


@cache
def written(name):
    folder = Path(mkdtemp(dir=_folder()))
    kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
    env = {
        "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error",
    }  # fmt: skip
    shell = Shell(folder, kept | env).fake(DEVICES)
    outputs = [f"{format_}={folder / format_}" for format_ in ("json", *FORMATS)]
    options = [word for output in outputs for word in ("--output", output)]
    answer = shell.run([shell.command, *COMMANDS[name], *options])
    texts = {format_: (folder / format_).read_text() for format_ in ("json", *FORMATS)}
    return Written(folder / "json", texts.pop("json"), texts, answer.err, answer.code)


def signed(tree):
    """Return a report as text with the digest that it must have: it was not edited by accident."""
    return json.dumps(tree | {"digest": digest(tree)})


def few(tree, n):
    """Return a report as it is when all rows had been measured for n blocks alone, under 6."""
    tree = json.loads(json.dumps(tree))
    for row in tree["result"]["measurements"]:
        if row["samples"]:
            _cut(row["samples"], n)
        for figure in row["metrics"].values():
            figure |= {"low": None, "high": None}
        time = row["metrics"].get("time") or row["metrics"].get("issue_interval")
        if time is not None:
            time["value"] = median(row["samples"]["seconds"])
            if "rate" in row["metrics"]:
                row["metrics"]["rate"]["value"] = row["case"]["work"]["operations"] / time["value"]
        row["explanation"] = None
    rows = {row["case"]["id"]: row for row in tree["result"]["measurements"]}
    for row in rows.values():
        over = rows.get(row["case"]["against"])
        if over is not None and "speedup" in row["metrics"] and over["samples"]:
            both = (each["samples"]["seconds"] for each in (over, row))
            ratios = [a / b for a, b in zip(*both, strict=False)]
            row["metrics"]["speedup"]["value"] = median(ratios)
    return tree | {"status": "inconclusive", "exit_code": 0, "verdicts": [], "errors": []}


def _cut(samples, n):
    for key in ("seconds", "blocks", "queue_s", "cpu_s", "control_s"):
        samples[key] = samples[key][:n]
    for lists in (*samples["intervals"].values(), samples["worked_s"], samples["phases_s"]):
        lists |= {key: values[:n] for key, values in lists.items()}
    samples["sample_notes"] = [m for m in samples["sample_notes"] if m["sample"] < n]
