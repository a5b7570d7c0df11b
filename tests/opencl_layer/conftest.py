"""What tests of the OpenCL layer are given."""

import pytest
from layered import HERE, Counting, compiled


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Return a cache where the layer is built once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def counting(tmp_path, cache):
    return Counting(tmp_path, cache)


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Return the C program that counts what it does itself."""
    folder = tmp_path_factory.mktemp("program")
    return compiled(folder, HERE / "program.c", "-lOpenCL", "-pthread")
