"""What a script is asked for on its command line; a wrong number is told before measuring."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(text: str) -> int:
    """Return how many are asked for: a whole number from 1 on.

    Raises:
        ArgumentTypeError: it is none; argparse then tells it, and ends with exit code 2.
    """
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def number(doc: str | None, name: str, default: int) -> int:
    """Return the one number that a script takes, as `numbers` does."""
    return numbers(doc, {name: default})[0]


def numbers(doc: str | None, defaults: Mapping[str, int]) -> list[int]:
    """Return the numbers that a script takes in this order, by the names that its `doc` has.

    Each may be left out, with all behind it. Exit code 2 if one is no whole number from 1 on, or
    if there are more.
    """
    about, _, _ = (doc or "").partition("\n")
    script = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{script}", description=about)
    for name, default in defaults.items():
        parser.add_argument(
            name, nargs="?", type=count, default=default, help=f"{default} if not said"
        )
    asked = parser.parse_args()
    return [getattr(asked, name) for name in defaults]
