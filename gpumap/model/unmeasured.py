"""Results of commands whose answer the common part of a report is: they load no msgspec."""

from __future__ import annotations

from typing import NamedTuple


class Checked(NamedTuple):
    """The result of `check`: the map, its bindings and the notes of the report are all of it."""


class Listed(NamedTuple):
    """The result of `devices`: the backends and the devices of the report are all of it."""


class Compared(NamedTuple):
    """The result of `compare`: the verdicts of the report are all of it."""
