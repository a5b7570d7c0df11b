"""What a CUDA device can do, by what its driver says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.backends.base import Peak
from gpumap.dtypes import has_bfloat16

if TYPE_CHECKING:
    from gpumap.backends.base import Feature
    from gpumap.dtypes import Arithmetic
    from gpumap.model import Device

_AMPERE = 80  # compute capability 8.0: the first with bfloat16 and TF32
# Compute capability -> FLOP of one multiprocessor in one clock, dense, sums in 32 bits for narrow
# types. Sources: NVIDIA's whitepapers of A100 (2020), GA102 (2021), H100 (2022), Ada (2022), and
# the data sheets of A40 and L40S: their peak rates over multiprocessors and boost clock. Of 8.6 and
# 8.9 GeForce does half as much in narrow types as data-centre boards (A40: 149.7 TFLOP/s = 84 x
# 1024 x 1.74 GHz; L40S: 362 = 142 x 1024 x 2.49): the higher rate stands, as a ceiling must.
_PER_CLOCK: dict[tuple[int, int], dict[str, int]] = {
    (8, 0): {"float32": 128, "float64": 128, "tf32": 1024, "float16": 2048, "bfloat16": 2048},
    (8, 6): {"float32": 256, "float64": 4, "tf32": 512, "float16": 1024, "bfloat16": 1024},
    (8, 9): {"float32": 256, "float64": 4, "tf32": 512, "float16": 1024, "bfloat16": 1024},
    (9, 0): {"float32": 256, "float64": 256, "tf32": 2048, "float16": 4096, "bfloat16": 4096},
}


def features(ordinal: int) -> frozenset[Feature]:
    """Return what the device, and the other devices beside it, allow."""
    import cupy

    runtime = cupy.cuda.runtime
    ampere = int(cupy.cuda.Device(ordinal).compute_capability) >= _AMPERE
    has: dict[Feature, bool] = {
        "events": True,
        "kernels": True,
        "pinned": True,
        "mapped": bool(runtime.deviceGetAttribute(runtime.cudaDevAttrCanMapHostMemory, ordinal)),
        "float16": True,
        "float64": True,
        "bfloat16": ampere and has_bfloat16(),
        "tf32": ampere,
        "peer": _has_peer(ordinal),
    }
    return frozenset(feature for feature, there in has.items() if there)


def expected(device: Device) -> frozenset[Feature]:
    """Return what a device should have by what its probe said; of peers that says nothing."""
    major = int(str(device.facts.get("compute_capability", "0")).partition(".")[0] or 0)
    found: set[Feature] = {"events", "kernels", "pinned", "mapped", "float16", "float64"}
    if 10 * major >= _AMPERE:
        found |= {"bfloat16", "tf32"} if has_bfloat16() else {"tf32"}
    return frozenset(found)


def _has_peer(ordinal: int) -> bool:
    import cupy

    runtime = cupy.cuda.runtime
    others = (n for n in range(runtime.getDeviceCount()) if n != ordinal)
    return any(runtime.deviceCanAccessPeer(ordinal, other) for other in others)


def peak(device: Device, ordinal: int, arithmetic: Arithmetic) -> Peak | None:
    """Return what NVIDIA's tables say for the multiprocessors, at the highest clock."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(ordinal)
    megahertz = device.facts.get("max_clock")
    capability = (properties["major"], properties["minor"])
    each = _PER_CLOCK.get(capability, {}).get(arithmetic)
    if not isinstance(megahertz, int) or each is None:
        return None
    count = properties["multiProcessorCount"]
    source = f"reported: {count} multiprocessors x {each} FLOP x {megahertz} MHz"
    return Peak(count * each * megahertz * 1e6, source, "reported")
