"""The way of a map from a command to the printed table is what docs/architecture.md says it is."""

import json
import re
import sys

from mpi_jobs import run
from tables import table
from written import ROOT

COMMAND = ("bench", "dot", "a->cuda0;b->cuda1", "--backend", "fake", "--budget", "1s", "--quiet")


def rows():
    section = (ROOT / "docs" / "architecture.md").read_text().partition("## The way of a map")[2]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return table[2 : next(n for n, row in enumerate(table) if row[0] == "render") + 1]


def test_each_stop_is_called_in_its_order(tmp_path):
    stops = [row[0] for row in rows()]
    assert stops == [
        "command", "request", "resolve", "open", "measure", "report", "judge", "render",
    ]  # fmt: skip
    files = {file for row in rows() for file in re.findall(r"`([\w/]+\.py)`", row[1])}
    assert [file for file in files if not (ROOT / "gpumap" / file).is_file()] == []
    assert len(files) <= 12
    env = {"HOME": str(tmp_path), "GPUMAP_FAKE": str(ROOT / "examples" / "gpus.toml")}
    done = run([sys.executable, "-c", table(__file__)["walk"], *COMMAND], tmp_path, **env)
    assert (done.returncode, "a+b" in done.stdout) == (0, True)
    calls = [tuple(call) for call in json.loads(done.stderr)]
    named = [re.findall(r"`([\w/]+\.py)`: `(\w+)`", row[1]) for row in rows()]
    walk = [call for row in named for call in row]
    assert len(walk) > len(stops)
    assert [call for call in calls if call in walk] == walk
