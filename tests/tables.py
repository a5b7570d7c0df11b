"""Parameters of tests that are data, from a file of TOML beside the test's own."""

import tomllib
from pathlib import Path


def table(test, name=None):
    """Return the table of a test's file; by default the one that is called as it is."""
    path = Path(test).with_name(f"{name}.toml") if name else Path(test).with_suffix(".toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))
