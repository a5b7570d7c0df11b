"""What each command loads, and what that costs: modules, libraries, CPU time, memory.

    python -m benchmarks.imports [ROUNDS]

Each command runs in a child that counts at its end; CPU time is the least of ROUNDS, beside that of
`import click`, which every start must pay. Without the time of what is measured: benchmarks are
asked for next to nothing. The table in docs/architecture.md is this one.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import children
from benchmarks.contest import number, table

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS = 5
_MAP = "dev0->cpu0;dev1->cpu0"
_DOT = ("bench", "dot", "--map", "dev0->cpu0", "--size", "8", "--budget", "0.2s", "--quiet")
COMMANDS: dict[str, tuple[str, ...]] = {
    "--version": ("--version",),
    "--help": ("--help",),
    "check --syntax-only": ("check", "--syntax-only", _MAP),
    "check": ("check", _MAP, "--backend", "numpy"),
    "devices": ("devices",),
    "explain unstable": ("explain", "unstable"),
    "report": ("report", "{report}"),
    "report --format html": ("report", "{report}", "--format", "html"),
    "compare": ("compare", "{report}", "{report}"),
    "bench dot": _DOT,
    "transfer-cost": ("transfer-cost", "--map", "dev0->cpu0", "--sizes", "4B", "--budget", "0.2s"),
}
LIBRARIES = ("click", "numpy", "rich", "tabulate", "pyopencl", "cupy", "matplotlib", "jinja2",
             "psutil")  # fmt: skip
HEAD = ("command", "modules", "of gpumap", "libraries", "CPU time over `import click`", "memory")
_COUNT = """
import json, resource, sys
used = resource.getrusage(resource.RUSAGE_SELF)
cpu = used.ru_utime + used.ru_stime
told = {"modules": sorted(sys.modules), "cpu": cpu, "peak": used.ru_maxrss}
print(json.dumps(told), file=sys.stderr)
"""
_CLICK = f"import click\n{_COUNT}"
_COUNTED = f"""
import sys
sys.argv = ["gpumap", *sys.argv[1:]]
try:
    from gpumap.__main__ import main
    main()
except SystemExit:
    pass
{_COUNT}
"""


def main() -> int:
    """Count, and print the table."""
    rounds = number(__doc__, "ROUNDS", ROUNDS)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        two = ("--map", "dev0->cpu0;dev1->cpu1")  # of one name nothing is drawn
        children.gpumap(*_DOT, *two, "--budget", "2s", "--output", str(report))
        click = min(_said(_CLICK)["cpu"] for _ in range(rounds))
        for name, arguments in COMMANDS.items():
            given = [word.format(report=report) for word in arguments]
            rows.append(_row(name, [_said(_COUNTED, *given) for _ in range(rounds)], click))
    print("\n".join(table(HEAD, rows)))
    return 0


def _said(program: str, *arguments: str) -> dict[str, Any]:
    """Return what a program says of itself in its last line of stderr."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GPUMAP_")}
    done = children.python("-c", program, *arguments, env=env)
    said: dict[str, Any] = json.loads(done.err.splitlines()[-1])
    return said


def _row(name: str, found: Sequence[dict[str, Any]], click: float) -> tuple[str, ...]:
    modules = found[0]["modules"]
    own = sum(module.partition(".")[0] == "gpumap" for module in modules)
    libraries = ", ".join(library for library in LIBRARIES if library in modules) or "-"
    cpu, peak = min(one["cpu"] for one in found), min(one["peak"] for one in found)
    memory = f"{peak / 1024:.0f} MiB"
    return f"`{name}`", str(len(modules)), str(own), libraries, f"{cpu / click:.1f}", memory


if __name__ == "__main__":
    sys.exit(main())
