"""What `/proc/cpuinfo` says, which differs with every architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.machine.tree import CPUS_MAX, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.machine.tree import Tree

# 64-bit Arm names no model. Part numbers of servers: util-linux, sys-utils/lscpu-arm.c.
_ARM_PARTS = {
    ("0x41", "0xd08"): "Arm Cortex-A72",
    ("0x41", "0xd0c"): "Arm Neoverse-N1",
    ("0x41", "0xd40"): "Arm Neoverse-V1",
    ("0x41", "0xd49"): "Arm Neoverse-N2",
    ("0x41", "0xd4f"): "Arm Neoverse-V2",
    ("0xc0", "0xac3"): "Ampere-1",
}


def model(tree: Tree) -> str | None:
    """Return the name of the processor, as far as the system tells."""
    fields: dict[str, str] = {}
    for record in records(tree):
        fields = {**record, **fields}  # the first that says something is right
    named = (fields.get(key) for key in ("model name", "cpu", "cpu model", "Model", "Hardware"))
    return next(filter(None, named), None) or _arm(fields)


def processors(tree: Tree) -> tuple[int, ...]:
    """Return the numbers of all processors that are listed."""
    return tuple(sorted({index for index, _ in _numbered(tree)}))


def flags(tree: Tree) -> frozenset[str]:
    """Return what the first processor can do, in the kernel's words (x86)."""
    for record in records(tree):
        return frozenset(record.get("flags", "").split())
    return frozenset()


def clocks(tree: Tree) -> dict[int, float]:
    """Return the clock of each processor that has one, in hertz."""
    rates = ((index, _megahertz(record)) for index, record in _numbered(tree))
    return {index: rate for index, rate in rates if rate is not None}


def records(tree: Tree) -> Iterator[Mapping[str, str]]:
    """Yield the keys and values of each block; blocks are parted by blank lines."""
    block: dict[str, str] = {}
    for line in (*(tree.text("proc/cpuinfo") or "").splitlines(), ""):
        key, _, value = line.partition(":")
        if key.strip():
            block.setdefault(key.strip(), value.strip())
        elif block:
            yield block
            block = {}


def _numbered(tree: Tree) -> Iterator[tuple[int, Mapping[str, str]]]:
    for record in records(tree):
        index = number(record.get("processor"))
        if index is not None and 0 <= index < CPUS_MAX:
            yield index, record


def _megahertz(record: Mapping[str, str]) -> float | None:
    try:
        rate = float(record.get("cpu MHz", "")) * 1e6
    except ValueError:
        return None
    return rate if 0 < rate < float("inf") else None


def _arm(fields: Mapping[str, str]) -> str | None:
    maker, part = fields.get("CPU implementer"), fields.get("CPU part")
    if not (maker and part):
        return None
    return _ARM_PARTS.get((maker, part), f"Arm implementer {maker} part {part}")
