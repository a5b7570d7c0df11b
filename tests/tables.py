"""Parameters of tests that are data, from a file of TOML beside the test's own."""

import tomllib
from pathlib import Path


def table(test, name=None):
    """Return the table of a test's file; by default the one that is called as it is.

    TOML has no null: an empty table, {}, stands for None in a list of other values.
    """
    path = Path(test).with_name(f"{name}.toml") if name else Path(test).with_suffix(".toml")
    return _with_none(tomllib.loads(path.read_text(encoding="utf-8")))


def _with_none(value):
    if isinstance(value, dict):
        return {key: _with_none(each) for key, each in value.items()}
    if isinstance(value, list):
        tables = all(isinstance(each, dict) for each in value)
        return [None if each == {} and not tables else _with_none(each) for each in value]
    return value
