"""Parse maps of n and 2n entries and print the times: a ratio near 2 is linear.

python -m benchmarks.parse [N]
"""

from __future__ import annotations

import time
from contextlib import suppress

from benchmarks import asked
from gpumap.errors import MapError
from gpumap.parse import parse_map

REPEATS = 5
MAPS = {
    "valid": lambda n: ";".join(f"dev{i}->cuda{i % 8}" for i in range(n)),
    "one name": lambda n: "a->cpu0;" * n,
    "empty entries": lambda n: ";" * n + " ",
    "unknown devices": lambda n: ";".join(f"dev{i}->gpu{i % 8}" for i in range(n)),
    "no arrows": lambda n: "dev0=cuda0;" * n,
    "one long name": lambda n: "a" * n + "->cuda0",
    "one long device": lambda n: "a->cuda" + "9" * n,
    "blanks": lambda n: "a->cpu" + " " * n + ";",
}


def main(n: int) -> None:
    """Print one row for each kind of map."""
    print(f"{'map':<16} {n:>12,} {2 * n:>12,}  ratio   (best of {REPEATS}, seconds)")
    for name, make in MAPS.items():
        once, twice = _seconds(make(n)), _seconds(make(2 * n))
        print(f"{name:<16} {once:>12.6f} {twice:>12.6f}  {twice / once:.2f}")


def _seconds(text: str) -> float:
    return min(_timed(text) for _ in range(REPEATS))


def _timed(text: str) -> float:
    start = time.perf_counter()
    with suppress(MapError):  # most of these maps are wrong on purpose
        parse_map(text)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(asked.number(__doc__, "N", 50_000))
