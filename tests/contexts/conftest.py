"""What tests of contexts are given."""

import pytest

import gpumap

TWO = "dev0->cuda0;dev1->cuda1"


@pytest.fixture
def context():
    with gpumap.open(TWO, backend="fake") as opened:
        yield opened


@pytest.fixture
def strict():
    with gpumap.open(TWO, backend="fake", policy="strict") as opened:
        yield opened
