"""The one record of a run, written after every step: a run that is killed leaves what it had."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.markdown import markdown
from gpumap.files import write_atomic
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from benchmarks.gpu.software import Found
    from benchmarks.gpu.steps import Step

SCHEMA_VERSION = 1
INCOMPLETE = "incomplete"
_SLUG = 40  # characters of a file's name that tell the device


def begun(
    look: Mapping[str, Any], libraries: Iterable[Found], plan: Iterable[Step], root: Path
) -> dict[str, Any]:
    """Return a record of no steps yet; `look` is the report of `gpumap check` on the map."""
    return {
        "record": "gpumap measured",
        "schema_version": SCHEMA_VERSION,
        "verdict": INCOMPLETE,
        "started": stamp(),
        "ended": None,
        "elapsed_s": None,
        "simulated": look["simulated"],
        "gpumap": {"version": __version__, **_commit(root)},
        "python": platform.python_version(),
        "map": look["map"]["text"],
        "devices": look["devices"],
        "backends": look["backends"],
        "environment": {key: value for key, value in look["environment"].items() if value},
        "fingerprint": None,
        "libraries": [_library(one) for one in libraries],
        "planned": [step.key for step in plan],
        "steps": [],
    }


def write(record: Mapping[str, Any], base: Path) -> None:
    """Write the record as JSON, and the Markdown that is made from it, both atomically."""
    write_atomic(base.with_name(f"{base.name}.json"), as_json(record))
    write_atomic(base.with_name(f"{base.name}.md"), markdown(record))


def as_json(record: Mapping[str, Any]) -> str:
    """Return JSON with each array of plain numbers on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    # an array that begins with a line break is no part of a string: there it would be escaped
    return re.sub(r"\[\n[\s\d.,eE+-]*\]", lambda m: " ".join(m[0].split()), text) + "\n"


def base_path(folder: Path, record: Mapping[str, Any]) -> Path:
    """Return a name of date and device that no record has yet, without a suffix."""
    name = f"{record['started'][:10]}-{slug(record['devices'])}"
    names = chain((name,), (f"{name}-{number}" for number in count(2)))
    return next(folder / n for n in names if not (folder / f"{n}.json").exists())


def slug(devices: Iterable[Mapping[str, Any]]) -> str:
    """Return devices as a part of a file's name: `nvidia-h200`, `2x-nvidia-h200`."""
    names = [device["name"] for device in devices]
    words = "-".join(f"{_times(names.count(n))}{_plain(n)}" for n in dict.fromkeys(names))
    return words[:_SLUG].strip("-")


def stamp() -> str:
    """Return the moment, UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def python_name() -> str:
    """Return Python as a user would write it: the record needs no path of this machine."""
    return f"python{sys.version_info.major}"


def _library(one: Found) -> dict[str, Any]:
    need = {"name": one.need.name, "level": one.need.level, "reason": one.need.reason}
    return {**need, "version": one.version, "why": one.why}


def _times(count: int) -> str:
    return f"{count}x-" if count > 1 else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _commit(root: Path) -> dict[str, Any]:
    """Return what git says of the tree; nulls where there is no git."""
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_git(root, "status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "changed": None}


def _git(root: Path, *arguments: str) -> str:
    command = ("git", "-C", str(root), *arguments)  # no shell, and no user's words
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()
