"""The program's surroundings, read once by `cli` and handed to every command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Program:
    """Arguments, environment, working folder and streams of this run of gpumap."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    stdout: TextIO
    stderr: TextIO
