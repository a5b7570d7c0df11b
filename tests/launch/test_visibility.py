"""What a process sees of the devices of its kinds, by the variables that hide the others."""

import pytest
from tables import table

from gpumap.launch.visibility import visible
from gpumap.model import Device
from gpumap.parse import parse_map


def device(text):
    """Return a device as its driver tells it: CUDA's with a UUID, cores in host memory."""
    ref = parse_map(f"a->{text}").entries[0].ref
    uuid = f"GPU-{ref.index}" if text.startswith("cuda") else None
    return Device(text, ref.kind, ref, "", "any", uuid=uuid)


@pytest.mark.parametrize(("devices", "given", "variables", "numbered"), table(__file__)["cases"])
def test_a_process_sees_its_own_devices_alone(devices, given, variables, numbered):
    """In the numbers of where they were found: nothing is counted twice."""
    found = visible([device(text) for text in devices], given or {})
    assert (dict(found.variables), dict(found.numbered)) == (variables or {}, numbered or {})
