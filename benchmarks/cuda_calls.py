"""What gpumap's own layer costs the host for each call that it queues on CUDA: no GPU is needed.

    python -m benchmarks.cuda_calls [SOURCE ...]

CuPy is replaced by calls that do nothing, so what is left is gpumap's Python; what those calls
themselves cost is measured beside it and taken off. Each SOURCE is a checkout of gpumap (by default
this one): all of them are measured in turns, in CPU time, and the least of the runs is shown.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS = 5
CODE = """
import inspect, json, sys, time
from types import ModuleType, SimpleNamespace

class Quiet:
    ptr, status, compute_capability, shape, nbytes = 64, 0, "90", (64, 64), 16384
    def __init__(self, *given, **named): self.data = SimpleNamespace(ptr=4096)
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def __call__(self, *given, **named): return self
    def __getattr__(self, name): return self
    def __getitem__(self, rows): return self
    def __float__(self): return 0.0
    def __int__(self): return 1

class Nothing(ModuleType):
    __path__ = []
    def __getattr__(self, name): return nothing if name[:1].islower() else Quiet

def nothing(*given, **named): return 1
def empty(shape, dtype): return Quiet()

for name in ("cupy", "cupyx", "cupy.cuda", "cupy.cuda.runtime", "cupy.cuda.device",
             "cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.libs",
             "cupy_backends.cuda.libs.cublas", "cupy_backends.cuda.api",
             "cupy_backends.cuda.api.runtime"):
    sys.modules[name] = made = Nothing(name)
    above, _, own = name.rpartition(".")
    if above: setattr(sys.modules[above], own, made)
sys.modules["cupy"].empty = empty
sys.modules["cupy"].cuda.runtime.CUDARuntimeError = RuntimeError

from gpumap.backends.base import Clock
from gpumap.backends.cupy.session import CupySession
from gpumap.model import Device, DeviceRef, Kind
device = Device("cuda:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "none", "cupy")
session = CupySession(device, Clock())
a, b, out = (session.empty((64, 64), "float32") for _ in range(3))

def cost(job, calls, each=1):
    job()
    start = time.process_time()
    for _ in range(calls): job()
    return (time.process_time() - start) / calls / each

given = tuple(range(19))
def bare():
    for _ in range(16): nothing(*given)
if "repeat" in inspect.signature(session.gemm).parameters:
    products = lambda: session.gemm(a, b, out, repeat=16)
else:
    def products():
        for _ in range(16): session.gemm(a, b, out)
ready, quiet = session.prepare("fill", out, 1.0, size=4096), Quiet()
kernel = lambda: quiet((16,), (256,), given)
found = {"product": cost(products, 2000, 16) - cost(bare, 2000, 16),
         "prepared kernel": cost(ready, 20000) - cost(kernel, 20000)}
json.dump(found, sys.stdout)
"""


def main() -> int:
    """Print a line for each source and call."""
    sources = [Path(each).resolve() for each in sys.argv[1:]] or [ROOT]
    seen: dict[Path, list[dict[str, float]]] = {source: [] for source in sources}
    for number in range(RUNS):
        for source in sources[:: -1 if number % 2 else 1]:
            done = subprocess.run(
                [sys.executable, "-P", "-c", CODE], env={**os.environ, "PYTHONPATH": str(source)},
                cwd="/", capture_output=True, text=True, check=True,
            )  # fmt: skip
            seen[source].append(json.loads(done.stdout))
    for source, found in seen.items():
        for call in found[0]:
            print(f"{source}: {call}: {min(one[call] for one in found) * 1e6:.2f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
