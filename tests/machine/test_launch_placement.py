"""Where processes are put, on captured trees of machines that are not at hand."""

import pytest
from tables import table

from gpumap.backends.numpy import cores
from gpumap.launch.placement import environment, joined, places
from gpumap.machine.topology import read
from gpumap.model import Binding, Device, DeviceRef, Kind, replace
from gpumap.units import ranges

TABLE = table(__file__)
NEAR = TABLE["near"]
BUSES = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")  # of `eight`: four on each node
UUID = "GPU-00000000-0000-0000-0000-00000000000"


def gpu(number, bus=None, **facts):
    facts = {"pci": f"0000:{bus or BUSES[number]}:00.0", "uuid": f"{UUID}{number}"} | facts
    ref = DeviceRef(Kind.CUDA, number)
    return Device(f"cuda:{number}", Kind.CUDA, ref, "H100", "cupy", **facts)


def opencl(**facts):
    return Device("opencl:0:0", Kind.OPENCL, DeviceRef(Kind.OPENCL, 0, 0), "x", "pyopencl", **facts)


def placed(sketch, *devices, bind=True):
    bindings = [Binding(f"n{n}", device) for n, device in enumerate(devices)]
    return places(bindings, read(sketch.root), bind=bind)


def told(found):
    return [(place.node, ranges(place.cores)) for place in found]


@pytest.mark.parametrize(("allowed", "devices", "expected"), NEAR.values(), ids=NEAR)
def test_near_a_device_its_names_share_the_cores(eight, allowed, devices, expected):
    every = cores(read(eight.status(allowed).root))
    made = {"cpu": every.__getitem__, "gpu": gpu}
    made["opencl"] = lambda number: opencl(pci=gpu(number).pci, facts={"type": "gpu"})
    found = placed(eight, *(made[kind](number) for kind, number in devices))
    assert told(found) == [tuple(each) for each in expected]
    assert len(found) < 8 or {place.threads for place in found} == {8}


def test_a_share_is_as_even_as_can_be(eight):
    found = placed(eight, gpu(0), gpu(1), gpu(2))
    assert sorted(place.threads for place in found) == [10, 11, 11]
    assert {cpu for place in found for cpu in place.cores} == {*range(32), *range(64, 96)}


@pytest.mark.parametrize(("allowed", "node", "expected"), TABLE["on_a_node"])
def test_the_node_of_a_device_has_its_cores(eight, allowed, node, expected):
    """Not the socket that it is near; none where it has memory alone, or cores of others."""
    eight.status(allowed).node(2, ()).pci("0000:1b:00.0", numa_node=node, local_cpulist="0-63")
    (found,) = placed(eight, gpu(0))
    assert (found.node, ranges(found.cores)) == (node, expected)
    none = f"not bound: node {node} has no core that this process may run on"
    assert expected or found.why == none


@pytest.mark.parametrize(("kind", "given", "why"), TABLE["unknown"])
def test_what_is_not_known_is_said(eight, kind, given, why):
    """Nothing is bound by a guess; the kernel writes -1 where the firmware does not say."""
    device = {"gpu": gpu, "opencl": opencl}[kind](**given)
    (found,) = placed(eight.pci("0000:43:00.0", numa_node="-1"), device)
    assert (found.node, found.cores, found.why) == (None, (), f"not bound: {why}")


def test_nothing_is_bound_where_that_is_asked(eight):
    """By --no-bind, or because the system cannot, as macOS; threads are divided all the same."""
    found = placed(eight, gpu(0), gpu(7), bind=False)
    assert told(found) == [(None, "")] * 2
    assert [place.threads for place in found] == [32, 32]
    topology = replace(read(eight.root), pinnable=False)
    (place,) = places([Binding("a", cores(topology)[0])], topology)
    assert (place.cores, place.why) == ((), "not bound: this system cannot bind a process to cores")


def environments(found, given):
    return [environment([place], "token", given) for place in found]


def test_a_device_is_told_by_its_identity(eight):
    """By its address where it has no UUID: a wrong one would hide it. All cores are `cpu`."""
    every = cores(read(eight.root))
    devices = gpu(3), every[5], gpu(3, uuid=None), every[-1]
    first, second, third, last = environments(placed(eight, *devices), {})
    assert first["CUDA_VISIBLE_DEVICES"] == f"{UUID}3"
    assert first["GPUMAP_CONTEXTS"] == f"n0->cuda@{UUID}3"
    assert (second["CUDA_VISIBLE_DEVICES"], second["GPUMAP_CONTEXTS"]) == ("", "n1->cpu0")
    assert "CUDA_VISIBLE_DEVICES" not in third
    assert third["GPUMAP_CONTEXTS"] == "n2->cuda@0000:61:00.0"
    assert (last["GPUMAP_CONTEXTS"], last["OMP_NUM_THREADS"]) == ("n3->cpu", "64")


def test_a_device_with_a_number_alone_is_the_first_one_inside(eight):
    refs = [DeviceRef(Kind.ROCM, number) for number in (2, 0)]
    every = [Device(str(ref), Kind.ROCM, ref, "MI300X", "torch") for ref in refs]
    both = placed(eight, *every)
    for found, ref in zip(environments(both, {}), refs, strict=True):
        assert found["HIP_VISIBLE_DEVICES"] == str(ref.index)
        assert found["GPUMAP_CONTEXTS"].endswith("->rocm0")
    whole = environment(both, "token", {})
    assert whole["HIP_VISIBLE_DEVICES"] == "2,0"
    assert whole["GPUMAP_CONTEXTS"] == "n0->rocm0;n1->rocm1"


def test_one_process_of_several_names_has_the_devices_and_cores_of_all(eight):
    """A core is told by its place among those that it may run on; without a UUID none is hidden."""
    every = cores(read(eight.root))
    both = placed(eight, gpu(3), every[5], every[2])
    whole, found = joined(both), environment(both, "token", {})
    assert set(whole.cores) == {core for place in both for core in place.cores}
    inside = [sorted(whole.cores).index(place.cores[0]) for place in both[1:]]
    assert found["GPUMAP_CONTEXTS"] == f"n0->cuda@{UUID}3;n1->cpu{inside[0]};n2->cpu{inside[1]}"
    assert (found["CUDA_VISIBLE_DEVICES"], "GPUMAP_NAME" in found) == (f"{UUID}3", False)
    assert (found["GPUMAP_RUN"], "RANK" in found) == ("token", False)
    assert int(found["OMP_NUM_THREADS"]) == sum(place.threads for place in both)
    two = placed(eight, gpu(2), gpu(3))
    assert environment(two, "token", {})["CUDA_VISIBLE_DEVICES"] == f"{UUID}2,{UUID}3"
    hidden = placed(eight, gpu(2), gpu(3, uuid=None))
    assert "CUDA_VISIBLE_DEVICES" not in environment(hidden, "token", {})


def test_one_process_is_bound_where_each_of_its_names_is(eight):
    """Else its program could not reach what the other one would."""
    unbound = joined(placed(eight, gpu(3), opencl()))
    assert unbound.cores == ()
    (one,) = placed(eight, gpu(3))
    assert joined([one]) == one


@pytest.mark.parametrize(("given", "threads"), TABLE["threads"])
def test_threads_are_told_where_the_user_has_told_none(eight, given, threads):
    """An empty variable says nothing: OpenMP would take every core for each process."""
    (found,) = environments(placed(eight, gpu(0)), given or {})
    assert found.get("OMP_NUM_THREADS") == (threads or None)
