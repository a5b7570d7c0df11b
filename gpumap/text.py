"""Text before it is shown: its width, cut to its columns, and words for what many files say."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, TypeVar

from gpumap.errors import QuestionError
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpumap.model import Case


def width(text: str) -> int:
    """Return the number of terminal columns that printable `text` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


# --- text that fits its columns

NAME = 16  # columns of names in a cell
_LISTED = 3  # names in a cell: of more their number is given


def cut(text: str, most: int = 80) -> str:
    """Return the user's text for a message: cut at its end where it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def label(text: str, most: int = 40) -> str:
    """Return a text that fits, cut where it is longer."""
    shown = printable(text)
    return shown if width(shown) <= most else f"{_chopped(shown, most - 1)[0]}…"


def middle(text: str, most: int = NAME) -> str:
    """Return the same, cut in the middle: names often differ in their last characters."""
    shown = printable(text)
    if width(shown) <= most:
        return shown
    half = (most - 1) // 2
    return f"{_chopped(shown, half)[0]}…{_chopped(shown[::-1], half)[0][::-1]}"


def short(case: Case) -> str:
    """Return the names of a case for a cell: of too many for it, how many there are."""
    names, sign = case.names, "->" if case.ordered else "+"
    whole = sign.join(middle(name, NAME) for name in names)
    if len(names) <= _LISTED and width(whole) <= NAME:
        return whole
    if case.ordered:
        return sign.join(middle(name, (NAME - len(sign)) // 2) for name in names)
    return f"{len(names)} devices"


def pieces(word: str, most: int) -> list[str]:
    """Return a word, in pieces where it is wider than its room."""
    return [word] if width(word.rstrip(" ")) <= most else list(filter(None, _chopped(word, most)))


def _chopped(text: str, most: int) -> list[str]:
    """Return a text in parts, each as much of it as has room."""
    from rich.cells import chop_cells

    return chop_cells(text, max(most, 1))


# --- words that are not known

T = TypeVar("T")

# Types of elements as PyTorch and hardware call them.
ALIASES = {
    "half": "float16", "fp16": "float16", "bf16": "bfloat16",
    "float": "float32", "fp32": "float32", "double": "float64", "fp64": "float64",
}  # fmt: skip
_LONGEST = 80  # characters: difflib takes the square of them


def nearest(word: str, known: Collection[str], most: int = 1) -> tuple[str, ...]:
    """Return the known words that are spelled like `word`, the most alike first."""
    from difflib import get_close_matches

    plain = {name.casefold(): name for name in known}
    found = get_close_matches(word[:_LONGEST].casefold(), plain, most)
    return tuple(plain[name] for name in found)


def fix(word: str, known: Collection[str], otherwise: str) -> str:
    """Return the fix for a word that is not known: the nearest one, before what there is."""
    close = nearest(word, known)
    return f"did you mean {close[0]}? {otherwise}" if close else otherwise


def chosen(text: str, known: Sequence[T], what: str, option: str, most: int = 0) -> tuple[T, ...]:
    """Return the comma-separated words of `text`, each of which must be known.

    Raises:
        QuestionError: one is not; the message names those that are.
    """
    names = tuple(map(str, known))
    words = [word.strip() for word in text.split(",")]
    words = [word if word in names else ALIASES.get(word.casefold(), word) for word in words]
    hint = f"{option} takes {'one' if most else 'some'} of {', '.join(names)}"
    for word in words:
        if word not in names:
            raise QuestionError(f'no {what} is called "{word}"', fix(word, names, hint))
    if most and len(words) > most:
        raise QuestionError(f"{option} has {len(words)} words", hint)
    return tuple(item for item in known if item in words)


def listed(names: Sequence[str], most: int) -> str:
    """Return names one by one, ``a, b and 2 more`` where there are more than that many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def ended(code: int) -> str:
    """Return how a process ended: by an exit code, or below 0 by minus the signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was ended by {name}"
