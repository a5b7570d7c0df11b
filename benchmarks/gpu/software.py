"""What Python and which libraries are there, which are missing, and what for.

A library that this Python has is used as it is. One that it lacks may lie as a wheel in `.wheels`
(`make gpu-wheels` fills it): it is unpacked into a temporary folder, for this run alone.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib import metadata
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

CORE, DEVICE, TESTS, PEERS = "gpumap", "device", "tests", "peers"


@dataclass(frozen=True, slots=True)
class Need:
    """A library: who needs it and what for, and the names under which it is distributed."""

    name: str
    level: str
    reason: str
    module: str
    also: tuple[str, ...] = ()


NEEDS = (
    Need("click", CORE, "the command line", "click"),
    Need("numpy", CORE, "the host's side of every check", "numpy"),
    Need("psutil", CORE, "memory and load of the machine", "psutil"),
    Need("rich", CORE, "tables on a terminal", "rich"),
    Need("tabulate", CORE, "tables in a pipe", "tabulate"),
    Need("threadpoolctl", CORE, "the threads of BLAS", "threadpoolctl"),
    Need("cupy-cuda13x", DEVICE, "CUDA devices", "cupy", ("cupy-cuda12x", "cupy")),
    Need("ml-dtypes", DEVICE, "bfloat16 on the host", "ml_dtypes"),
    Need("nvidia-cuda-nvrtc", DEVICE, "CUDA's compiler, where no toolkit has it", "nvidia"),
    Need("nvidia-ml-py", DEVICE, "the driver's version, and its tests", "pynvml"),
    Need("pyopencl", DEVICE, "OpenCL devices", "pyopencl"),
    Need("mpi4py", TESTS, "exchanges between processes", "mpi4py"),
    Need("pytest", TESTS, "the tests of the backends", "pytest"),
    Need("pytest-timeout", TESTS, "a driver that hangs must not hang the tests", "pytest_timeout"),
    Need("hypothesis", TESTS, "tests of properties", "hypothesis"),
    Need("jsonschema", TESTS, "holding each report against its schema", "jsonschema"),
    Need("msgspec", TESTS, "saved reports, read back", "msgspec"),
    Need("jax", PEERS, "a second backend of each GPU", "jax"),
    Need("torch", PEERS, "a second backend of each GPU, peer of products and copies", "torch"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """A need, and the version that meets it; None: there is none, or it is too old."""

    need: Need
    version: str | None
    why: str = ""


def found(least: dict[str, str], path: Sequence[str] | None = None) -> list[Found]:
    """Return each need with what meets it, looked for on `path` (by default Python's own)."""
    there = {_plain(d.name): d.version for d in _distributions(path)}
    return [_met(need, there, least) for need in NEEDS]


def least_versions(pyproject: Path) -> dict[str, str]:
    """Return the version from which on each library of the project's dependencies will do."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    matches = (
        re.match(r"([\w-]+)(?:>=([\d.]+))?", t) for t in chain(project["dependencies"], extras)
    )
    return {_plain(m[1]): m[2] or "0" for m in matches if m}


def listed(needs: Iterable[Found], python: str) -> str:
    """Return one list: what is there with its version, and what is missing, and what for."""
    lines = [f"Python {python}"]
    for one in needs:
        state = one.version or f"MISSING{f' ({one.why})' if one.why else ''}"
        lines.append(f"  {one.need.name:17} {state:12} {one.need.level}: {one.need.reason}")
    return "\n".join(lines)


def missing(needs: Iterable[Found], level: str) -> list[Need]:
    """Return what is not there of one level."""
    return [one.need for one in needs if one.version is None and one.need.level == level]


def ignored_tests(folder: Path, lacking: Iterable[Need]) -> dict[str, str]:
    """Return the test files that cannot be loaded without what is lacking, each with the reason.

    Only imports at the top count: a test that asks `importorskip` says its reason itself.
    """
    modules = {need.module: need.name for need in lacking}
    reasons = {}
    for file in sorted(folder.rglob("*.py")):
        used = _imported(ast.parse(file.read_text(encoding="utf-8")))
        if without := [modules[name] for name in sorted(used & set(modules))]:
            reasons[str(file)] = f"{', '.join(without)}: not installed"
    return reasons


def unpack(wheels: Path, target: Path) -> list[str]:
    """Unpack the wheels of what this Python lacks into `target`; return what went wrong."""
    there = {_plain(d.name) for d in _distributions(None)}
    problems = []
    for wheel in sorted(wheels.glob("*.whl")):
        if _plain(wheel.name.partition("-")[0]) in there:
            continue  # what is installed was chosen by someone: it wins
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        pip += ["--disable-pip-version-check", "--target", str(target), str(wheel)]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
            problems.append(f"{wheel.name}: {last}")
    return problems


def older(version: str, least: str) -> bool:
    """Return whether a version is before another; only the numbers at its front count."""
    return _numbers(version) < _numbers(least)


def _met(need: Need, there: dict[str, str], least: dict[str, str]) -> Found:
    names = (_plain(name) for name in (need.name, *need.also))
    name = next((name for name in names if name in there), None)
    if name is None:
        return Found(need, None)
    wanted = least.get(name, "0")
    if older(there[name], wanted):
        return Found(need, None, f"{there[name]} is too old: {wanted} or newer")
    return Found(need, there[name])


def _distributions(path: Sequence[str] | None) -> Iterator[metadata.Distribution]:
    found = metadata.distributions() if path is None else metadata.distributions(path=list(path))
    return (d for d in found if d.name)  # a broken one has no name


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(str(node.module).partition(".")[0])
    return names


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _numbers(version: str) -> tuple[int, ...]:
    front = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(n) for n in front[0].split(".")] if front else [0]
    while numbers and not numbers[-1]:  # 8.2 is 8.2.0
        numbers.pop()
    return tuple(numbers)
