"""How often preflight is right on scripted devices: false names, slow devices, flipped bits.

    python -m benchmarks.preflight [--healthy 1000] [--slow 100] [--flips 100]

Eight devices with a noise of 1 %, each run with noise of its own. The targets: none of 1,000
healthy runs is refused; one of eight that is 5 % slower is named in 95 of 100 runs, another one in
1 at most; a bit that flips after some launches of a soak is found in 100 of 100, on its device and
on no other.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.doctor.screening_child import Screening
from gpumap.machine.topology import read
from gpumap.model.io import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpumap.model import FitnessCheck

COUNT, NOISE, SLOWER = 8, 0.01, 1.05
RATE = 1e9  # FLOP/s
SKIPPED = ("siblings", "upload-rate", "download-rate", "memory-rate")
SECONDS = 600.0  # no run is cut short by a busy machine
SOAK = 1.0  # seconds


def screened(
    devices: Iterable[Mapping[str, object]],
    folder: Path,
    tier: str = "quick",
    seconds: float = SECONDS,
) -> list[FitnessCheck]:
    """Return the checks of one run on scripted devices; of a soak without what comes before it."""
    text = []
    for number, device in enumerate(devices):
        keys = {"ref": f'"cuda{number}"', "rate": RATE, "latency": 5e-6, "noise": NOISE} | device
        text += ["[[device]]", *(f"{key} = {value}" for key, value in keys.items())]
    script = folder / "fake.toml"
    script.write_text("\n".join(text))
    env = {**os.environ, "GPUMAP_FAKE": str(script)}
    found = load("fake", Host(env, read())).probe().devices
    names = [{"name": f"dev{n}", "device": plain(device)} for n, device in enumerate(found)]
    done = [(what, each["name"], None) for what in SKIPPED for each in names]
    done += [(what, None, None) for what in ("all-at-once", "allreduce")]
    done = done if tier == "soak" else []
    job = {"names": names, "done": done, "seconds": seconds, "tier": tier}
    job["end"] = time.monotonic() + seconds
    lines: list[Mapping[str, Any]] = []
    Screening(job, env, lines.append).run()
    return [line["result"].check for line in lines if "result" in line]


def named(checks: Iterable[FitnessCheck]) -> set[str]:
    """Return the names that something is wrong with."""
    return {check.name or "" for check in checks if check.fitness != "fit"}


def seeded(run: int) -> list[dict[str, object]]:
    """Return devices whose noise no other run has."""
    return [{"noise_seed": COUNT * run + number} for number in range(COUNT)]


def main() -> None:
    """Print how often each is as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, count in (("healthy", 1000), ("slow", 100), ("flips", 100)):
        parser.add_argument(f"--{name}", type=int, default=count)
    options, rng = parser.parse_args(), random.Random(1)  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        refused = sum(bool(named(screened(seeded(n), folder))) for n in range(options.healthy))
        print(f"healthy runs refused: {refused} of {options.healthy}")
        right = wrong = 0
        for run in range(options.slow):
            devices, slow = seeded(options.healthy + run), rng.randrange(COUNT)
            devices[slow]["rate"] = RATE / SLOWER
            found = named(screened(devices, folder))
            right += f"dev{slow}" in found
            wrong += bool(found - {f"dev{slow}"})
        print(f"slow device named: {right} of {options.slow}; another one: {wrong}")
        hits = 0
        for _ in range(options.flips):
            faulty, after = rng.randrange(2), rng.randrange(40, 140)
            devices = [{}, {}]
            devices[faulty] = {"fault": '"wrong-product"', "fault_after": after}
            hits += named(screened(devices, folder, "soak", SOAK)) == {f"dev{faulty}"}
        print(f"flipped bits found, and on no other device: {hits} of {options.flips}")


if __name__ == "__main__":
    main()
