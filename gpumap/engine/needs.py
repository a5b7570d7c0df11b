"""What a run needs: a case that can be measured, a type of elements, and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap import units
from gpumap.errors import Diagnostic, QuestionError, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.backends.base import Session
    from gpumap.dtypes import Arithmetic
    from gpumap.machine.topology import Topology
    from gpumap.model import Binding, Device, Plan

_KEPT = 0.9  # the share of free memory that a run may take: the rest is the system's


def check_features(
    bindings: Iterable[Binding], sessions: Mapping[str, Session], dtype: Arithmetic
) -> None:
    """Raise Unsupported if a device has no products of this type."""
    for binding in bindings:
        features: Any = sessions[binding.name].features
        if dtype != "float32" and dtype not in features:
            device = binding.device
            raise Unsupported(
                f"{device.ref} ({device.backend}) has no {dtype} products",
                f"use --dtype float32, or map {binding.name} to a device that has them",
            )


def check_any(plan: Plan, fix: str) -> None:
    """Refuse a plan of which nothing can be measured: rows that are all skipped are no pass.

    Raises:
        QuestionError: each of its cases is skipped; `fix` has what can be done.
    """
    reasons = dict.fromkeys(case.skip.text if case.skip else "" for case in plan.cases)
    if plan.cases and "" not in reasons:
        raise QuestionError(f"nothing can be measured: {'; '.join(reasons)}", fix)


def check_memory(plan: Plan, bindings: Sequence[Binding], topology: Topology) -> None:
    """Compare what a plan takes with what is free.

    Raises:
        QuestionError: a device or the host has not enough; one diagnostic for each.
    """
    devices = {binding.device.id: binding.device for binding in bindings}
    problems = list(_short_devices(plan, devices.values()))
    real = [device for device in devices.values() if device.backend != "fake"]
    host = plan.memory.get("host", 0) if real else 0  # what is large has no data by a script
    host += sum(plan.memory.get(device.id, 0) for device in real if device.in_host_memory)
    if host > _KEPT * topology.memory_available:
        problems.append(_short("the host", host, topology.memory_available))
    if problems:
        raise QuestionError(tuple(problems))


def _short_devices(plan: Plan, devices: Iterable[Device]) -> Iterable[Diagnostic]:
    for device in devices:
        needed = plan.memory.get(device.id, 0)
        free = device.memory_total if device.memory_free is None else device.memory_free
        largest = device.facts.get("largest_buffer")
        if device.kind.row.cores and device.backend != "fake":
            continue  # its memory is the host's, and counted there
        if free is not None and needed > _KEPT * free:
            yield _short(str(device.ref), needed, free)
        elif largest is not None and plan.largest_buffer > int(largest):
            yield _short(f"one buffer of {device.ref}", plan.largest_buffer, int(largest))


def _short(where: str, needed: int, free: int) -> Diagnostic:
    message = f"{where} would need {units.memory(needed)}, and has {units.memory(free)} free"
    return Diagnostic("too-much-memory", message, hint="choose a smaller size")
