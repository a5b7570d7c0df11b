"""What a measuring command hands over: one typed request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from gpumap.errors import QuestionError
from gpumap.spelling import fix, meant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.bench.base import Settings
    from gpumap.judge.gate import Gate

    T = TypeVar("T")

ALL = "all"  # --backend all: every usable one, side by side


@dataclass(frozen=True, slots=True)
class Request:
    """On which devices to measure, how long and how well, what is required, where the report goes.

    `argument` is the text of MAP, `option` that of --map.
    """

    program: Program
    argument: str | None
    option: str | None
    map_file: Path | None
    backend: str | None
    settings: Settings
    gate: Gate
    output: Output

    @property
    def every(self) -> bool:
        """Return whether each usable backend is measured."""
        return self.backend == ALL


def chosen(text: str, known: Sequence[T], what: str, option: str, most: int = 0) -> tuple[T, ...]:
    """Return the comma-separated words of `text`, each of which must be known.

    Raises:
        QuestionError: one is not; the message names those that are.
    """
    names = tuple(map(str, known))
    words = [meant(word.strip(), names) for word in text.split(",")]
    hint = f"{option} takes {'one' if most else 'some'} of {', '.join(names)}"
    for word in words:
        if word not in names:
            raise QuestionError(f'no {what} is called "{word}"', fix(word, names, hint))
    if most and len(words) > most:
        raise QuestionError(f"{option} has {len(words)} words", hint)
    return tuple(item for item in known if item in words)
