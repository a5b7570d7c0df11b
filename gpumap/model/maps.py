"""What a map asks for, before anything looked for it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

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


class DeviceRef(NamedTuple):
    """A device as the map asks for it, before anything looked for it."""

    kind: Kind
    index: int | None = None  # type: ignore[assignment]  # None: the kind's default device, or all cores
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


class Entry(NamedTuple):
    """One `name->device` of a map. Two entries are equal whatever place they stand at."""

    name: str
    ref: DeviceRef
    span: Span = Span(0, 0)

    def __str__(self) -> str:
        return f"{self.name}->{self.ref}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self[:2] == other[:2]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self[:2])


class ContextMap(NamedTuple):
    """Names mapped to device references, in the order they were written."""

    entries: tuple[Entry, ...]
    text: str = ""
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        return ";".join(map(str, self.entries))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContextMap) and self.entries == other.entries

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.entries)


class MapText(NamedTuple):
    """The text of a map, where it was found, and what its source dropped on the way."""

    text: str
    origin: Origin
    path: str | None = None
    notes: tuple[Diagnostic, ...] = ()
