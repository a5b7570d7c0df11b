"""`python3 -m benchmarks.gpu.contests PART`: gpumap beside bare CuPy and PyTorch, in turns.

Every side of a contest works on the same memory, but for OpenCL, which has its own on the device.
Each contest is a line of JSON as soon as it has ended: a run that is killed leaves those before it.
A figure is seconds of one call.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.contest import in_turns, ratio, sampled
from benchmarks.gpu import sides
from benchmarks.gpu.sides import Right, Side
from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.backends.third_party import message_of
from gpumap.engine import stats
from gpumap.machine.nvml import NvmlUnavailable, ask, held_back, opened
from gpumap.machine.topology import read
from gpumap.units import nbytes as parse_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import Session
    from gpumap.model import Device

_SM = 1  # nvmlClockType_t


@dataclass(frozen=True, slots=True)
class Contest:
    """What all sides do; the first one is gpumap's, and `right` proves each of them once."""

    what: str
    sides: tuple[Side, ...]
    right: Right
    amount: float  # of `unit` in a call, for the rates
    unit: str
    read: int = 0  # bytes of device memory,
    written: int = 0
    least: Mapping[str, float] = field(default_factory=dict)  # peer -> target of peer's time/ours
    lacks: Mapping[str, str] = field(default_factory=dict)  # peer -> why it is not there
    ceilings: Mapping[str, float] = field(default_factory=dict)  # of the rate, each with its source


def main() -> int:
    """Run the contests of one part; each prints a line."""
    options = _options()
    with ExitStack() as ends:
        sessions = [ends.enter_context(one) for one in _opened("cupy", options.devices)]
        if options.opencl:
            sessions += [ends.enter_context(one) for one in _opened("pyopencl", options.opencl)]
        watched = Watched([session.device for session in sessions], ends)
        for contest in PARTS[options.part](sessions, options):
            line = held(contest, options.blocks, options.seconds, watched)
            line["simulated"] = sessions[0].device.simulated
            print(json.dumps(line), flush=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.gpu.contests")
    add = parser.add_argument
    add("part", choices=sorted(PARTS))
    add("--devices", default="cuda0", help="the first one alone, but for `fan` (%(default)s)")
    add("--opencl", metavar="DEVICE", help="the device of `opencl`, which is the first one too")
    add("--dtype", default="float32", help="of products (%(default)s)")
    add("--sizes", default="1024,4096,8192", help="of products, or bytes of copies (%(default)s)")
    add("--blocks", type=int, default=7, help="samples of each side (%(default)s)")
    add("--seconds", type=float, default=0.05, help="of a sample (%(default)s)")
    return parser.parse_args()


def _opened(name: str, refs: str) -> Iterator[Session]:
    backend = load(name, Host(dict(os.environ), read()))
    there = {str(device.ref): device for device in backend.probe().devices}
    for ref in refs.split(","):
        if ref not in there:
            raise SystemExit(f"{ref} is no device of {name}")
        yield backend.open(there[ref], backend.clock())


class Reading(NamedTuple):
    """What a device tells at one moment; None where it does not."""

    watts: float | None
    hertz: float | None  # of its multiprocessors
    throttle: tuple[str, ...]  # what holds it back


class Watched:
    """Devices that NVML is asked about; without NVML, or a driver, none."""

    def __init__(self, devices: Sequence[Device], ends: ExitStack) -> None:
        self._nvml, self._handles = None, list[Any]()
        with suppress(NvmlUnavailable):
            self._nvml = ends.enter_context(opened())
            each = (ask(self._nvml, "nvmlDeviceGetHandleByUUID", device.uuid) for device in devices
                    if device.uuid)  # fmt: skip
            self._handles = [handle for handle in each if handle is not None]

    def read(self) -> Iterator[Reading]:
        """Yield what each of them tells now."""
        for handle in self._handles:
            milliwatts = ask(self._nvml, "nvmlDeviceGetPowerUsage", handle)
            megahertz = ask(self._nvml, "nvmlDeviceGetClockInfo", handle, _SM)
            yield Reading(
                None if milliwatts is None else milliwatts / 1e3,
                None if megahertz is None else megahertz * 1e6,
                held_back(self._nvml, handle) or (),
            )


def held(contest: Contest, blocks: int, seconds: float, watched: Watched) -> dict[str, Any]:
    """Prove each side, then time all of them in turns; a side that fails is left out and told."""
    there, errors, readings = {}, {}, list[Reading]()
    for side in contest.sides:
        try:
            if not contest.right(side):
                errors[side.name] = "its result is wrong"
                continue
            there[side.name] = sampled(side.queue, side.finish, seconds, side.each)
        except Exception as error:  # noqa: BLE001 - a peer may lack what gpumap has
            errors[side.name] = message_of(error)
    times = in_turns(there, blocks, lambda: readings.extend(watched.read()))
    return _line(contest, times, errors) | {
        "power_w": _middle(one.watts for one in readings),
        "sm_hz": _middle(one.hertz for one in readings),
        "throttle": sorted({why for one in readings for why in one.throttle}),
    }


def _line(
    contest: Contest, times: Mapping[str, list[float]], errors: Mapping[str, str]
) -> dict[str, Any]:
    figures = {name: _figure(stats.location(each), "s") for name, each in times.items() if each}
    ours = times.get(contest.sides[0].name, [])
    ratios = {
        name: _figure(ratio(zip(each, ours, strict=True)), "1")
        for name, each in times.items()
        if each is not ours and ours and each
    }
    shares = {}
    if ours:
        rate = contest.amount / median(ours)
        shares = {source: rate / most for source, most in contest.ceilings.items()}
    return {
        "what": contest.what,
        "amount": contest.amount,
        "unit": contest.unit,
        "read_bytes": contest.read,
        "written_bytes": contest.written,
        "times": figures,
        "rates": {name: contest.amount / f["value"] for name, f in figures.items()},
        "ratios": ratios,
        "least": dict(contest.least),
        "lacks": dict(contest.lacks),
        "shares": shares,
        "errors": dict(errors),
    }


def _figure(found: Any, unit: str) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high, "unit": unit}


def _middle(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


# --- the parts


def _products(sessions: Sequence[Session], options: argparse.Namespace) -> Iterator[Contest]:
    """Yield a product of each size: by gpumap, by PyTorch, by cuBLAS alone, and as a graph."""
    for size in map(int, options.sizes.split(",")):
        product = sides.Product(sessions[0], size, options.dtype)
        yield Contest(
            f"product of {size}, {options.dtype}",
            tuple(product.sides()),
            product.right,
            2.0 * size**3,
            "FLOP/s",
            least=sides.PRODUCT_TARGETS.get((options.dtype, size), {}),
            lacks=product.lacks,
            ceilings=sides.peaks(sessions[0], options.dtype),
        )


def _opencl(sessions: Sequence[Session], options: argparse.Namespace) -> Iterator[Contest]:
    """Yield a product of each size by OpenCL and by cuBLAS, each on memory of its own."""
    for size in map(int, options.sizes.split(",")):
        theirs, ours = (sides.Product(session, size, options.dtype) for session in sessions)
        held = {"gpumap": ours, "cuBLAS": theirs}
        yield Contest(
            f"OpenCL's product of {size}, {options.dtype}",
            (ours.ours(), theirs.cublas()),
            partial(_right_of, held),
            2.0 * size**3,
            "FLOP/s",
            least=sides.OPENCL_TARGETS.get((options.dtype, size), {}),
            ceilings=sides.peaks(sessions[0], options.dtype),
        )


def _right_of(products: Mapping[str, sides.Product], side: Side) -> bool:
    return products[side.name].right(side)


def _copies(sessions: Sequence[Session], options: argparse.Namespace) -> Iterator[Contest]:
    """Yield copies of each kind of host memory: the copy engine, and bare calls."""
    for nbytes in map(parse_size, options.sizes.split(",")):
        copies = sides.Copies(sessions[0], nbytes)
        for what, found, right in copies.contests():
            ours = tuple(found)
            least = {"bare": sides.COPY} if nbytes >= sides.LARGE else {}
            yield Contest(f"{what}, {nbytes} bytes", ours, right, float(nbytes), "B/s", least=least)


def _memory(sessions: Sequence[Session], options: argparse.Namespace) -> Iterator[Contest]:
    """Yield the device's own memory: by its copy engine, by a kernel, and by PyTorch."""
    for nbytes in map(parse_size, options.sizes.split(",")):
        inside = sides.Inside(sessions[0], nbytes)
        yield Contest(
            f"memory of the device, {inside.nbytes} bytes read and as many written",
            tuple(inside.sides()),
            inside.right,
            2.0 * inside.nbytes,
            "B/s",
            inside.nbytes,
            inside.nbytes,
            ceilings=sides.memory_peak(sessions[0]),
            lacks=inside.lacks,
        )


def _launches(sessions: Sequence[Session], options: argparse.Namespace) -> Iterator[Contest]:
    """Yield a kernel of one element, and the smallest product: what a call itself costs."""
    launch = sides.Launch(sessions[0])
    yield Contest("kernel of one element", tuple(launch.sides()), launch.right, 1.0, "calls/s",
                  least={"CuPy": sides.LAUNCH}, lacks=launch.lacks)  # fmt: skip
    options.sizes, options.dtype = "64", "float32"
    yield from _products(sessions, options)


def _fan(sessions: Sequence[Session], options: argparse.Namespace) -> Iterator[Contest]:
    """Yield copies from one device to all others and back: at once, and one after the other."""
    for nbytes in map(parse_size, options.sizes.split(",")):
        fan = sides.Fan(sessions, nbytes)
        for what, inward in (("one to all", False), ("all to one", True)):
            ours = tuple(fan.sides(inward=inward))
            yield Contest(f"{what}, {nbytes} bytes each", ours, partial(fan.right, inward=inward),
                          float(nbytes * (len(sessions) - 1)), "B/s")  # fmt: skip


def _nccl(sessions: Sequence[Session], options: argparse.Namespace) -> Iterator[Contest]:
    """Yield NCCL's allreduce on one device: that it loads, connects and sums."""
    for nbytes in map(parse_size, options.sizes.split(",")):
        ring = sides.Ring(sessions[0], nbytes)
        yield Contest(f"NCCL on one device, {nbytes} bytes", (ring.side(),), ring.right,
                      float(nbytes), "B/s")  # fmt: skip


PARTS = {"products": _products, "opencl": _opencl, "copies": _copies, "memory": _memory,
         "launches": _launches, "fan": _fan, "nccl": _nccl}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
