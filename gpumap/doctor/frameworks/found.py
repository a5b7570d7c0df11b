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
    from collections.abc import Iterator

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
    view = _View(facts)
    for row in _signs():
        known = all(view.has(*each) for each in row["when"].items())
        if known and not any(view.has(*each) for each in row.get("unless", {}).items()):
            sure = row.get("sure")
            certain = sure is not None and all(view.has(*each) for each in sure.items())
            text = re.sub(r"\{([\w.-]+)\}", lambda found: view[found[1]] or "", row["what"])
            yield Found(row["code"], text[:_SHOWN], certain, int(row.get("rank", "1")))


class _View:
    """Facts as texts, by the names that signs have for them; what is not known is None."""

    def __init__(self, facts: Facts) -> None:
        self._facts, self._known = facts, facts.named()

    def __getitem__(self, key: str) -> str | None:
        kind, _, name = key.partition(".")
        if not name:
            return self._known.get(key)
        if kind == "prints":
            return line(self._facts, name) or None
        return {"env": self._facts.env, "package": self._facts.packages}[kind].get(name)

    def has(self, key: str, pattern: str) -> bool:
        """Return whether a fact is known, and a pattern is found in it."""
        text = self[key]
        return text is not None and re.search(pattern, text, re.IGNORECASE) is not None
