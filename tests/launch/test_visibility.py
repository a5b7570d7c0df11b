"""What a process sees of the devices of its kinds, by the variables that hide the others."""

import pytest
from tables import table

from gpumap.launch.visibility import kept, visible
from gpumap.model import Device
from gpumap.parse import parse_map


def device(text):
    """Return a device as its driver tells it: CUDA's with a UUID, cores in host memory."""
    ref = parse_map(f"a->{text}").entries[0].ref
    uuid = f"GPU-{ref.index}" if text.startswith("cuda") else None
    return Device(text, ref.kind, ref, "", "any", uuid=uuid)


@pytest.mark.parametrize("case", table(__file__)["cases"], ids=str)
def test_a_process_sees_its_own_devices_alone(case):
    """In the numbers of where they were found: nothing is counted twice."""
    devices, *expected = case
    given, variables, numbered = (each or {} for each in expected[:3])
    found = visible([device(text) for text in devices], given)
    assert (dict(found.variables), dict(found.numbered)) == (variables, numbered)
    assert [*found.removed] == (expected[3] if expected[3:] else [])
    assert {*kept([device(text) for text in devices], given)} == {*given} - {*found.removed}
