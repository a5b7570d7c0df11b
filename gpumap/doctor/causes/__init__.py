"""The table of causes, in the order in which they are named: configuration first, work last."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.doctor.causes import configuration, devices, machine, work
from gpumap.doctor.causes.cause import Cause, Rule, Shown
from gpumap.errors import Exit
from gpumap.files import shipped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpumap.doctor.evidence import Evidence, Named

RULES = {**configuration.RULES, **devices.RULES, **machine.RULES, **work.RULES}
_CITED = {
    "release": "Theano 1.0.5",
    "article": "the article Why is Theano rarely using the GPU?",
}


_EXITS = {"GM535": Exit.INCONCLUSIVE, "GM536": Exit.ABSENT}  # of frameworks; else the answer is no


@cache
def table() -> Mapping[str, Cause]:
    """Return every cause by its code: its rule, and its texts of causes.toml."""
    frameworks = shipped("gpumap.doctor.frameworks", "causes.toml", _of_frameworks)
    return {**shipped("gpumap.doctor", "causes.toml", _table), **frameworks}


def _table(tables: Mapping[str, Any]) -> Mapping[str, Cause]:
    for texts in tables.values():
        texts["source"] = texts["source"].format_map(_CITED)
    return {code: Cause(code, rule, **tables[code]) for code, rule in RULES.items()}


def _of_frameworks(tables: Mapping[str, Any]) -> Mapping[str, Cause]:
    """Return the causes of GM5: their rules look at facts, and at no name of a map."""
    return {
        code: Cause(code, Rule("not used", _never, _EXITS.get(code, Exit.NO)), **texts)
        for code, texts in tables.items()
    }


def _never(_: Evidence, __: Named) -> Shown | None:
    """Return None: a cause of frameworks says nothing of a name."""
    return None
