"""What tests of PyTorch's and JAX's backends share: whether a library is there, the machine."""

from importlib.util import find_spec

import pytest
from sessions import backend

from gpumap.machine import topology

MACHINE = topology.read()


def needs(name):
    """Mark a test of a backend: without its library it is skipped with the probe's reason."""
    found = backend(name)[1]
    why = f"{name}: {found.reason} ({found.fix})"
    return pytest.mark.skipif(find_spec(name) is None, reason=why)
