"""Find runs that print an impossible ratio, an interval of under six samples, or exceed budgets.

    python -m benchmarks.figures [--dot 50] [--transfer 20] [--budget 3] [--beside 0] [--scripted]

Runs `gpumap bench dot --size 256` and `gpumap transfer-cost --sizes small,large` so many times on
this machine with the default map, in so many seconds each: their wall times should be within the
limit of `benchmarks.budget`, and how many are is printed. With `--scripted` it takes two scripted
devices whose noise is large, another seed for each run, and every second run has four times the
budget. `--beside` keeps so many processes busy meanwhile. Every report is read as plain JSON, and
compared with rules that are written here once more, not taken from gpumap: no speed-up above the
number of names (2 for both ways at once), no ideal above that of distinct pieces of hardware (with
fetches: of names), no efficiency above names over pieces, each plus 5 %; no overlap above 1; no
interval, cause or bare status `ok` where a requested row has fewer than six samples. Ends with 1 if
any run breaks one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.budget import SLACK as LONGER
from benchmarks.budget import START, busy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Tree = dict[str, Any]

SLACK = 1.05  # a clock may rise a little
FEWEST = 6  # samples of an interval of 95 %
COMMANDS = {
    "dot": ("bench", "dot", "--size", "256"),
    "transfer": ("transfer-cost", "--sizes", "small,large"),
}
_COUNTED = ("moved", "loss")  # figures that are not of the samples
_CODES = (0, 1, 5)  # of runs that came to their end
_NOISE = (0.05, 0.3, 0.9)  # of scripted devices, each for one run in three


def main() -> int:
    """Run, print, and return 1 if a rule was broken."""
    given = _given()
    counts, broken = Counter[str](), list[str]()
    with busy(given.beside):
        for number, (words, script) in enumerate(_runs(given)):
            start = time.perf_counter()
            tree = run(words, script)
            wall = time.perf_counter() - start
            found = list(wrong(tree))
            counts.update(_counted(tree))
            late = wall > LONGER * tree["settings"]["budget_s"] + START
            counts[f"runs of {tree['kind']}, {'late' if late else 'within the budget'}"] += 1
            broken += (f"run {number}, {' '.join(words)}: {each}" for each in found)
    for line in (*broken, *(f"{count:7}  {what}" for what, count in sorted(counts.items()))):
        print(line)
    print(f"{len(broken)} rules broken")
    return 1 if broken else 0


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    for name, count in (("dot", 50), ("transfer", 20), ("budget", 3), ("beside", 0)):
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--scripted", action="store_true")
    return parser.parse_args()


def _runs(given: argparse.Namespace) -> Iterator[tuple[tuple[str, ...], str | None]]:
    for name, words in COMMANDS.items():
        for seed in range(getattr(given, name)):
            if given.scripted:
                more = ("--backend", "fake", "--map", "a->cuda0;b->cuda1")
                budget = given.budget * (4 if seed % 2 else 1)
                yield (*words, *more, f"--budget={budget}s"), script_of(seed)
            else:
                yield (*words, f"--budget={given.budget}s"), None


def script_of(seed: int) -> str:
    """Return two equal devices, in each run of a noise of its own."""
    noise = _NOISE[seed % len(_NOISE)]
    return "\n".join(
        f'[[device]]\nref = "cuda{n}"\nrate = 2e10\nlatency = 2e-5\nbandwidth = 1e9\n'
        f"noise = {noise}\nnoise_seed = {seed}\nspikes = 0.05\nspike = 20.0\n"
        for n in range(2)
    )


def run(words: Sequence[str], script: str | None) -> Tree:
    """Return the report of a command line.

    Raises:
        RuntimeError: it did not come to its end.
    """
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ)
        if script is not None:
            (Path(folder) / "script.toml").write_text(script, encoding="utf-8")
            env["GPUMAP_FAKE"] = str(Path(folder) / "script.toml")
        command = [sys.executable, "-m", "gpumap", *words, "--format", "json", "--quiet"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in _CODES:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
    found: Tree = json.loads(done.stdout)
    return found


def wrong(tree: Tree) -> Iterator[str]:
    """Yield each rule that a report breaks."""
    hardware = {device["id"]: set(device["hardware"]) for device in tree["devices"]}
    thin = False
    for row in tree["measurements"]:
        if row["status"] != "ok":
            continue
        few = len(row["samples"]) < FEWEST
        thin = thin or (few and requested(row))
        yield from (f"{row['id']}: {each}" for each in _above(row, hardware))
        if few:
            yield from (f"{row['id']}: {each}" for each in _concluded(row))
    if thin and tree["status"] == "ok":
        yield "ok, with a requested row of fewer than six samples"


def _above(row: Tree, hardware: dict[str, set[str]]) -> Iterator[str]:
    """Yield the ratios of a row that are above their ceilings."""
    names = 2 if row["case"] == "bidir" else len(row["names"])
    parts = pieces(hardware[id_] for id_ in row["devices"])
    ideal = names if "fetch" in row["case"] else parts
    tops = dict.fromkeys(("speedup", "speedup_over_one"), SLACK * names)
    tops |= dict.fromkeys(("ideal", "ideal_balanced"), SLACK * ideal)
    tops |= {"efficiency": SLACK * names / parts, "overlap": 1.0}
    for name, top in tops.items():
        value = row["metrics"].get(name, {}).get("value")
        if value is not None and value > top:
            yield f"{name} {value:.4g} is above {top:.4g}"


def _concluded(row: Tree) -> Iterator[str]:
    """Yield what is concluded from a row of too few samples."""
    for name, figure in row["metrics"].items():
        if name not in _COUNTED and (figure["low"], figure["high"]) != (None, None):
            yield f"{name} has an interval of {len(row['samples'])} samples"
    if row["explanation"] is not None:
        yield f"{row['explanation']['cause']} is told of {len(row['samples'])} samples"


def pieces(every: Iterable[set[str]]) -> int:
    """Return how many groups of devices share nothing."""
    groups: list[set[str]] = []
    for own in every:
        touching = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own] + [own.union(*touching)]
    return len(groups)


def requested(row: Tree) -> bool:
    """Return whether a row was asked for: no control, no size of a model's sweep."""
    return row["bench"] != "control" and row["params"].get("pattern") != "ladder"


def _counted(tree: Tree) -> Iterator[str]:
    """Yield a word for each thing that is counted."""
    yield f"runs of {tree['kind']}, {tree['status']}"
    for row in tree["measurements"]:
        if row["status"] == "ok" and requested(row):
            yield "rows"
            if len(row["samples"]) < FEWEST:
                yield "rows of fewer than six samples"
            for figure in row["metrics"].values():
                if figure.get("nonfinite") == "impossible":
                    yield "ratios refused"


if __name__ == "__main__":
    sys.exit(main())
