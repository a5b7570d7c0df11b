"""What the control product says of itself: it has no command and no table of its own."""

from gpumap.bench.registry import BenchmarkSpec, Family
from gpumap.engine.control import KEY

SPEC = BenchmarkSpec(
    KEY,
    (Family(("product",), ("size", "dtype", "beside"), ("time", "rate")),),
    sizes=("size",),
)
