"""Tables of parameters: data, in a file of TOML beside the tests that run through them."""

import tomllib
from pathlib import Path


def tables(file):
    """Return what stands in the file beside a test file."""
    return tomllib.loads(Path(file).with_suffix(".toml").read_text(encoding="utf-8"))
