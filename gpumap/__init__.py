"""gpumap: name your devices once, prove what they give you.

    import gpumap

    with gpumap.open("dev0->cuda0;dev1->cuda1") as context:
        a = context.shared(array, target="dev0")
        b = gpumap.dot(a, a)

What is used is imported when it is first requested.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from gpumap.version import __version__

TYPE_CHECKING = False  # that of `typing`, which takes 4 ms in which no signal is heard
if TYPE_CHECKING:
    from typing import Any

    from gpumap.contexts import Context
    from gpumap.contexts.array import Array
    from gpumap.errors import (
        AbsentError,
        ContextError,
        DeviceError,
        DtypeError,
        GpumapError,
        ImplicitTransfer,
        MapError,
        ShapeError,
        TargetError,
        Unsupported,
    )
    from gpumap.model import Binding, ContextMap, Device, Diagnosis, Report, TraceEvent
    from gpumap.parse import parse_map
    from gpumap.running import BSP, EASGD, GOSGD, check, devices, doctor, dot, run_benchmark
    from gpumap.running import open_ as open  # noqa: A004 - it is read as gpumap.open
    from gpumap.training.loop import average, broadcast, checkpoint, rank, ranks, scaled_rate
    from gpumap.training.splits import split

__all__ = [
    "BSP",
    "EASGD",
    "GOSGD",
    "AbsentError",
    "Array",
    "Binding",
    "Context",
    "ContextError",
    "ContextMap",
    "Device",
    "DeviceError",
    "Diagnosis",
    "DtypeError",
    "GpumapError",
    "ImplicitTransfer",
    "MapError",
    "Report",
    "ShapeError",
    "TargetError",
    "TraceEvent",
    "Unsupported",
    "__version__",
    "average",
    "broadcast",
    "check",
    "checkpoint",
    "devices",
    "doctor",
    "dot",
    "open",
    "parse_map",
    "rank",
    "ranks",
    "run_benchmark",
    "scaled_rate",
    "split",
]

_PLACES = {
    name: module
    for module, names in {
        "contexts": "Context",
        "contexts.array": "Array",
        "training.splits": "split",
        "model": "Binding ContextMap Device Diagnosis Report TraceEvent",
        "parse": "parse_map",
        "running": "BSP EASGD GOSGD check devices doctor dot open run_benchmark",
        "training.loop": "average broadcast checkpoint rank ranks scaled_rate",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gpumap' has no attribute {name!r}")
    module = import_module(f"gpumap.{_PLACES.get(name, 'errors')}")
    found = getattr(module, "open_" if name == "open" else name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(ModuleType):
    """This package: importing its folder `doctor` does not hide the function of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PLACES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
