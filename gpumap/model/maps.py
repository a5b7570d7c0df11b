"""What a map asks for, before anything looked for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from gpumap.errors import Diagnostic, Span

Origin = Literal[
    "argument", "--map", "--map-file", "GPUMAP_CONTEXTS", "gpumap.toml",
    "THEANO_FLAGS", ".theanorc", "default",
]  # fmt: skip


class Kind(StrEnum):
    """The family of a device."""

    CUDA = "cuda"
    OPENCL = "opencl"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device as the map asks for it, before anything looked for it."""

    kind: Kind
    index: int | None = None  # None: the kind's default device, or all cores
    platform: int | None = None  # opencl only
    part: int | None = None  # opencl only: the sub-device of one compute unit
    identity: str | None = None  # cuda only: a PCI bus id or a UUID

    def __str__(self) -> str:
        if self.identity is not None:
            return f"{self.kind}@{self.identity}"
        platform = "" if self.platform is None else f"{self.platform}:"
        index = "" if self.index is None else str(self.index)
        part = "" if self.part is None else f".{self.part}"
        return f"{self.kind}{platform}{index}{part}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One `name->device` of a map. Two entries are equal whatever place they stand at."""

    name: str
    ref: DeviceRef
    span: Span = field(default=Span(0, 0), compare=False)

    def __str__(self) -> str:
        return f"{self.name}->{self.ref}"


@dataclass(frozen=True, slots=True)
class ContextMap:
    """Names mapped to device references, in the order they were written."""

    entries: tuple[Entry, ...]
    text: str = field(default="", compare=False)
    notes: tuple[Diagnostic, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return ";".join(map(str, self.entries))


@dataclass(frozen=True, slots=True)
class MapText:
    """The text of a map, where it was found, and what its source dropped on the way."""

    text: str
    origin: Origin
    path: str | None = None
    notes: tuple[Diagnostic, ...] = ()
