"""The table of causes, in the order in which they are named: configuration first, work last."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from gpumap.doctor.causes import configuration, devices, machine, work
from gpumap.doctor.causes.cause import Cause
from gpumap.files import shipped

if TYPE_CHECKING:
    from collections.abc import Mapping

RULES = {**configuration.RULES, **devices.RULES, **machine.RULES, **work.RULES}
_CITED = {
    "release": "Theano 1.0.5",
    "article": "the article Why is Theano rarely using the GPU?",
}


@cache
def table() -> Mapping[str, Cause]:
    """Return every cause by its code: its rule, and its texts of causes.toml."""
    return shipped("gpumap.doctor", "causes.toml", _table)


def _table(tables: Mapping[str, Any]) -> Mapping[str, Cause]:
    for texts in tables.values():
        texts["source"] = texts["source"].format_map(_CITED)
    return {code: Cause(code, rule, **tables[code]) for code, rule in RULES.items()}
