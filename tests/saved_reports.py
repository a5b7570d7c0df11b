"""Saved reports of real runs on scripted devices, each made once for all tests."""

import json
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from commands.scripts import script
from mpi_jobs import tmpdir
from shell import Shell, environment
from tables import table

from gpumap.model.io import digest

SLOW = {"rate": 2**32, "latency": 2.0**-10, "bandwidth": 2**28}  # few iterations make a sample
ODD = (
    {}, {"rate": 2**31, "noise": 0.02}, {"fault": "flip"},
    {"fault": "lost", "fault_after": 40}, {"fault": "hang"},
)  # fmt: skip
HOST = "[host]\nrate = 1e8\n\n"  # slow enough that few iterations make a sample, as above
DEVICES = HOST + script(*ODD, **SLOW)
COMMANDS = {name: tuple(shlex.split(line)) for name, line in table(__file__).items()}


@dataclass(frozen=True)
class Written:
    """What a run wrote: its report as JSON, and both of its streams."""

    path: Path
    text: str
    out: str
    err: str

    @property
    def tree(self):
        return json.loads(self.text)


@cache
def written(name):
    folder = Path(tmpdir())
    shell = Shell(folder, environment(folder, folder)).fake(DEVICES)
    path = folder / "report.json"
    answer = shell.run([shell.command, *COMMANDS[name], "--output", str(path)])
    return Written(path, path.read_text(), answer.out, answer.err)


def signed(tree):
    """Return a report as text with the digest that it must have: it was not edited by accident."""
    return json.dumps(tree | {"digest": digest(tree)})
