"""Do runs keep their budgets, and does any print an impossible ratio or a groundless interval?

    python -m benchmarks.figures [--runs 20] [--only WORD] [--busy 0] [--scripted]

Runs each of COMMANDS so many times on this machine, with --busy processes that do nothing but count
beside them. The wall time of a run, from the start of the interpreter to its end, should be within
SLACK budgets and START seconds; the target is TARGET of the runs of each command. With `--scripted`
products and copies run on two scripted devices whose noise is large, another seed for each run, and
every second run has four times the budget. `doctor` asks about sound set-ups: what it names there
is a false alarm, and is counted.

Every report is read as plain JSON, and compared with rules that are written here once more, not
taken from gpumap: no speed-up above the number of names (2 for both ways at once), no ideal above
that of distinct pieces of hardware (with fetches: of names), no efficiency above names over pieces,
each plus 5 %; no overlap above 1; no interval, cause or bare status `ok` where a requested row has
fewer than six samples. Ends with 1 if a run breaks a rule, or a command its target.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import children
from benchmarks.contest import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Tree = dict[str, Any]

SLACK = 1.05  # a clock may rise a little
FEWEST = 6  # samples of an interval of 95 %
LONGER, START, TARGET = 1.15, 2.0, 0.95  # of a budget, seconds, share of the runs
COMMANDS = {  # and their budgets in seconds
    **{f"bench dot --size {size}": 3.0 for size in (256, 512, 1024)},
    "transfer-cost --sizes small,large": 3.0,
    "bench chain": 4.0,
    "bench train": 8.0,
    "bench allreduce --map a->cpu0;b->cpu1": 5.0,
    "selftest": 8.0,
    "doctor dev0->cpu0;dev1->cpu1": 0.0,
    "doctor dev0->opencl0:0": 0.0,
}
_SCRIPTED = ("bench dot --size 256", "transfer-cost --sizes small,large")
_COUNTED = ("loss",)  # figures that are not of the samples
_NOISE = (0.05, 0.3, 0.9)  # of scripted devices, each for one run in three


def main() -> int:
    """Run, print, and return 1 if a rule was broken or budgets were."""
    given = _given()
    counts, broken, late = Counter[str](), list[str](), False
    with children.busy(given.busy), tempfile.TemporaryDirectory() as folder:
        for words in _SCRIPTED if given.scripted else COMMANDS:
            if given.only not in words:
                continue
            runs = []
            for seed in range(given.runs):
                budget, tree, wall = _run(words, seed if given.scripted else None, Path(folder))
                runs.append((budget, tree, wall))
                counts.update(_counted(tree))
                broken += (f"{words}, run {seed}: {each}" for each in wrong(tree))
            late |= not _within(words, runs)
    for line in (*broken, *(f"{n:7}  {what}" for what, n in sorted(counts.items()))):
        print(line)
    print(f"{len(broken)} rules broken")
    return int(bool(broken) or late)


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=count, default=20)
    parser.add_argument("--only", default="", help="commands with this word in them")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--scripted", action="store_true")
    return parser.parse_args()


def _run(words: str, seed: int | None, folder: Path) -> tuple[float, Tree, float]:
    """Run a command line; return its budget, its report and its wall time."""
    budget, env = COMMANDS[words], dict(os.environ)
    more: tuple[str, ...] = ()
    if seed is not None:
        script = folder / "script.toml"
        script.write_text(script_of(seed), encoding="utf-8")
        env["GPUMAP_FAKE"] = str(script)
        more = ("--backend", "fake", "--map", "a->cuda0;b->cuda1")
        budget *= 4 if seed % 2 else 1
    if budget:
        more = (*more, f"--budget={budget}s")
    done = children.gpumap(*words.split(" "), *more, env=env)
    return budget, done.report, done.elapsed


def _within(words: str, runs: list[tuple[float, Tree, float]]) -> bool:
    """Print how long the runs of a command took; return whether its budget held."""
    walls = sorted(wall for _, _, wall in runs)
    if not runs[0][0]:
        print(f"{words}: {len(runs)} runs, {walls[-1]:.2f} s at most", flush=True)
        return True
    share = sum(wall <= LONGER * budget + START for budget, _, wall in runs) / len(runs)
    found = [tree["result"]["measurements"] for _, tree, _ in runs]
    rows = [[row for row in one if row["status"] == "ok" and requested(row)] for one in found]
    good = [sum(blocks(row) >= FEWEST for row in every) for every in rows]
    print(
        f"{words}: {len(runs)} runs, {share:.0%} within the budget (median {median(walls):.2f} s, "
        f"most {walls[-1]:.2f}); rows {median(map(len, rows)):g}, of {FEWEST} blocks "
        f"{median(good):g}; none of {FEWEST} blocks in {good.count(0)} runs",
        flush=True,
    )
    return share >= TARGET


def script_of(seed: int) -> str:
    """Return two equal devices, in each run of a noise of its own."""
    noise = _NOISE[seed % len(_NOISE)]
    return "\n".join(
        f'[[device]]\nref = "cuda{n}"\nrate = 2e10\nlatency = 2e-5\nbandwidth = 1e9\n'
        f"noise = {noise}\nnoise_seed = {seed}\n"
        for n in range(2)
    )


def wrong(tree: Tree) -> Iterator[str]:
    """Yield each rule that a report breaks."""
    hardware = {device["id"]: set(device["hardware"]) for device in tree["devices"]}
    thin = False
    for row in tree["result"]["measurements"]:
        if row["status"] != "ok":
            continue
        few, id_ = blocks(row) < FEWEST, row["case"]["id"]
        thin = thin or (few and requested(row))
        yield from (f"{id_}: {each}" for each in _above(row, hardware))
        if few:
            yield from (f"{id_}: {each}" for each in _concluded(row))
    if thin and tree["status"] == "ok":
        yield "ok, with a requested row of fewer than six samples"


def _above(row: Tree, hardware: dict[str, set[str]]) -> Iterator[str]:
    """Yield the ratios of a row that are above their ceilings."""
    case, bound = row["case"]["name"], row["case"]["bindings"]
    names = 2 if case == "bidir" else len(bound)
    parts = pieces(hardware[each["device"]] for each in bound)
    ideal = names if "fetch" in case else parts
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
            yield f"{name} has an interval of {blocks(row)} samples"
    if row["explanation"] is not None:
        yield f"{row['explanation']['cause']} is given for {blocks(row)} samples"


def pieces(every: Iterable[set[str]]) -> int:
    """Return how many groups of devices share nothing."""
    groups: list[set[str]] = []
    for own in every:
        touching = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own] + [own.union(*touching)]
    return len(groups)


def requested(row: Tree) -> bool:
    """Return whether a row is a requested one: no control, no size of a model's sweep."""
    case = row["case"]
    return case["bench"] != "control" and case["params"].get("pattern") != "ladder"


def blocks(row: Tree) -> int:
    """Return how many samples a row has."""
    return len(row["samples"]["seconds"])


def _counted(tree: Tree) -> Iterator[str]:
    """Yield a word for each thing that is counted."""
    yield f"runs of {tree['kind']}, {tree['status']}"
    for found in tree.get("diagnoses") or ():
        codes = [finding["code"] for finding in found["findings"]]
        yield f"diagnoses: {found['verdict']} {' '.join(codes[:1])}"
    for row in tree["result"]["measurements"]:
        if row["status"] == "ok" and requested(row):
            yield "rows"
            if blocks(row) < FEWEST:
                yield "rows of fewer than six samples"
            for figure in row["metrics"].values():
                if figure.get("nonfinite") == "impossible":
                    yield "ratios refused"


if __name__ == "__main__":
    sys.exit(main())
