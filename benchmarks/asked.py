"""What a script is asked for on its command line; a wrong number is told before measuring."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def count(text: str) -> int:
    """Return how many are asked for: a whole number from 1 on.

    Raises:
        ArgumentTypeError: it is none; argparse then tells it, and ends with exit code 2.
    """
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def number(doc: str | None, name: str, default: int) -> int:
    """Return the one number that a script takes, which its `doc` calls `name`; or its default.

    Exit code 2 if it is no whole number from 1 on, or if there is more than one.
    """
    about, _, _ = (doc or "").partition("\n")
    script = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{script}", description=about)
    parser.add_argument(
        "asked", metavar=name, nargs="?", type=count, default=default, help=f"{default} if not said"
    )
    return int(parser.parse_args().asked)
