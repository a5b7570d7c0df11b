"""The program's surroundings, read once by `cli` and handed to every command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Program:
    """Arguments, environment, working folder and streams of this run of gpumap."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str  # no Path: pathlib takes 5 ms, and most runs look at no file
    stdout: TextIO
    stderr: TextIO
    command: tuple[str, ...] | None = None  # what stands behind the first "--" of `run`


def columns(stream: TextIO) -> int | None:
    """Return how wide the terminal is that a stream goes to; None where it goes to none."""
    try:
        found = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # a file, or a pipe; closed, or none of the system's
        return None
    return found or None  # a terminal of 0 columns does not know
