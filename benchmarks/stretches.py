"""How comparisons of two stretches of one recorded run end: false alarms, and changes found.

    gpumap bench dot --size 1024 --budget 2m --precision 0.1% --output trace.json
    python -m benchmarks.stretches trace.json [--runs 100] [--blocks 24]

Two stretches of as many blocks each, that share none, are compared as two runs are: as they were
recorded, and with a tenth more work in the second one. Which samples were disturbed is judged by
the recorded evidence, and each time relative to its recorded control. The targets: of A against A
90 in 100 end in exit code 0 and at most 2 in 1; of a tenth more work 90 in 1.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpumap.judge.compare import compare
from gpumap.model import Samples, WorkTimes, io, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.model import Measurement, Report

MORE = 0.1  # of the work
FIRST = ("one", "many")
THRESHOLD = 0.05  # of `gpumap compare`


def stretches(report: Report, runs: int, count: int) -> Iterator[str]:
    """Yield how comparisons of two stretches of a recorded run end, for each set of its cases."""
    every = [row for row in report.measurements if row.status == "ok" and row.samples]
    yield "| cases | change | exit 0 | exit 1 | exit 5 |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for cases in ({*FIRST}, {row.case.name for row in every}):
        rows = [row for row in every if row.case.name in cases or row.case.is_control]
        blocks = sorted(set.intersection(*(set(row.samples.blocks) for row in rows if row.samples)))
        if len(blocks) < 2 * count:
            raise SystemExit(f"{len(blocks)} blocks have every case; {2 * count} are the fewest")
        for more in (0.0, MORE):
            rng, codes = np.random.default_rng(6), Counter[int]()
            for _ in range(runs):
                first, second = sorted(rng.integers(0, len(blocks) - 2 * count + 1, 2))
                starts = [int(first), int(second) + count]
                rng.shuffle(starts)
                parts = [{*blocks[start : start + count]} for start in starts]
                base, new = (
                    replace(report, measurements=tuple(_stretch(row, part, change) for row in rows))
                    for part, change in zip(parts, (0.0, more), strict=True)
                )
                words = {verdict.verdict for verdict in compare(base, new, THRESHOLD)}
                codes[1 if "regression" in words else 5 if "inconclusive" in words else 0] += 1
            cells = " | ".join(str(codes[code]) for code in (0, 1, 5))
            yield f"| {len(rows)} rows | {more:+.0%} | {cells} |"


def _stretch(row: Measurement, blocks: set[int], more: float) -> Measurement:
    """Return a row with the samples of some blocks; its work takes longer, a control's does not."""
    samples, factor = row.samples or Samples(), 1.0 if row.case.is_control else 1.0 + more
    kept = [n for n, block in enumerate(samples.blocks) if block in blocks]

    def only(values: Sequence[float], by: float = factor) -> tuple[float, ...]:
        return tuple(by * values[n] for n in kept) if values else ()

    found = replace(
        samples,
        seconds=only(samples.seconds),
        blocks=tuple(samples.blocks[n] for n in kept),
        queue=only(samples.queue),
        cpu=only(samples.cpu),
        control=only(samples.control, 1.0),
        worked={name: only(each) for name, each in samples.worked.items()},
        intervals={
            name: WorkTimes.of((a, a + factor * (b - a)) for a, b in (each[n] for n in kept))
            for name, each in samples.intervals.items()
        },
        sample_notes=(),
        phases={},
    )
    return replace(row, samples=found)


def main() -> None:
    """Print how the comparisons end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("report", type=Path, help="a JSON report of many blocks")
    parser.add_argument("--runs", type=int, default=100, help="comparisons of each kind")
    parser.add_argument("--blocks", type=int, default=24, help="of a stretch")
    given = parser.parse_args()
    for line in stretches(io.read(given.report), given.runs, given.blocks):
        print(line, flush=True)


if __name__ == "__main__":
    main()
