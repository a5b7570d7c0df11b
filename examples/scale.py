"""Three programs for `gpumap scale`, each on all cores that it may run on.

    gpumap scale "a->cpu0;b->cpu1" -- python examples/scale.py processes

processes: sums in Python, in a process for each core; threads: the same in threads, which hold
Python's lock in turns; memory: NumPy adds arrays that no cache holds, in a process for each core.
"""

import multiprocessing
import os
import sys
import threading

PIECES = 64
TERMS = 200_000
ELEMENTS = 1 << 23  # of float64: 64 MiB an array


def summed(piece: int) -> int:
    """Return a sum of squares, one by one."""
    return sum(n * n for n in range(piece * TERMS, (piece + 1) * TERMS))


def added(count: int) -> None:
    """Add two arrays so many times."""
    import numpy as np

    left, right = np.ones(ELEMENTS), np.ones(ELEMENTS)
    for _ in range(count):
        np.add(left, right, out=left)


def main(how: str) -> None:
    """Work on all cores that this process may run on."""
    workers = len(os.sched_getaffinity(0))
    print(f"{PIECES} pieces on {workers} cores: {how}")
    if how == "threads":
        each = [range(n, PIECES, workers) for n in range(workers)]
        threads = [threading.Thread(target=lambda own=own: [*map(summed, own)]) for own in each]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        if how == "memory":
            pool.map(added, [PIECES // workers] * workers, 1)
        else:
            pool.map(summed, range(PIECES), 1)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] in (["threads"], ["memory"]) else "processes")
