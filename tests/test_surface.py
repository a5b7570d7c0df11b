"""The public surface is one file: what goes from it goes on purpose."""

from __future__ import annotations

from golden import held
from surface import surface


def test_the_public_surface_is_what_it_was(renew):
    """A line that is gone from it needs its reason in the commit and in CHANGELOG."""
    held("surface", surface(), renew=renew)
