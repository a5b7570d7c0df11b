"""The link of a device as a captured system has it: node, lanes."""

import pytest

from gpumap.machine.state import link_states
from gpumap.model import Device, DeviceRef, Kind, LinkState, replace

NEAR_0, NEAR_1 = "0000:1b:00.0", "0000:df:00.0"


def gpu(address, **more):
    device = Device(f"cuda:{address}", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "A GPU", "cupy",
                    pci=address)  # fmt: skip
    return replace(device, **more)


def state(sketch, device):
    return link_states([device], sketch.root)[device.id]


def test_a_card_of_a_large_machine(eight):
    """Its node and its link; the process may run on all cores, or is bound to those of one node."""
    found = state(eight, gpu(NEAR_0))
    assert found == LinkState(node=0, nodes=(0, 1), width=16, max_width=16)
    assert state(eight.status("32-63"), gpu(NEAR_0)).nodes == (1,)
    assert [state(eight, gpu(pci)).node for pci in (NEAR_1, "00000000:1B:00.0")] == [1, 0]


@pytest.mark.parametrize("pci", [None, "0000:77:00.0", "", "../../../etc", "a\x00b"])
def test_a_device_that_is_on_no_bus(eight, pci):
    told = {"link_width": 8, "max_link_width": 16}
    found = state(eight, gpu(pci, numa_node=1, facts=told))
    assert (found.node, found.width, found.max_width) == (1, 8, 16)


def test_what_no_file_tells_is_not_known(eight):
    """And of a scripted device nothing is: it is no part of the machine."""
    none = eight.root / "none"
    found = link_states([gpu(NEAR_0)], none)[gpu(NEAR_0).id]
    assert replace(found, nodes=()) == LinkState()
    for root in (eight.root, none):
        assert link_states([gpu(NEAR_0, backend="fake")], root) == {}
