"""The system's own files, read through a root folder: the real `/`, or a captured tree."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CPUS_MAX = 65536  # a list that names more is not about processors
FILE_MAX = 16 * 2**20  # the largest real one, /proc/cpuinfo of 2048 processors, has 4 MiB

_RANGE = re.compile(r"\s*([0-9]{1,20})(?:-([0-9]{1,20}))?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tree:
    """Files below a root folder; what is missing or does not parse is None or empty, no error."""

    root: Path

    @property
    def live(self) -> bool:
        """Whether these are the files of the running system."""
        return self.root == Path("/")

    def text(self, path: str) -> str | None:
        """Return the text of a file, without the white space around it."""
        try:
            with (self.root / path).open("rb") as file:
                return file.read(FILE_MAX).decode(errors="replace").strip()
        except (OSError, ValueError):  # ValueError: a path with a NUL, out of a broken file
            return None

    def number(self, path: str, base: int = 10) -> int | None:
        """Return the whole number that is all of a file."""
        return number(self.text(path), base)

    def natural(self, path: str) -> int | None:
        """Return the number from 0 up that is all of a file: the kernel writes -1 for "unknown"."""
        value = self.number(path)
        return value if value is not None and value >= 0 else None

    def cpus(self, path: str) -> tuple[int, ...]:
        """Return the processors that a file lists."""
        return cpu_list(self.text(path) or "")

    def allowed(self, what: str, process: str = "self") -> tuple[int, ...] | None:
        """Return the Cpus or Mems that a process may use; None where the system does not tell."""
        key = f"{what}_allowed_list:"
        lines = (self.text(f"proc/{process}/status") or "").splitlines()
        return next((cpu_list(line[len(key) :]) for line in lines if line.startswith(key)), None)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        try:
            return tuple(sorted(entry.name for entry in (self.root / path).iterdir()))
        except (OSError, ValueError):
            return ()


def number(text: str | None, base: int = 10) -> int | None:
    """Return the whole number that `text` is, else None."""
    try:
        return int(text or "", base)
    except ValueError:
        return None


def cpu_list(text: str) -> tuple[int, ...]:
    """Return the ascending processor numbers of a kernel list; parts that do not parse are dropped.

    cpus  = range { "," range }
    range = number [ "-" number ]
    """
    cpus: list[int] = []
    for first, last in sorted(filter(None, map(_range, text.split(",")))):
        # Starting behind what is there keeps a list of overlapping ranges linear in its result.
        cpus.extend(range(max(first, cpus[-1] + 1 if cpus else 0), last + 1))
    return tuple(cpus)


def _range(part: str) -> tuple[int, int] | None:
    match = _RANGE.fullmatch(part)
    if match is None:
        return None
    first = int(match[1])
    return first, min(int(match[2] or first), CPUS_MAX - 1)
