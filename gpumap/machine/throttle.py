"""What holds the devices of a map back while they work, in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpumap.machine.state import frequency
from gpumap.machine.tree import Tree
from gpumap.model import Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from gpumap.machine.gpu_state import Gpus
    from gpumap.model import Device

_SLOW = 0.9  # of the highest clock that was seen


class Throttle:
    """Looks at the devices again and again; the first look is at the construction.

    What the system has no file for is never looked at: machines of a cloud have none of them.
    """

    def __init__(self, devices: Iterable[Device], gpus: Gpus, root: Path = Path("/")) -> None:
        self._gpus = gpus
        self._tree = Tree(root)
        self._cores = {d.id: d.cores for d in devices if d.kind is Kind.CPU}
        every = sorted({cpu for cores in self._cores.values() for cpu in cores})
        counts = ((cpu, self._count(cpu)) for cpu in every)
        self._counts = {cpu: count for cpu, count in counts if count is not None}
        clocks = ((cpu, frequency(self._tree, cpu)) for cpu in every)
        # A core that has not worked yet may be asleep: its clock counts from its first work on.
        self._highest = {cpu: 0.0 for cpu, hertz in clocks if hertz is not None}

    def read(self, at_work: Collection[str] = ()) -> dict[str, str]:
        """Return what held devices back since the last look, by their ids.

        Args:
            at_work: ids of those that worked just now; an idle core has a low clock by right.
        """
        found = {id_: list(reasons) for id_, reasons in self._gpus.throttled().items()}
        hot = self._hot()
        for id_, cores in self._cores.items():
            slow = self._slow(cores) if id_ in at_work else ()
            if reasons := [*_named(hot, cores), *slow]:
                found[id_] = reasons
        return {id_: ", ".join(reasons) for id_, reasons in found.items()}

    def _hot(self) -> frozenset[int]:
        """Return the cores whose count of heat has gone up."""
        last = self._counts
        now = {cpu: self._count(cpu) for cpu in last}
        self._counts = {cpu: last[cpu] if count is None else count for cpu, count in now.items()}
        return frozenset(cpu for cpu, count in self._counts.items() if count > last[cpu])

    def _slow(self, cores: Iterable[int]) -> Iterator[str]:
        """Yield the first core whose clock has dropped."""
        for cpu in cores:
            hertz = frequency(self._tree, cpu) if cpu in self._highest else None
            if hertz is None:
                continue
            highest = self._highest[cpu] = max(hertz, self._highest[cpu])
            if hertz < _SLOW * highest:
                yield f"core {cpu} at {hertz / 1e9:.2f} GHz, before at {highest / 1e9:.2f} GHz"
                return

    def _count(self, cpu: int) -> int | None:
        folder = f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle"
        return self._tree.natural(f"{folder}/core_throttle_count")


def _named(hot: Collection[int], cores: Iterable[int]) -> Iterator[str]:
    if here := [str(cpu) for cpu in cores if cpu in hot]:
        yield f"heat, in core {here[0]}" + (f" and {len(here) - 1} more" if here[1:] else "")
