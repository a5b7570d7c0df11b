"""The table of kinds: each row is whole, and what it says of a device is true of the parser."""

import re

import pytest

from gpumap.backends import REGISTRY
from gpumap.kinds import KINDS, Kind
from gpumap.machine.fingerprint import VARIABLES
from gpumap.parse import parse_map


@pytest.mark.parametrize("kind", Kind)
def test_a_row_is_whole(kind):
    """Its example is a device of it; what hides its devices is in every report's variables."""
    row = KINDS[kind]
    assert kind.row is row
    assert parse_map(f"a->{row.example}").entries[0].ref.kind is kind
    assert set(row.backends) <= REGISTRY.keys() - {"fake"}
    assert set(row.pip) <= set(row.backends)
    assert {*row.hides, *row.reads, *(name for name, _ in row.alone)} <= set(VARIABLES)
    assert row.cores == (kind is Kind.CPU)
    for pattern, written, _ in row.spellings:  # each has as many numbers as what it becomes
        assert re.compile(pattern).groups == written.count("{}")
