"""A benchmark of two cases, as one more module of gpumap would describe it."""

from gpumap.bench.registry import BenchmarkSpec, CaseSpec, Column, Family

CASES = (CaseSpec("ping", about="a word there"), CaseSpec("pong", about="a word there and back"))
SPEC = BenchmarkSpec(
    "toy",
    CASES,
    (Family(("ping", "pong"), ("words", "tone"), ("time", "speedup")),),
    command=("bench", "toy"),
    columns=(
        "case", "on", "time",
        Column("gain", metric="speedup", about="how many times as fast as one device"),
        Column("tone", param="tone"),
        Column("loud", cell=lambda row: str(row.case.params["tone"]).upper()), "trust", "status",
    ),
    title=lambda case: f"toy of {case.params['words']} words",
    legend=lambda rows: [f"gain: of {len(rows)} rows"],
    charts=("speedup",),
    sizes=("words",),
    how=("tone",),
    work="whole",
)  # fmt: skip
