"""False alarms and missed changes: A against A, and against more work, on a core of this machine.

    python -m benchmarks.aa [--repetitions 100] [--seconds 2.5] [--output docs/measured/NAME]

A repetition measures four pairs with gpumap's own runner, each for so many seconds and interleaved
block by block: A against itself, and against 1 %, 5 % and 10 % more work of the same kind (101
products for 100, 21 for 20, 22 for 20). `gpumap.judge.verdict` judges each pair at four thresholds.
A pair that was disturbed (another process took over 5 % of a core, or the hypervisor over 1 %) is
measured again, at most five times; all of that is in the record. TARGETS says what must come out.

`--output` takes a path without a suffix, and writes `.json` and `.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import around
from gpumap.backends.base import Host, SystemClock
from gpumap.backends.numpy import NumpyBackend
from gpumap.bench.base import Settings
from gpumap.bench.dot import Pair, Product
from gpumap.bench.figures import by_block, time_of
from gpumap.bench.runner import Runner
from gpumap.files import write_atomic
from gpumap.judge.noise import THRESHOLDS
from gpumap.judge.verdict import judge, located
from gpumap.machine.fingerprint import blas, environment, fingerprint
from gpumap.machine.state import Neighbours
from gpumap.machine.topology import read
from gpumap.model import Binding, Case, Group, Plan, Work
from gpumap.version import __version__

if TYPE_CHECKING:
    from gpumap.bench.seen import Seen

SIZE = 256
PAIRS = {"A/A": (20, 20), "1%": (100, 101), "5%": (20, 21), "10%": (20, 22)}  # products of A, of B
AGAIN = 5  # times that a disturbed pair is measured again
FOREIGN, STEAL = 0.05, 0.01  # of a core, of all time: more is a disturbance


@dataclass(frozen=True)
class Target:
    """How many of the repetitions may, or must, be called so."""

    pair: str
    words: tuple[str, ...]
    threshold: float
    least: float = 0.0  # shares of the repetitions
    most: float = 1.0

    def met(self, share: float) -> bool:
        """Return whether a share is as it must be; rounding costs nobody a target."""
        return self.least - 1e-9 <= share <= self.most + 1e-9

    def __str__(self) -> str:
        bound = f"at least {self.least:.0%}" if self.least else f"at most {self.most:.0%}"
        return f"{self.pair}: {' or '.join(self.words)} at {self.threshold:.0%}: {bound}"


ALARM = ("regression", "improvement")
TARGETS = (
    *(Target("A/A", ALARM, threshold, most=0.02) for threshold in THRESHOLDS),
    Target("5%", ("regression",), 0.02, least=0.90),
    Target("10%", ("regression",), 0.05, least=0.90),
    *(Target("1%", ("improvement",), threshold, most=0.0) for threshold in THRESHOLDS),
    Target("1%", ("regression",), 0.02, most=0.0),
)


class Batch:
    """So many products, one after the other, as one round."""

    route: str | None = None

    def __init__(self, product: Product, count: int) -> None:
        self._product = product
        self._count = count
        self.poison = product.poison

    def queue(self, spans: Any = None, rounds: int = 1) -> None:
        """Queue them all `rounds` times, between two marks where their span is wanted."""
        name, session = self._product.name, self._product.session
        if spans is not None:
            spans.begin(name, session)
        for _ in range(rounds * self._count):
            self._product.queue()
        if spans is not None:
            spans.end(name, session)

    def finish(self) -> None:
        """Wait for the last of them."""
        self._product.session.synchronize()

    def check(self) -> Any:
        """Return whether the last of them is right."""
        return self._product.check(fetched=False)


class Compared:
    """A benchmark of two cases, which differ in their number of products alone."""

    key = "aa"

    def __init__(self, binding: Binding, product: Product, counts: tuple[int, int]) -> None:
        self._product = product
        a, b = (
            Case(self.key, name, {"products": n}, (binding,), Work(n, 2 * SIZE**3 * n))
            for name, n in zip("ab", counts, strict=True)
        )
        b = Case(self.key, "b", b.params, (binding,), b.work, against=a.id)
        self.plan = Plan((Group((a, b)),))

    def begin(self, group: Group) -> None:
        """Keep the matrices: every pair multiplies the same ones."""

    def round(self, case: Case) -> Batch:
        """Return a case's products."""
        return Batch(self._product, case.work.products)

    def metrics(self, group: Group, samples: Any, confidence: float) -> dict[str, Any]:  # noqa: ARG002
        """Return the time of each case."""
        return {id_: {"time": time_of(found, confidence)} for id_, found in samples.items()}

    def limit(self, case: Case) -> None:
        """Return nothing: the cases are held against each other only."""


class Silent:
    """An observer that says nothing: a progress bar is work too."""

    def planned(self, plan: Plan) -> None:
        """Hear of the plan."""

    def block(self, seen: Seen) -> None:
        """Hear of a block."""

    def ended(self, measurements: Any) -> None:
        """Hear of the end."""


def main() -> int:
    """Measure, write and print the record, and return 1 if a target is missed."""
    asked = _arguments()
    host, clock = Host(os.environ, read()), SystemClock()
    backend = NumpyBackend(host)
    device = next(d for d in backend.probe().devices if str(d.ref) == "cpu0")
    record = _begun(asked, host, device)
    with backend.open(device, clock) as session:
        pair = Pair((1, 0), SIZE, "float32")
        product = Product("core", session, pair)
        record["fingerprint"] = _fingerprint(host, device)
        for number in range(asked.repetitions):
            for name, counts in PAIRS.items():
                benchmark = Compared(Binding("core", device), product, counts)
                found = _repeated(benchmark, clock, asked, number)
                record["repetitions"].append({"repetition": number, "pair": name, **found})
            around.say(f"{number + 1} of {asked.repetitions} repetitions")
            _write(asked.output, record)
    record["machine"]["after"] = around.state()
    record["ended"] = around.stamp()
    _write(asked.output, record)
    print(markdown(record))
    return int(not all(one["met"] for one in record["targets"]))


def _repeated(benchmark: Compared, clock: SystemClock, asked: Any, number: int) -> dict[str, Any]:
    """Measure a pair; again while it is disturbed; keep what the disturbed ones had too."""
    disturbed = []
    for attempt in range(AGAIN + 1):
        found = _measured(benchmark, clock, asked.seconds, seed=(AGAIN + 1) * number + attempt)
        if found["quiet"] or attempt == AGAIN or asked.once:
            return {**found, "disturbed": disturbed}
        disturbed.append({key: found[key] for key in ("foreign_cores", "steal", "log_ratio")})
    raise AssertionError


def _measured(benchmark: Compared, clock: SystemClock, seconds: float, seed: int) -> dict[str, Any]:
    """Measure A and B once, as `gpumap bench` would, to the end of the time."""
    settings = Settings(seconds, 10 * seconds, seed=seed, whole=True)
    runner = Runner(benchmark, clock, settings, Silent(), Neighbours().read)
    a, b = runner.run()
    if a.status != "ok" or b.status != "ok":
        raise SystemExit(f"a case was not measured: {a.reason or b.reason}")
    base, new = by_block(a.samples), by_block(b.samples)
    ratios = [new[block] / base[block] for block in new if block in base]
    place = located(ratios)
    return {
        "blocks": len(ratios),
        "effective_n": place and round(place.effective_n, 1),
        "log_ratio": place and [place.value, place.low, place.high],
        "words": {str(threshold): judge(ratios, threshold) for threshold in THRESHOLDS},
        "foreign_cores": b.around.foreign,
        "steal": b.around.steal,
        "quiet": _at_most(b.around.foreign, FOREIGN) and _at_most(b.around.steal, STEAL),
    }


def _at_most(share: float | None, limit: float) -> bool:
    """Return whether a share is within its limit; one that is not known is not."""
    return share is not None and share <= limit


def results(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each target with the share that was seen, and whether it is met."""
    found = []
    for target in TARGETS:
        rows = [row for row in record["repetitions"] if row["pair"] == target.pair]
        called = [row for row in rows if row["words"][str(target.threshold)] in target.words]
        share = len(called) / len(rows) if rows else float("nan")
        seen = {"target": str(target), "seen": len(called), "of": len(rows)}
        found.append({**seen, "met": target.met(share)})
    return found


def markdown(record: dict[str, Any]) -> str:
    """Return a record as Markdown, with nothing that is not in it."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: dict[str, Any]) -> Any:
    met = all(one["met"] for one in record["targets"])
    settings, machine = record["settings"], record["machine"]
    yield f"# A against A, {record['device']['name']}, {record['started'][:10]}"
    yield ""
    state = "complete" if record["ended"] else "incomplete"
    yield f"**{'met' if met else 'missed'}** ({state}): {_quiet(record)}"
    yield ""
    yield (
        f"{settings['repetitions']} repetitions of {settings['seconds']:g} s a pair; products of "
        f"{SIZE} x {SIZE} float32 on {record['device']['ref']}, {record['fingerprint']['blas']}; "
        f"gpumap {record['gpumap']['version']}, Python {record['python']}, "
        f"{record['started']} to {record['ended'] or 'it was ended'}."
    )
    yield ""
    before, after = (around.words(machine[when]) for when in ("before", "after"))
    yield f"Machine before: {before}; after: {after}."
    yield from _table(("target", "seen", "verdict"), [
        (one["target"], f"{one['seen']} of {one['of']}", "met" if one["met"] else "**missed**")
        for one in record["targets"]
    ])  # fmt: skip
    heads = ("pair", "products", *(f"at {threshold:.0%}" for threshold in THRESHOLDS),
             "half-width", "blocks")  # fmt: skip
    yield from _table(heads, [_pair(record, name) for name in PAIRS])
    yield ""
    yield (
        "In a cell: regression / improvement / same / inconclusive. half-width: the median of the "
        "repetitions' intervals, half of each. Every repetition is in the JSON file."
    )


def _pair(record: dict[str, Any], name: str) -> tuple[str, ...]:
    from statistics import median

    rows = [row for row in record["repetitions"] if row["pair"] == name]
    known = ("regression", "improvement", "same", "inconclusive")
    cells = []
    for threshold in THRESHOLDS:
        words = [row["words"][str(threshold)] for row in rows]
        cells.append(" / ".join(str(words.count(word)) for word in known))
    widths = [(ends[2] - ends[1]) / 2 for row in rows if (ends := row["log_ratio"])]
    wide = f"{median(widths):.2%}" if widths else "-"
    blocks = f"{median(row['blocks'] for row in rows):g}" if rows else "-"
    return name, "{} and {}".format(*PAIRS[name]), *cells, wide, blocks


def _quiet(record: dict[str, Any]) -> str:
    rows = record["repetitions"]
    quiet = sum(row["quiet"] for row in rows)
    again = sum(len(row["disturbed"]) for row in rows)
    worst = max((row["foreign_cores"] or 0.0 for row in rows), default=0.0)
    return (
        f"{quiet} of {len(rows)} measurements were undisturbed, {again} were taken again; during "
        f"those that count, other processes kept at most {worst:.2f} cores busy."
    )


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Any:
    yield ""
    for cells in (heads, ("---",) * len(heads), *rows):
        yield f"| {' | '.join(cells)} |"


def _begun(asked: Any, host: Host, device: Any) -> dict[str, Any]:
    return {
        "record": "gpumap A against A",
        "schema_version": 1,
        "started": around.stamp(),
        "ended": None,
        "gpumap": {"version": __version__},
        "python": platform.python_version(),
        "device": {"ref": str(device.ref), "name": device.name, "cores": list(device.cores)},
        "fingerprint": None,
        "environment": {k: v for k, v in environment(host.env).items() if v},
        "settings": {"repetitions": asked.repetitions, "seconds": asked.seconds, "size": SIZE},
        "machine": {"before": around.state(), "after": None},
        "targets": [],
        "repetitions": [],
    }


def _fingerprint(host: Host, device: Any) -> dict[str, Any]:
    import numpy as np

    loaded = blas()
    found = fingerprint(host.topology, (device,), {"numpy": np.__version__, **loaded})
    return {
        "hash": found.hash, "cpu": found.cpu, "cores": found.cores, "os": found.os,
        "libraries": dict(found.libraries),
        "blas": f"OpenBLAS {loaded.get('openblas')} for {loaded.get('openblas_core')}",
    }  # fmt: skip


def _write(base: Path | None, record: dict[str, Any]) -> None:
    """Write what there is after every repetition: a run that is ended leaves what it had."""
    record["targets"] = results(record)
    if base is not None:
        write_atomic(base.with_name(f"{base.name}.json"), _json(record))
        write_atomic(base.with_name(f"{base.name}.md"), markdown(record))


def _json(record: dict[str, Any]) -> str:
    """Return JSON with one repetition in each line."""
    head = {key: value for key, value in record.items() if key != "repetitions"}
    rows = ",\n".join(f"  {json.dumps(row)}" for row in record["repetitions"])
    return json.dumps(head, indent=1)[:-2] + f',\n "repetitions": [\n{rows}\n ]\n}}\n'


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=2.5, help="of each pair")
    parser.add_argument("--output", type=Path, help="path of the record, without a suffix")
    parser.add_argument("--once", action="store_true", help="measure nothing again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
