"""The parameters of each network, added up from its layers."""

import pytest
from tables import table

from gpumap.training.network import PARAMETERS, nbytes

NETWORKS = table(__file__)


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_are_those_of_the_layers(name):
    network = NETWORKS[name]
    total = sum(n * out * side**2 + out * more for n, out, side, more in network["layers"])
    assert total == PARAMETERS[name] == network["parameters"]
    assert nbytes(name) == 4 * total


def test_bytes_are_those_of_the_type():
    assert nbytes("vgg16", "float16") == 2 * PARAMETERS["vgg16"]
