"""The cache folder of a user."""

from __future__ import annotations

import pytest

from gpumap import cache


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"GPUMAP_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"GPUMAP_CACHE_DIR": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/gpumap"),
        ({"XDG_CACHE_HOME": "b", "HOME": "/c"}, "/c/.cache/gpumap"),  # relative: XDG ignores it
        ({"HOME": "/c"}, "/c/.cache/gpumap"),
        ({"HOME": "c"}, None),
        ({}, None),
    ],
)
def test_the_folder(env, expected):
    """Our own variable, XDG's, then the home folder; else nowhere."""
    found = cache.folder(env)

    assert expected == (None if found is None else str(found))
