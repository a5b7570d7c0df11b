"""What a rule returns, and what programs printed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.doctor.frameworks.facts import line, patterns
from gpumap.files import shipped

_SHOWN = 160  # characters of a text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.doctor.frameworks.facts import Facts


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
def _signs() -> Any:
    return shipped("gpumap.doctor.frameworks", "signs.toml", lambda found: found["sign"])


def printed(facts: Facts) -> Iterator[Found]:
    """Yield each cause that what programs printed names."""
    for code in patterns():
        for word in ("certain", "likely"):
            named = code.startswith("GM") and word in patterns()[code]
            if named and (text := line(facts, code, word)):
                yield Found(code, f"printed: {text}", certain=word == "certain")
                break


def signs(facts: Facts) -> Iterator[Found]:
    """Yield each cause whose facts have the texts that name it, by the table of signs."""
    known = facts.named()

    def found(keys: Mapping[str, str]) -> list[bool]:
        texts = ((known.get(key), pattern) for key, pattern in keys.items())
        return [t is not None and bool(re.search(p, t, re.IGNORECASE)) for t, p in texts]

    for row in _signs():
        if all(found(row["when"])) and not any(found(row.get("unless", {}))):
            certain = "sure" in row and all(found(row["sure"]))
            text = re.sub(r"\{([\w.-]+)\}", lambda each: known.get(each[1], ""), row["what"])
            yield Found(row["code"], text[:_SHOWN], certain, int(row.get("rank", "1")))
