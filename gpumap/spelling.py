"""What a word that is not known may have meant: behind every "did you mean", and other names."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

T = TypeVar("T")

# Types of elements as PyTorch, NumPy, C and hardware call them.
ALIASES = {
    "half": "float16", "fp16": "float16", "f16": "float16", "bf16": "bfloat16",
    "float": "float32", "single": "float32", "fp32": "float32", "f32": "float32",
    "double": "float64", "fp64": "float64", "f64": "float64",
}  # fmt: skip
_ALIKE = 0.6  # of difflib's ratio, which is 1 for equal words
_LONGEST = 80  # characters: difflib takes the square of them


def meant(word: str, known: Collection[str]) -> str:
    """Return the known word that `word` is another name of, or else `word`."""
    other = ALIASES.get(word.casefold(), word)
    return other if word not in known and other in known else word


def nearest(
    word: str, known: Collection[str], most: int = 1, alike: float = _ALIKE
) -> tuple[str, ...]:
    """Return the known words that are spelled like `word`, the most alike first."""
    from difflib import get_close_matches

    plain = {name.casefold(): name for name in known}
    found = get_close_matches(word[:_LONGEST].casefold(), plain, most, alike)
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
    words = [meant(word.strip(), names) for word in text.split(",")]
    hint = f"{option} takes {'one' if most else 'some'} of {', '.join(names)}"
    for word in words:
        if word not in names:
            raise QuestionError(f'no {what} is called "{word}"', fix(word, names, hint))
    if most and len(words) > most:
        raise QuestionError(f"{option} has {len(words)} words", hint)
    return tuple(item for item in known if item in words)
