"""What doctor found, as it was before it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.model import Diagnosis, Example, Finding, Shares
from gpumap.saved.figures_1 import estimate
from gpumap.saved.tree import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpumap.model import Estimate
    from gpumap.saved import shape_1 as shape


def diagnoses(shapes: Sequence[shape.Diagnosis], names: Sequence[str]) -> Iterator[Diagnosis]:
    """Yield each diagnosis.

    Raises:
        Refused: a name is none of the map's, or the verdict is not that of its causes.
    """
    for number, found in enumerate(shapes):
        path = f"$.diagnoses[{number}]"
        if found.name is not None and found.name not in names:
            raise Refused("the map has no such name", f"{path}.name")
        yield _diagnosis(found, path)


def _diagnosis(found: shape.Diagnosis, path: str) -> Diagnosis:
    first = _first(found, path)
    if (found.verdict == "used") != (first is None):
        raise Refused("a name that is used has no cause, and one that is not has", path)
    behind = (_finding(one, f"{path}.behind[{n}]") for n, one in enumerate(found.behind))
    examples = (_example(one, f"{path}.examples[{n}]") for n, one in enumerate(found.examples))
    return Diagnosis(
        found.name,
        found.asked,
        found.verdict,
        found.seen.text,
        (*([first] if first else ()), *behind),
        _figures(found.seen.figures, f"{path}.seen.figures"),
        tuple(examples),
    )


def _first(found: shape.Diagnosis, path: str) -> Finding | None:
    if found.code is None or found.cause is None or found.fix is None:
        if (found.code, found.cause, found.fix) != (None, None, None) or found.behind:
            raise Refused("a cause has a code, a word and a fix", f"{path}.code")
        return None
    figures = _figures(found.evidence.figures, f"{path}.evidence.figures")
    return Finding(found.code, found.cause, found.evidence.text, found.fix, figures)


def _finding(found: shape.Finding, path: str) -> Finding:
    figures = _figures(found.evidence.figures, f"{path}.evidence.figures")
    return Finding(found.code, found.cause, found.evidence.text, found.fix, figures)


def _example(found: shape.Example, path: str) -> Example:
    return Example(
        found.workload,
        found.words,
        found.calls,
        estimate(found.device, f"{path}.device"),
        estimate(found.host, f"{path}.host"),
        _shares(found.shares) if found.shares else None,
        _finding(found.found, f"{path}.found") if found.found else None,
    )


def _shares(found: shape.Shares) -> Shares:
    parts = (found.upload, found.compute, found.download, found.overhead)
    return Shares(found.calls, found.total_s, found.host_s, *parts)


def _figures(shapes: Mapping[str, shape.Figure], path: str) -> dict[str, Estimate]:
    return {name: estimate(figure, f"{path}.{name}") for name, figure in shapes.items()}
