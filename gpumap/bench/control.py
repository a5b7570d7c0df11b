"""What the control product says of itself: it has no command and no table of its own."""

from gpumap.bench.registry import BenchmarkSpec, Family

SPEC = BenchmarkSpec(
    (Family(("product",), ("size", "dtype", "beside"), ("time", "rate")),),
    sizes=("size",),
)
