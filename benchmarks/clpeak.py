"""Write and read of 512 MiB of ALLOC_HOST_PTR memory on PoCL, beside clpeak, in turns.

clpeak (Debian) times enqueueWriteBuffer and enqueueReadBuffer of a buffer's own host memory with
events; it prints the best of its loops' mean. Here the same copies go through a gpumap session,
blocking, by the host's clock. Five pairs, in alternating order; the figure is the median ratio.

    python -m benchmarks.clpeak
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from xml.etree import ElementTree as ET

import numpy as np

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.machine.topology import read

NBYTES = 512 << 20
PAIRS = 5
LOOPS = 10
WAYS = ("enqueuewritebuffer", "enqueuereadbuffer")


def clpeak() -> dict[str, float]:
    """Return clpeak's bandwidths in B/s."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "clpeak.xml"
        command = ["clpeak", "--transfer-bandwidth", "--xml-file", str(file)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        tree = ET.parse(file)  # noqa: S314 - clpeak's own file
    return {way: float(tree.find(f".//{way}").text) * 1e9 for way in WAYS}  # type: ignore[union-attr, arg-type]


def gpumap() -> dict[str, float]:
    """Return a session's bandwidths in B/s, for the same memory and bytes."""
    import pyopencl as cl

    backend = load("pyopencl", Host(dict(os.environ), read()))
    device = next(d for d in backend.probe().devices if d.ref.part is None)
    with backend.open(device, backend.clock()) as session:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        pinned = cl.Buffer(session.context, flags, NBYTES)  # type: ignore[attr-defined]
        access = cl.map_flags.READ | cl.map_flags.WRITE
        queue = session._queue  # type: ignore[attr-defined]  # noqa: SLF001
        host, _ = cl.enqueue_map_buffer(queue, pinned, access, 0, (NBYTES,), np.uint8)
        host[:] = np.arange(NBYTES, dtype=np.uint8)
        buffer = session.empty((NBYTES,), "uint8")
        rates = {}
        copies = (lambda: session.upload(host, buffer), lambda: session.download(buffer, host))
        for way, copy in zip(WAYS, copies, strict=True):
            times = []
            for _ in range(LOOPS + 1):
                start = time.perf_counter()
                copy()
                session.synchronize()
                times.append(time.perf_counter() - start)
            rates[way] = NBYTES * LOOPS / sum(times[1:])  # a mean, as clpeak's
        return rates


def main() -> int:
    """Alternate, print each pair and the median ratios."""
    if shutil.which("clpeak") is None:
        print("clpeak is not installed (Debian: apt-get install clpeak)", file=sys.stderr)
        return 3
    print("| pair | way | clpeak GB/s | gpumap GB/s | ratio |\n| --- | --- | --- | --- | --- |")
    for way, found in ratios(told=True).items():
        print(f"median ratio, {way}: {median(found):.3f}")
    return 0


def ratios(*, told: bool = False) -> dict[str, list[float]]:
    """Return gpumap's bandwidth over clpeak's, for each way and pair; `told`: and print both."""
    every: dict[str, list[float]] = {way: [] for way in WAYS}
    for pair in range(PAIRS):
        order = (clpeak, gpumap) if pair % 2 == 0 else (gpumap, clpeak)
        found = {run.__name__: run() for run in order}
        for way in WAYS:
            theirs, ours = found["clpeak"][way], found["gpumap"][way]
            every[way].append(ours / theirs)
            if told:
                print(f"| {pair + 1} | {way} | {theirs / 1e9:.2f} | {ours / 1e9:.2f} "
                      f"| {ours / theirs:.3f} |")  # fmt: skip
    return every


if __name__ == "__main__":
    sys.exit(main())
