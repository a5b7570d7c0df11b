"""What is to be measured, and why something cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpumap.model.devices import Binding, Param

SHORTEST = 1e-3  # seconds of a sample: a thousand times what a timer resolves


@dataclass(frozen=True, slots=True)
class Work:
    """What one round of a case does."""

    products: int = 0
    operations: int = 0
    bytes_to_device: int = 0
    bytes_to_host: int = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a row was skipped or failed: a stable code, and words."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Case:
    """A benchmark at one set of parameters on named devices; `id` is free of hardware."""

    bench: str
    name: str
    params: Mapping[str, Param]
    bindings: tuple[Binding, ...]
    work: Work
    against: str | None = None  # the id of the reference
    skip: Reason | None = None  # why it cannot be measured here
    route: str | None = None
    ordered: bool = False  # from the first name to the second

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the devices that it runs on."""
        return tuple(binding.name for binding in self.bindings)

    @property
    def backend(self) -> str:
        """Return the backends that drive it."""
        return "+".join(dict.fromkeys(binding.device.backend for binding in self.bindings))

    @property
    def id(self) -> str:
        """Return what `compare` joins on: ``dot.one[dtype=float32,names=dev0,size=1024]``."""
        names = (">" if self.ordered else "+").join(map(_quoted, self.names))
        keys = {**self.params, "backend": self.backend, "names": names}
        inside = ",".join(f"{key}={keys[key]}" for key in sorted(keys) if key not in _NOT_IN_ID)
        return f"{self.bench}.{self.name}[{inside}]"


_NOT_IN_ID = ("size_name",)  # another word for the bytes
_SPECIAL = str.maketrans({c: f"%{ord(c):02x}" for c in "%+,=[]>"})  # would end a name in an id


def _quoted(name: str) -> str:
    return name.translate(_SPECIAL)


@dataclass(frozen=True, slots=True)
class Group:
    """Cases that are compared with each other: every block holds each of them once.

    `order` has the places of cases that are measured or left out together, the most important
    first; the others follow as they stand. What the budget has no room for is left out.
    """

    cases: tuple[Case, ...]
    key: str = ""  # what its control stands beside
    order: tuple[tuple[int, ...], ...] = ()
    shortest: float = SHORTEST  # seconds of a sample, at least
    extra: bool = False  # it has what time the others leave
    insists: bool = False  # its most important cases are measured, however long that takes


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be measured, and the memory that it takes."""

    groups: tuple[Group, ...]
    memory: Mapping[str, int] = field(default_factory=dict)  # device id, or "host", to bytes
    largest_buffer: int = 0
    about: tuple[str, ...] = ()  # lines on what the cases work on

    @property
    def cases(self) -> tuple[Case, ...]:
        """Return every case, in the order of measuring."""
        return tuple(case for group in self.groups for case in group.cases)
