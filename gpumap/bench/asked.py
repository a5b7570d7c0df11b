"""What cannot be asked of a map and of its devices, said before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.errors import QuestionError, Unsupported
from gpumap.escape import printable
from gpumap.model import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpumap.backends.base import Session
    from gpumap.bench.registry import BenchmarkSpec
    from gpumap.dtypes import Arithmetic
    from gpumap.model import Binding


def check_names(
    spec: BenchmarkSpec, bindings: Sequence[Binding], asked: Sequence[str] | None
) -> None:
    """Refuse a case that was asked for and needs more names than the map has.

    Raises:
        QuestionError: one does; a case that was not requested is skipped instead.
    """
    for case in asked or ():
        if _several(spec, case) and len(bindings) == 1:
            fix = "map a second name, or leave the case away"
            raise QuestionError(f"the case {case} needs two names, and the map has one", fix)


def named(bindings: Sequence[Binding], name: str | None) -> Binding | None:
    """Return the binding that --reference names; None where it is not given.

    Raises:
        QuestionError: the map does not have the name.
    """
    found = next((binding for binding in bindings if binding.name == name), None)
    if name is not None and found is None:
        fix = f"use one of the map's names: {printable(', '.join(b.name for b in bindings))}"
        raise QuestionError(f"--reference: the map has no name {printable(name)}", fix)
    return found


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


def one_device(spec: BenchmarkSpec, case: str, bindings: Sequence[Binding]) -> Reason | None:
    """Return why a case of several devices that was not requested is skipped; None if it is not."""
    if _several(spec, case) and len(bindings) == 1:
        return Reason("one-device", "the map has one name: a speed-up needs two")
    return None


def _several(spec: BenchmarkSpec, case: str) -> bool:
    return any(one.several for one in spec.cases if one.name == case)
