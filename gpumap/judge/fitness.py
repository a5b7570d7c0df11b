"""Whether a machine is fit: which device is slower than its siblings, and the headline.

A device is compared with the median of the others of its model, block by block. It is named where
it is slower by more than TOLERANCE with certainty: Holm's procedure keeps the probability that any
healthy device of a run is named at RATE at most.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from gpumap.judge.pairs import alarms, located
from gpumap.judge.phrases import ENDS, answer, fix, sentence
from gpumap.text import cut, middle
from gpumap.units import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpumap.model import Estimate, FitnessCheck, Headline, Level, Report, Screened

TOLERANCE = 0.03  # healthy devices of one model differ by less
TOLERANCE_OF_CORES = 0.3  # of those in the host's memory: another thread on a core takes that much
RATE = 0.01  # one-sided error of any false name in a run
_MAP = 40  # characters of a default map


def compared(
    times: Mapping[str, Sequence[float]], tolerance: float = TOLERANCE
) -> dict[str, tuple[Estimate | None, bool]]:
    """Return each device's rate as a share of its siblings', and whether it is certainly slower.

    Args:
        times: seconds of the same work by name, one for each block; two names at least.
        tolerance: how much slower a healthy one may be, as a share.
    """
    ways = [partial(located, _ratios(name, times)) for name in times]
    slow = alarms(ways, tolerance, RATE)
    known = RATE / max(len(times), 1)  # as it takes to name one
    changes = [way(known) for way in ways]
    shares = [None if change is None else (-change).ratio for change in changes]
    return {name: (shares[n], n in slow) for n, name in enumerate(times)}


def _ratios(name: str, times: Mapping[str, Sequence[float]]) -> list[float]:
    others = [seconds for other, seconds in times.items() if other != name]
    blocks = zip(times[name], *others, strict=True)
    return [own / median(rest) for own, *rest in blocks]


def by_name(checks: Sequence[FitnessCheck]) -> dict[str, tuple[FitnessCheck, ...]]:
    """Return the checks of each name; a pair that failed is of the name that more of them have."""
    sure = [c for c in checks if c.other and c.fitness not in ("fit", "cannot-tell")]
    bad = Counter(name for check in sure for name in (check.name, check.other))
    found: dict[str, tuple[FitnessCheck, ...]] = {}
    for check in checks:
        names = [name for name in (check.name, check.other) if name is not None]
        most = max((bad[name] for name in names), default=0)
        for name in names:
            if check.fitness == "fit" or check.other is None or bad[name] == most:
                found[name] = (*found.get(name, ()), check)
    return found


def whose(check: FitnessCheck) -> str:
    """Return what a check is of: ``dev0``, ``dev0 to dev1``, or the node."""
    if check.name is None:
        return "this node"
    first = middle(check.name)
    return first if check.other is None else f"{first} to {middle(check.other)}"


def fitness(report: Report, result: Screened) -> Headline:
    """Answer whether a machine may take a job, and if not, what is wrong first."""
    from gpumap.model import WORST_FIRST

    bad = [check for check in result.checks if check.fitness != "fit"]
    bad.sort(key=lambda check: WORST_FIRST.index(check.fitness))
    before = ENDS.get(report.status, "")
    if not bad:
        return answer(report, "good", (f"{before}{_fit(report, result.checks)}",))
    first, unknown = bad[0], bad[0].fitness == "cannot-tell"
    word = "Cannot tell" if unknown else "Unfit"
    level: Level = "untrusted" if unknown else "failed"
    text = sentence(f"{before}{word}: {whose(first)}: {first.what}: {first.text}")
    more = f"{counted(len(bad) - 1, 'more item')} below." if len(bad) > 1 else ""
    return answer(report, level, (text, more, fix(first.fix)))


def _fit(report: Report, checks: Sequence[FitnessCheck]) -> str:
    names, source = counted(len(report.bindings), "name"), report.source
    if source is not None and source.origin == "default":
        names += f" (no map is given: {cut(source.text, _MAP)})"
    pairs = sum(check.what == "pair" for check in checks)
    moved = f", {counted(pairs, 'pair')} moved right bytes" if pairs else ""
    return (
        f"Fit: {names}, {counted(len(checks), 'item')} checked{moved}, in {report.elapsed:.1f} s."
    )
