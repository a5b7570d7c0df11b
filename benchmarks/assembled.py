"""What NVIDIA's assembler makes of the OpenCL product of a GPU: registers, and its loop.

    python -m benchmarks.assembled [--ptxas FILE] [--nvdisasm FILE]

For each block of `gpumap/backends/pyopencl/launch.py` that fits a type: the registers of a
work-item, the bytes that they spill, local memory, and how many of the instructions of the loop
multiply. It needs clang with the target NVPTX (Debian: clang), and ptxas and nvdisasm (pip:
nvidia-cuda-nvcc-cu12, nvidia-cuda-nvdisasm). NVIDIA's own OpenCL compiler may choose otherwise:
only a GPU tells the rate.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from gpumap.backends.pyopencl.launch import BLOCKS, SKEW, Facts, fits
from gpumap.kernels import text

ARCHITECTURE = "sm_90"  # H100, H200
LIMIT = 120.0  # seconds of one program
_TYPES = {"float": 4, "double": 8}  # bytes
H100 = Facts(processor=False, units=132, register=16, local=48 << 10, cache=0)
# What OpenCL's library has, by clang's own functions.
_LIBRARY = """
#define get_group_id(d) \\
    ((uint)((d) == 0 ? __nvvm_read_ptx_sreg_ctaid_x() : __nvvm_read_ptx_sreg_ctaid_y()))
#define get_local_id(d) \\
    ((uint)((d) == 0 ? __nvvm_read_ptx_sreg_tid_x() : __nvvm_read_ptx_sreg_tid_y()))
#define barrier(flags) __syncthreads()
#define DEFINED(T) \\
    static inline T __attribute__((overloadable)) fused(T a, T b, T c) { return a * b + c; }
DEFINED(float) DEFINED(float4) DEFINED(double) DEFINED(double4)
#define fma fused
"""
_COMPILE = (
    "clang", "-x", "cl", "-cl-std=CL1.2", "-target", "nvptx64-nvidia-nvcl", "-ffp-contract=fast",
    "-Xclang", "-target-cpu", "-Xclang", "sm_70", "-Xclang", "-finclude-default-header", "-O3",
    "-w", "-S",
)  # fmt: skip
_HEAD = (
    (r"(?m)^\.target sm_\d+", f".target {ARCHITECTURE}"),
    (r"(?m)^\.version .*", ".version 7.8"),
)


def assembled(folder: Path, element: str, block: tuple[int, ...], ptxas: str) -> str:
    """Return what the assembler says of a block; `folder` has its cubin then."""
    macros = zip(("SIDE", "HIGH", "WIDE", "DEPTH", "SKEW"), (*block, SKEW), strict=True)
    given = {"ELEMENT": element, "W": element, **dict(macros)}
    source, ptx = folder / "gemm.cl", folder / "gemm.ptx"
    source.write_text(_LIBRARY + text("gemm.cl"))
    _run(*_COMPILE, *(f"-D{name}={value}" for name, value in given.items()), "-o", ptx, source)
    made = ptx.read_text()
    for pattern, new in _HEAD:
        made = re.sub(pattern, new, made)
    ptx.write_text(made)
    return _run(ptxas, "-arch", ARCHITECTURE, "-v", ptx, "-o", folder / "gemm.cubin")


def loop_of(listing: str) -> list[str]:
    """Return the names of the instructions in the loop that multiplies most."""
    names: list[str] = []
    labels: dict[str, int] = {}
    loops: list[list[str]] = []
    for line in listing.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(names)
        if found := re.search(r"/\*[0-9a-f]+\*/\s+(?:@!?\S+\s+)?([A-Z0-9]+)(.*?);", line):
            names.append(found[1])
            target = re.search(r"\.L_x_\d+", found[2])
            if found[1] == "BRA" and target and target[0] in labels:
                loops.append(names[labels[target[0]] :])
    return max(loops, key=_products, default=[])


def _products(names: list[str]) -> int:
    return sum(name in ("FFMA", "DFMA") for name in names)


def _run(*command: object) -> str:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}: {done.stderr[:500]}")
    return done.stdout + done.stderr


def main() -> None:
    """Print a line for each block and type."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("ptxas", "nvdisasm"):
        parser.add_argument(f"--{name}", default=name, metavar="FILE")
    options = parser.parse_args()
    print("| block | element | registers | spilled | local memory | of the loop multiplies |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for element, itemsize in _TYPES.items():
        for block in (each for each in BLOCKS if fits(H100, itemsize, each)):
            with tempfile.TemporaryDirectory() as name:
                said = assembled(Path(name), element, block, options.ptxas)
                loop = loop_of(_run(options.nvdisasm, "-c", Path(name) / "gemm.cubin"))
            registers, spilled, shared = (
                re.search(pattern, said)[1]  # type: ignore[index]
                for pattern in (r"Used (\d+) reg", r"(\d+) bytes spill stores", r"(\d+) bytes smem")
            )
            share = f"{_products(loop) / len(loop):.0%} of {len(loop)}"
            shown = " x ".join(map(str, block))
            print(f"| {shown} | {element} | {registers} | {spilled} B | {shared} B | {share} |")


if __name__ == "__main__":
    main()
