"""Why copies are not what their links could carry: at most one cause for each row.

Copies at once are held against copies by themselves (`gpumap.judge.together`), pairs of devices
against pairs of their sort (`gpumap.judge.pairs`), and each row against what its link can carry
(`gpumap.judge.slow_link`), in this order: a link that is shared is slow for that.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from statistics import median
from typing import TYPE_CHECKING

from gpumap.bench.registry import is_control
from gpumap.judge.explain import contended
from gpumap.judge.few import few
from gpumap.judge.pairs import odd_pairs
from gpumap.judge.slow_link import slow
from gpumap.judge.together import Together, shared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpumap.bench.registry import Look
    from gpumap.model import Binding, Explanation, LinkState, Measurement, Param

    States = Callable[[], Mapping[str, LinkState]]

CAUSES = ("shared-link", "half-duplex", "odd-pair", "slow-link")  # beside those of `explain`
_WAYS = ("h2d", "d2h")


def copies_explained(rows: Sequence[Measurement], look: Look) -> list[Measurement]:
    """Return the rows of a group, those of copies that want explaining each with its cause.

    A row with too few samples for an interval has none, and none rests on it.

    Args:
        rows: the whole of what was measured together: a copy is explained by others of its size.
        look: asks the system of the links; only if a row wants explaining, and once.
    """
    copies = [row for row in rows if not is_control(row.case) and row.status == "ok"]
    copies = [row for row in copies if not few(row)]
    devices = {b.device.id: b.device for row in copies for b in row.case.bindings}
    states = cache(lambda: look(devices.values()))
    odd, alone = odd_pairs(copies), _Alone(copies)
    whys = {row.case.id: _why(row, alone, odd, states) for row in copies}
    return [replace(row, explanation=whys.get(row.case.id) or row.explanation) for row in rows]


class _Alone:
    """Copies by themselves: by direction, device, memory, size and mode."""

    def __init__(self, rows: Iterable[Measurement]) -> None:
        self._rows = {
            _key(row.case.name, row.case.bindings[0], row.case.params, row.case.params["mode"]): row
            for row in rows
            if row.case.name in _WAYS and row.case.params["pattern"] == "alone" and not few(row)
        }

    def find(self, row: Measurement, way: str, binding: Binding, mode: str) -> Measurement | None:
        """Return the same copy as one of a row's, by itself; of several names the first has it."""
        return self._rows.get(_key(way, binding, row.case.params, mode))


def _key(way: str, binding: Binding, params: Mapping[str, Param], mode: Param) -> tuple[Param, ...]:
    return way, binding.device.id, params["memory"], params["bytes"], mode


def _why(
    row: Measurement, alone: _Alone, odd: Mapping[str, Explanation], states: States
) -> Explanation | None:
    evidence = _evidence(row, alone, states) if "speedup" in row.metrics else None
    if (found := shared(evidence) if evidence is not None else None) is not None:
        return found
    if contended(row.around, row.case.bindings) is not None:
        return None  # of a busy machine no other cause can be told
    return odd.get(row.case.id) or slow(row, states)


def _evidence(row: Measurement, alone: _Alone, states: States) -> Together | None:
    """Return what a row is judged by; None where a copy by itself was not measured."""
    case, bindings = row.case.name, row.case.bindings
    parts = {way: (way, bindings[0]) for way in _WAYS}
    if case != "bidir":
        parts = {binding.name: (case, binding) for binding in bindings}
    waited = {part: alone.find(row, *place, "sync") for part, place in parts.items()}
    queued = {part: alone.find(row, *place, "queued") for part, place in parts.items()}
    known = {part: one for part, one in waited.items() if one is not None}
    more = {part: one for part, one in queued.items() if one is not None}
    if len(known) < len(parts):
        return None
    return Together(
        row,
        {part: one.metrics["time"].value for part, one in known.items()},
        {part: one.metrics["issue_interval"].value for part, one in more.items()},
        {part: median(one.samples.queue) for part, one in more.items()
         if one.samples and one.samples.queue},
        {part: one.metrics["bandwidth"] for part, one in known.items()},
        states,
    )  # fmt: skip
