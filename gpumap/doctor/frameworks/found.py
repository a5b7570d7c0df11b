"""What a rule returns, and what programs printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.files import shipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.doctor.frameworks.facts import Facts

_SHOWN = 160  # characters of a line


@dataclass(frozen=True, slots=True)
class Found:
    """A cause of doctor's table, and what shows it.

    certain: the facts alone prove it; else it is likely. rank: of likely ones the lower is first.
    names: packages that its fix is about.
    """

    code: str
    what: str
    certain: bool = False
    rank: int = 1
    names: tuple[str, ...] = ()


@cache
def _lines() -> Mapping[str, Any]:
    return shipped("gpumap.doctor.frameworks", "lines.toml", _compiled)


def _compiled(found: Mapping[str, Any]) -> Mapping[str, Mapping[str, re.Pattern[str]]]:
    """Return of each cause one pattern for each certainty; groups beside them."""
    flags = re.IGNORECASE | re.MULTILINE
    merged = {**found, "groups": {}} | {
        key: {"likely": each} for key, each in found["groups"].items()
    }
    return {
        code: {word: re.compile("|".join(f"(?:{p})" for p in ps), flags) for word, ps in by.items()}
        for code, by in merged.items()
    }


def line(facts: Facts, key: str, certainty: str = "") -> str:
    """Return the first line that names a cause, or belongs to a group; "" where there is none."""
    for word, pattern in _lines()[key].items():
        if certainty in ("", word) and (found := pattern.search(facts.lines)):
            start = facts.lines.rfind("\n", 0, found.start()) + 1
            end = facts.lines.find("\n", found.end())
            return facts.lines[start : end if end >= 0 else None].strip()[:_SHOWN]
    return ""


def prints(facts: Facts, key: str) -> bool:
    """Return whether a program printed what names a cause, or belongs to a group."""
    return bool(line(facts, key))


def printed(facts: Facts) -> Iterator[Found]:
    """Yield each cause that what programs printed names."""
    for code in _lines():
        for word in ("certain", "likely"):
            named = code.startswith("GM") and word in _lines()[code]
            if named and (text := line(facts, code, word)):
                yield Found(code, f"printed: {text}", certain=word == "certain")
                break
