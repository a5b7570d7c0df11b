"""From a map to devices: all or nothing, and what is worth knowing about the result."""

import pytest
from commands.scripts import script
from refusals import refusal
from tables import table

from gpumap.backends.base import Host
from gpumap.errors import AbsentError, QuestionError, Span
from gpumap.inventory import Inventory
from gpumap.kinds import KINDS
from gpumap.machine.topology import Cpu, Topology
from gpumap.model import Device, DeviceRef, Kind, Probe
from gpumap.model.io import typed
from gpumap.parse import parse_map
from gpumap.resolve import default_map, resolve, resolve_all

TABLE = table(__file__)
UUID = "GPU-12345678-9abc-def0-1234-56789abcdef0"


def topology(*cores, quota=None, pinnable=True):
    cpus = sorted((Cpu(i, core, 0) for core in cores for i in core),
                  key=lambda cpu: cpu.index)  # fmt: skip
    return Topology(tuple(cpus), len(cpus), quota, "A CPU", 2**34, 2**33, pinnable=pinnable)


FOUR = topology((0,), (1,), (2,), (3,))


@pytest.fixture
def fake(tmp_path):
    """Return a function that makes an inventory of scripted devices: references, or tables."""

    def make(*devices, machine=FOUR):
        tables = ({"ref": d} if isinstance(d, str) else d for d in devices)
        path = tmp_path / "fake.toml"
        path.write_text(script(*tables))
        return Inventory(Host({"GPUMAP_FAKE": str(path)}, machine), "fake")

    return make


def bound(text, inventory):
    return [(b.name, str(b.device.ref)) for b in resolve(parse_map(text), inventory).bindings]


def notes(text, inventory):
    return resolve(parse_map(text), inventory).notes


def absent(text, inventory):
    with pytest.raises(AbsentError) as error:
        resolve(parse_map(text), inventory)
    return error.value.diagnostics


@pytest.mark.parametrize("identity", TABLE["identities"])
def test_an_identity_finds_its_device_at_any_ordinal(fake, identity):
    """By PCI bus id or UUID, in whichever spelling; the device keeps its own number."""
    inventory = fake(
        {"ref": "cuda0", "pci": "0000:09:00.0"},
        {"ref": "cuda1", "pci": "0000:0A:00.0", "uuid": UUID},
    )
    assert bound(f"a->cuda@{identity}", inventory) == [("a", "cuda1")]


def knowing(*probes, asked=None, **variables):
    """Return an inventory of what backends have found."""
    inventory = Inventory(Host(variables, FOUR), asked)
    for probe in probes:
        inventory.know(probe)
    return inventory


def probe(backend, *refs, on="core:0", notes=()):
    """Return what a backend has found: devices, written as in a map, on the same hardware."""
    found = ((text, typed(text, DeviceRef)) for text in refs)
    devices = (Device(text, ref.kind, ref, "", backend, hardware=frozenset({on}))
               for text, ref in found)  # fmt: skip
    return Probe(backend, usable=True, devices=tuple(devices), notes=notes)


def of_libraries(**more):
    """Return an inventory in which CuPy drives a GPU, and pygpu has what is given."""
    if hardware := more.pop("hardware", None):
        more |= {"usable": True, "devices": probe("pygpu", "cuda0", on=hardware).devices}
    return knowing(
        probe("cupy", "cuda0", on="gpu:a"),
        Probe("torch", usable=True, notes=("cuda: not built for it",)),
        Probe("pygpu", **{"usable": False} | more),
    )


@pytest.mark.parametrize(("pygpu", "backends", "code", "severity"), TABLE["pygpu"])
def test_every_usable_backend_is_tried_side_by_side(pygpu, backends, code, severity):
    """That they drive other hardware is told with each; so is who is left out."""
    every = resolve_all(parse_map("a->cuda0"), of_libraries(**pygpu))
    left_out = {n.message for each in every for n in each.notes if n.code == "left-out"}
    assert "torch is left out: not built for it" in left_out
    assert [b.device.backend for each in every for b in each.bindings] == backends
    for each in every:
        assert (each.notes[-1].code, each.notes[-1].severity) == (code, severity)


def test_backends_that_are_requested_are_side_by_side():
    """In the order of the request; each also drives what it drives on request alone."""
    inventory = of_libraries()
    inventory.know(probe("torch", "cuda0", "cpu0"))
    found = resolve_all(parse_map("a->cuda0;b->cpu0"), inventory, ("torch", "cupy"))
    assert [[b.device.backend for b in each.bindings] for each in found] == [
        ["torch", "torch"], ["cupy", "numpy"],
    ]  # fmt: skip
    every = resolve_all(parse_map("a->cuda0;b->cpu0"), inventory)
    assert {b.device.backend for each in every for b in each.bindings[1:]} == {"numpy"}


def test_a_backend_with_fewer_devices_than_the_map_has_names_is_left_out():
    """The others are measured, and a warning says what it lacks; alone it is an error."""
    inventory = of_libraries()
    inventory.know(probe("jax", "cpu0"))
    map_ = parse_map("a->cpu0;b->cpu1")
    (found,) = resolve_all(map_, inventory, ("jax", "numpy"))
    assert [binding.device.backend for binding in found.bindings] == ["numpy", "numpy"]
    (note,) = (note for note in found.notes if note.code == "left-out")
    assert (note.severity, note.message[:33]) == ("warning", "jax is left out: b: cpu1 is not t")
    with pytest.raises(AbsentError, match="b: cpu1 is not there"):
        resolve_all(map_, inventory, ("jax",))


def test_a_requested_backend_that_is_none_or_has_none():
    """A word that is no backend's is refused; one without a device says why."""
    inventory = of_libraries(reason="not installed")
    with pytest.raises(QuestionError, match='no backend is called "tensorflow"'):
        resolve_all(parse_map("a->cuda0"), inventory, ("cupy", "tensorflow"))
    with pytest.raises(AbsentError, match="pygpu: not installed"):
        resolve_all(parse_map("a->cuda0"), inventory, ("pygpu", "torch"))


def test_one_absent_name_and_none_resolves(fake):
    found = absent("a->cuda0;b->cuda7; c ->  cpu1 ", fake("cuda0", "cuda1", "cpu0"))
    assert [(d.code, d.entry, d.span, d.hint, d.name) for d in found] == [
        ("absent", 2, Span(12, 17), "write one that is there: cuda0, cuda1", "b"),
        ("absent", 3, Span(25, 29), "write one that is there: cpu0", "c"),
    ]


@pytest.mark.parametrize(("ref", "there"), TABLE["hints"])
def test_the_hint_lists_what_is_there(fake, ref, there):
    cuda = [{"ref": f"cuda{n}"} for n in range(11) if n != 9]
    cuda[0] |= {"pci": "0000:09:00.0", "uuid": UUID}
    other = {"ref": "opencl0:0", "pci": "0000:0a:00.0"}
    (found,) = absent(f"a->{ref}", fake(*cuda, other, "opencl0:1", "opencl0:0.0", "opencl0:0.1"))
    (part,) = absent("a->opencl0:0.1", fake("opencl0:0"))
    (none,) = absent(f"a->cuda@{UUID}", fake("cuda0"))
    assert none.hint == "none here is called so"
    assert found.message == f"a: {ref} is not there"
    assert found.hint == f"write one that is there: {there}"
    assert part.hint == "write one that is there: opencl0:0"  # which has no parts


def simulating(asked, *names, type_="gpu"):
    devices = tuple(
        Device(f"opencl:{n}:0", Kind.OPENCL, DeviceRef(Kind.OPENCL, 0, n), name, "pyopencl",
               driver=f"{name} 1.0", facts={"type": type_})
        for n, name in enumerate(names)
    )  # fmt: skip
    unusable = (Probe(name, usable=False) for name in ("cupy", "pygpu"))
    return knowing(*unusable, Probe("pyopencl", usable=True, devices=devices), asked=asked)


@pytest.mark.parametrize("simulator", ["Oclgrind Simulator", "Intel(R) FPGA Emulation Device"])
def test_a_simulator_is_never_a_default(simulator):
    """Though it says that it is a GPU, and is first or all that there is; by name it is mapped."""
    assert str(default_map(simulating(None, simulator))) == "dev0->cpu0;dev1->cpu1"
    with pytest.raises(AbsentError, match="simulators are never a default"):
        default_map(simulating("pyopencl", simulator))
    for asked, type_ in ((None, "gpu"), ("pyopencl", "other")):
        inventory = simulating(asked, simulator, "A GPU", type_=type_)
        assert str(default_map(inventory)) == "dev0->opencl1:0"
        assert resolve(parse_map("a->opencl0:0"), inventory).bindings[0].device.simulated


@pytest.mark.parametrize(("ref", "message"), TABLE["noted"])
def test_what_a_backend_noted_of_a_kind_is_why_its_device_is_not_there(ref, message):
    """A backend that drives another kind, or another device, still knows: nothing is lost."""
    hidden = 'CUDA_VISIBLE_DEVICES=0,7: entry 2 ("7") names no device'
    notes = ("cuda: no\x1b driver", hidden, "opencl1: no device")
    (problem,) = absent("a->cuda1", knowing(probe("pygpu", ref, notes=notes), asked="pygpu"))
    assert problem.message == f"a: {message}no\x1b driver; {hidden}"


@pytest.mark.parametrize("hiding", TABLE["hiding"])
@pytest.mark.parametrize("there", [("rocm0",), ()])
def test_what_hides_devices_that_have_numbers_alone_is_named(monkeypatch, hiding, there):
    """By the row of their kind; the variables of another kind are nothing to them."""
    monkeypatch.setitem(KINDS, Kind.ROCM, Kind.ROCM.row._replace(backends=("torch",)))
    (found,) = absent("a->rocm1", knowing(probe("torch", *there), **hiding, ZE_AFFINITY_MASK="0"))
    why = " and ".join(f"{name}={value}" for name, value in hiding.items())
    before = "rocm1 is not there: " if there else (
        "no backend can drive rocm1: torch: it finds no rocm device; "
    )  # fmt: skip
    assert found.message == f"a: {before}{why}: what is left is counted anew"


def test_the_first_of_a_kind_is_meant_where_no_number_is(fake):
    """A Mac has none at all."""
    refs = ("opencl0:0", "tpu0", "rocm0", "rocm1", "xpu0", "mps")
    inventory = fake(*refs)
    assert bound("a->rocm;b->mps;c->xpu;d->tpu", inventory) == [
        ("a", "rocm0"), ("b", "mps"), ("c", "xpu0"), ("d", "tpu0"),
    ]  # fmt: skip
    (found,) = absent("a->cuda0", inventory)
    assert found.hint == "PyTorch calls a GPU of AMD cuda, too: write rocm0"


def test_a_backend_that_drives_another_kind():
    """The question is wrong, whatever is installed; a map of cpu names asks no driver."""
    found = refusal(
        QuestionError, resolve, parse_map("a->cpu0;b->cuda0"), Inventory(Host({}, FOUR), "numpy")
    )
    assert (found.code, found.span) == ("wrong-backend", Span(8, 16))
    inventory = Inventory(Host({}, FOUR))
    resolve(parse_map("a->cpu0;b->cpu1"), inventory)
    assert [probe.name for probe in inventory.probes] == ["numpy"]
    assert inventory.probe("numpy") is inventory.of(Kind.CPU)[0]
    with pytest.raises(QuestionError, match='no backend is called "x\\\\x1b"'):
        Inventory(Host({}, FOUR), "x\x1b")


@pytest.mark.parametrize(("text", "cores", "said"), TABLE["shared"])
def test_names_of_one_core_share_it(text, cores, said):
    found = notes(text, Inventory(Host({}, topology(*cores))))
    assert [note.message.partition(" share hardware (core:")[0] for note in found] == said


@pytest.mark.parametrize("quota", [None, 2.0, 4.0, 1.5, 1.0, 0.25])
def test_a_quota_below_the_cores_of_the_map(fake, quota):
    """The map uses two cores; less than that is shared by all of them; a GPU is not under it."""
    machine = topology((0,), (1,), quota=quota)
    found = notes("a->cpu0;b->cpu1", Inventory(Host({}, machine)))
    low = quota is not None and quota < 2.0
    assert [(note.code, note.severity) for note in found] == [("quota", "warning")] * low
    assert not low or f"a cgroup quota of {quota:g} cores" in found[0].message
    assert notes("a->cuda0", fake("cuda0", machine=machine)) == ()


def test_a_system_that_cannot_pin():
    """A cpu name may then run anywhere."""
    (found,) = notes("a->cpu0", Inventory(Host({}, topology((0,), pinnable=False))))
    assert (found.code, found.severity) == ("not-pinned", "note")


def test_what_the_map_leaves_unused(fake):
    """One note for devices of the map's kinds; parts and what shares hardware are not unused."""
    inventory = fake(
        "cuda0", "cuda1", "cuda2", {"ref": "cuda3", "hardware": ["cuda:0"]}, "cpu0",
        "opencl0:0", {"ref": "opencl0:0.0", "hardware": ["opencl:0:0"]}, "opencl0:1",
    )  # fmt: skip
    (found,) = notes("a->cuda0;b->opencl0:0.0", inventory)
    assert (found.code, found.severity) == ("unused", "note")
    assert found.message.endswith(": cuda1, cuda2, opencl0:1")


@pytest.mark.parametrize(("devices", "text"), TABLE["default_of_devices"])
def test_the_default_is_every_accelerator_else_every_gpu_of_opencl_else_cores(fake, devices, text):
    """Where there is one, nothing else is mapped; a CPU that OpenCL drives is no GPU."""
    found = default_map(fake(*devices))
    assert found.text == str(found) == text


@pytest.mark.parametrize(("cores", "text"), TABLE["default_of_cores"])
def test_else_one_name_for_each_physical_core_at_most_two(cores, text):
    """A cpu's number is its place in the mask, not the system's; siblings are one core."""
    inventory = Inventory(Host({}, topology(*cores)), "numpy")
    assert text == str(default_map(inventory))
    assert notes(text, inventory) == () or len(cores) > 2


def test_cores_that_share_all_of_their_hardware_get_one_name():
    """As JAX's do, each of which has all cores: a second name would bring no second device."""
    found = probe("jax", "cpu0", "cpu1", "cpu2", "cpu3")
    inventory = knowing(found, asked="jax")
    assert str(default_map(inventory)) == "dev0->cpu0"
