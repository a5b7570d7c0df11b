"""What gpumap costs the host to queue work by CuPy: calls that do nothing, beside a bare loop.

    python -m benchmarks.queueing [ROUNDS]

CuPy is the stand-in of tests/cuda_standin, of which the calls that would queue work return at once:
no GPU is needed, and none is measured. Both sides make the same calls with the same arguments, in
turns. Printed are the medians of one, and what is left for gpumap: at most MOST where all is ready.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cuda_standin"))

from cupy.cuda import driver
from cupy_backends.cuda.libs import cublas

from benchmarks import around
from benchmarks.contest import ROUNDS, in_turns, looped, number, sampled, table
from gpumap.backends.base import Clock
from gpumap.backends.cupy.session import CupySession
from gpumap.backends.fake.script import FakeDevice, device_of
from gpumap.engine import stats
from gpumap.machine.state import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.contest import Queue

MOST = 0.6e-6  # seconds
_SECONDS = 0.02  # of a sample
_HEAD = ("what", "gpumap", "bare", "gpumap's part", "target", "")


def main() -> int:
    """Print what queueing costs; return 1 if it is beyond the target."""
    rounds = number(__doc__, "rounds", ROUNDS)
    watch, rows, missed = Watch(), [], False
    session = CupySession(device_of(FakeDevice("cuda0")), Clock(), frozenset({"kernels"}))
    for what, ours, bare, most in _sides(session):
        sides = {"ours": ours, "bare": bare}
        timed = {name: sampled(queue, _nothing, _SECONDS) for name, queue in sides.items()}
        found = in_turns(timed, rounds)
        left = [one - other for one, other in zip(*found.values(), strict=True)]
        times = [stats.location(each).value for each in (*found.values(), left)]
        late = most is not None and times[-1] > most
        missed |= late
        verdict = "missed" if late else "met"
        target = ("", "") if most is None else (f"at most {most * 1e9:.0f} ns", verdict)
        rows.append((what, *(f"{each * 1e9:.0f} ns" for each in times), *target))
    print(*table(_HEAD, rows), sep="\n")
    print(around.meanwhile(watch.read()))
    return int(missed)


def _nothing(*_arguments: Any) -> int:
    return 0


def _sides(session: CupySession) -> Iterator[tuple[str, Queue, Queue, float | None]]:
    """Yield each kind of work: how gpumap queues it, its bare calls, and the target."""
    a, b, out = (session.empty((64, 64), "float32") for _ in range(3))
    bare = _bare(cublas, "gemmEx", lambda: session.gemm(a, b, out))
    yield "product", lambda count: session.gemm(a, b, out, repeat=count), bare, MOST
    yield "product, one a call", looped(lambda: session.gemm(a, b, out)), bare, None
    for name in ("ctxGetCurrent", "ctxSetCurrent"):
        setattr(driver, name, _nothing)
    bare = _bare(driver, "launchKernel", lambda: session.run("add", a, b, out, size=4096))
    yield "prepared kernel", looped(session.prepare("add", a, b, out, size=4096)), bare, MOST


def _bare(module: Any, name: str, work: Callable[[], object]) -> Queue:
    """Let a function of CuPy do nothing, and return a loop of it, called as `work` calls it."""
    calls: list[tuple[Any, ...]] = []
    setattr(module, name, lambda *given: calls.append(given))
    work()
    setattr(module, name, _nothing)
    (given,) = calls

    def queue(count: int) -> None:
        for _ in range(count):
            _nothing(*given)

    return queue


if __name__ == "__main__":
    sys.exit(main())
