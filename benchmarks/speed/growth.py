"""How time and memory grow with sizes, devices and rows: gpumap's own, of whole commands.

    python -m benchmarks.speed.growth

The rows, as JSON: it is a process of its own, for a child's peak of memory begins at its parent's.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import children
from gpumap.model import io

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = ("command", "of", "CPU time", "memory at most")
NAMES = (2, 64, 1024, 4096)
ROWS = (100, 1000, 10_000)
SIZES = (512, 1024, 2048, 4096)


def grown() -> Iterator[tuple[str, ...]]:
    """Yield a row of HEAD for each command at each of its sizes."""
    for names in NAMES:
        text = ";".join(f"dev{n}->cpu{n}" for n in range(names))
        yield _took("check --syntax-only", f"{names} names", "check", "--syntax-only", text)
    text = "dev0=cuda0;" * NAMES[-1]  # each entry is wrong
    unwell = children.used("check", "--syntax-only", text, codes=(1, 2))
    yield _row("check --syntax-only", f"{NAMES[-1]} names without an arrow", *unwell)
    for size in SIZES:
        asked = ("bench", "dot", "--quiet", "--budget", "5s", "--size", str(size))
        yield _took("bench dot --budget 5s", f"{size} rows of a matrix", *asked)
    with tempfile.TemporaryDirectory() as folder:
        report = children.gpumap("bench", "dot", "--size", "64", "--budget", "2s").report
        for rows in ROWS:
            many = Path(folder) / f"{rows}.json"
            many.write_text(io.signed(_with_rows(report, rows)))
            for format_ in ("plain", "html"):
                asked = ("report", str(many), "--format", format_)
                yield _took(f"report --format {format_}", f"{rows} rows", *asked)


def _took(what: str, of: str, *words: str) -> tuple[str, ...]:
    return _row(what, of, *children.used(*words))


def _row(what: str, of: str, cpu: float, memory: int) -> tuple[str, ...]:
    return what, of, f"{cpu:.2f} s", f"{memory / 2**20:.0f} MiB"


def _with_rows(report: dict[str, Any], count: int) -> dict[str, Any]:
    """Return a report whose first row is repeated."""
    row = next(row for row in report["result"]["measurements"] if row["case"]["name"] == "one")
    case = row["case"]
    many = [{**row, "case": {**case, "params": {**case["params"], "size": n}}}
            for n in range(1, count + 1)]  # fmt: skip
    return {**report, "result": {**report["result"], "measurements": many}}


if __name__ == "__main__":
    print(json.dumps([*grown()]))
