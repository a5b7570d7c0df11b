"""What a word that is not known may have meant: behind every "did you mean", and other names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

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
