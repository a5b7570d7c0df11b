"""What a job requires of a node: `--expect 8xH200`, or 8 of any, and the TOML file of `--require`.

Each key of that file is a field of `Requirements`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from gpumap import config, units
from gpumap.doctor.facts import dotted, version
from gpumap.errors import QuestionError, SourceError
from gpumap.model.field_types import Count
from gpumap.model.io import typed
from gpumap.text import cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpumap.machine.nvml import GpuHealth
    from gpumap.model import Binding, Device, Fitness

    Item = tuple[str, Fitness, str]

_EXPECT = re.compile(r"([1-9][0-9]{0,3})(?:x(.+))?")
_WATT = 1000  # milliwatts


class Requirements(Struct, frozen=True, forbid_unknown_fields=True):
    """What is required; None: anything will do.

    Attributes:
        count: Devices of the map, at least.
        model: A whole word of each device's name, or several, or its kind.
        memory: Of each device, at least: "140GB".
        driver: Its version, at least: "550".
        link_width: Lanes in use, at least.
        link_generation: Of PCIe that device and slot can do, at least.
        power_limit: Watts that it may take, at least.
        mig: Whether it is cut into instances.
        ecc: Whether its memory corrects errors.
        ignore: Items that need not be fit, or cannot be read here: ["xid"].
    """

    count: Count | None = None
    model: str | None = None
    memory: str | None = None
    driver: str | None = None
    link_width: Count | None = None
    link_generation: Count | None = None
    power_limit: float | None = None
    mig: bool | None = None
    ecc: bool | None = None
    ignore: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a memory that is no size, as msgspec does a value of another type."""
        self._memory()

    @classmethod
    def of(cls, expect: str | None, path: Path | None) -> Self:
        """Return what both options say together.

        Raises:
            QuestionError: one of them cannot be understood.
            SourceError: the file cannot be read, or has keys or values that are not known.
        """
        values = {} if path is None else dict(config.read(path))
        if expect is not None:
            found = _EXPECT.fullmatch(expect.strip())
            if found is None:
                raise QuestionError(f"--expect {cut(expect)} is no number", "write 8xH200, or 8")
            values |= {"count": int(found[1])} | ({"model": found[2]} if found[2] else {})
        try:
            return typed(values, cls)
        except ValueError as error:
            raise SourceError(f"{path}: {error}", 'write count = 8, memory = "140GB"') from error

    def _memory(self) -> int | None:
        return None if self.memory is None else units.nbytes(self.memory)

    def of_node(self, bindings: Sequence[Binding]) -> Iterator[Item]:
        """Yield whether there are as many devices of the model as required."""
        devices = {b.device.id: b.device for b in bindings}.values()
        found = [device for device in devices if self._is_model(device)]
        if self.count is not None:
            what = self.model or "devices"
            fit: Fitness = "fit" if len(found) >= self.count else "missing"
            yield "count", fit, f"{len(found)} of {self.count} {what} found"

    def _is_model(self, device: Device) -> bool:
        wanted = (self.model or "").casefold()
        whole = rf"(?<![0-9a-z]){re.escape(wanted)}(?![0-9a-z])"  # an A100 is no A10
        known = wanted in ("", str(device.kind))
        return known or bool(re.search(whole, device.name.casefold()))

    def of_device(self, device: Device, gpu: GpuHealth | None) -> Iterator[Item]:
        """Yield whether a device is as required, as far as its driver tells."""
        facts, nvml = (gpu.facts, gpu.gpu) if gpu else ({}, None)
        if self.model is not None and not self._is_model(device):
            yield "model", "unfit", f"{device.name}, required is {self.model}"
        power, ecc = facts.get("power_limit"), facts.get("ecc")
        watts = power and power / _WATT
        lanes = (nvml and nvml.link_width) or device.facts.get("link_width")
        generation = (nvml and nvml.max_link_generation) or device.facts.get("max_link_generation")
        there, least = version(device.driver) or None, version(self.driver) or None
        yield from _judged("memory", device.memory_total, self._memory(), units.memory)
        yield from _judged("link-width", lanes, self.link_width, lambda n: f"x{n}")
        yield from _judged("link-generation", generation, self.link_generation, str)
        yield from _judged("power-limit", watts, self.power_limit, "{:g} W".format)
        yield from _judged("driver-version", there, least, dotted)
        yield from _judged("mig", nvml.mig if nvml else None, self.mig, _switched)
        yield from _judged("ecc-mode", bool(ecc[0]) if ecc else None, self.ecc, _switched)


def _judged(what: str, found: Any, wanted: Any, shown: Any) -> Iterator[Item]:
    """Yield whether a value is as required: a switch the same, anything else at least as much."""
    if wanted is None:
        return
    switch = isinstance(wanted, bool)
    text = f"required is {shown(wanted)}" + ("" if switch else " at least")
    if found is None:
        yield what, "cannot-tell", f"not readable; {text}"
    else:
        right = found is wanted if switch else found >= wanted
        yield what, "fit" if right else "unfit", f"{shown(found)}; {text}"


def _switched(value: bool) -> str:  # noqa: FBT001 - a value
    return "on" if value else "off"
