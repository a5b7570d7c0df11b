"""How time and memory grow with sizes, devices and rows: gpumap's own, of whole commands.

    python -m benchmarks.speed.growth

Each line of the output is one of them, as JSON. It is a process of its own: a child's peak of
memory begins at its parent's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAMES = (2, 64, 1024)
ROWS = (100, 1000, 10_000)
SIZES = (512, 1024, 2048)
_GPUMAP = str(Path(sys.executable).parent / "gpumap")
_LIMIT = 300  # seconds


@dataclass(frozen=True, slots=True)
class Grown:
    """What one command took at one size of its input."""

    what: str
    size: int
    unit: str
    cpu: float  # seconds, user and system
    memory: int  # bytes at the most


def grown() -> Iterator[Grown]:
    """Yield each command at each of its sizes."""
    with tempfile.TemporaryDirectory() as folder:
        for names in NAMES:
            text = ";".join(f"dev{n}->cpu{n}" for n in range(names))
            yield _took("check --syntax-only", names, "names", ["check", "--syntax-only", text])
        report = _measured(Path(folder))
        for rows in ROWS:
            many = Path(folder) / f"{rows}.json"
            many.write_text(json.dumps(_with_rows(report, rows)))
            for format_ in ("plain", "html"):
                asked = ["report", str(many), "--format", format_]
                yield _took(f"report --format {format_}", rows, "rows", asked)
        for size in SIZES:
            asked = ["bench", "dot", "--size", str(size), "--budget", "5s", "--quiet"]
            yield _took("bench dot --budget 5s", size, "rows of a matrix", asked)


def _took(what: str, size: int, unit: str, arguments: Sequence[str]) -> Grown:
    child = subprocess.Popen(
        [_GPUMAP, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _wait(child)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):
        raise SystemExit(f"gpumap {arguments[0]} ended with {child.returncode}")
    return Grown(what, size, unit, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def _wait(child: subprocess.Popen[bytes]) -> None:
    """Wait for a child's end, or make it after _LIMIT; `wait4` is left to take it, and to count."""
    for _ in range(10 * _LIMIT):
        if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.1)
    child.kill()


def _measured(folder: Path) -> dict[str, object]:
    """Return a small report, whose rows are repeated."""
    file = folder / "report.json"
    asked = ["bench", "dot", "--size", "64", "--budget", "2s", "--quiet", "--output", str(file)]
    subprocess.run([_GPUMAP, *asked], check=False, timeout=_LIMIT, stdout=subprocess.DEVNULL)
    found: dict[str, object] = json.loads(file.read_text())
    return found


def _with_rows(report: dict[str, object], count: int) -> dict[str, object]:
    rows = report["measurements"]
    assert isinstance(rows, list)
    row = next(row for row in rows if row["case"] == "one")
    many = [{**row, "id": row["id"].replace("size=64", f"size={n}"),
             "params": {**row["params"], "size": n}} for n in range(1, count + 1)]  # fmt: skip
    return {**report, "measurements": many}


if __name__ == "__main__":
    for one in grown():
        print(json.dumps(asdict(one)), flush=True)
