"""Saved reports of real runs on scripted devices, each made once for all tests."""

import atexit
import json
import os
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import rmtree
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
