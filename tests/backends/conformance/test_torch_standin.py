"""PyTorch's accelerator path over a stand-in (torch_standin.py): the contract, and its streams."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch: not installed")

from backends.frameworks import MACHINE  # noqa: E402
from buffers import got, sent  # noqa: E402
from test_conformance import *  # noqa: E402, F403 - over this `session`
from test_conformance_products import *  # noqa: E402, F403 - as above
from torch_standin import installed  # noqa: E402
from training.test_rules import learned, training  # noqa: E402

from gpumap.backends import peers, third_party  # noqa: E402
from gpumap.backends.base import Clock, Host  # noqa: E402
from gpumap.backends.torch import TorchBackend  # noqa: E402
from gpumap.errors import DeviceError  # noqa: E402
from gpumap.machine.nvml import NvmlGpu  # noqa: E402

# what opens real devices is no test of the stand-in
test_a_copy_to_another_session = test_a_session_waits_for_a_mark_of_any_other = None
test_different_sessions_at_the_same_time = test_closing_twice_is_closing_once = None
test_what_a_device_can_do_is_known_before_it_is_opened = None
test_marks_are_in_order_on_the_host_clock_and_seconds_are_the_devices_own = None


@pytest.fixture
def world(monkeypatch):
    """Return what makes a world: the stand-in's devices, as a backend finds them."""

    def make(**given):
        made = installed(monkeypatch, **given)
        made.backend = TorchBackend(Host({}, MACHINE))
        made.probe = made.backend.found()
        monkeypatch.setattr(peers, "_known", {})
        return made

    monkeypatch.setattr(third_party, "gpus", tuple)
    monkeypatch.setattr(third_party, "driver", lambda: None)
    return make


@pytest.fixture
def session(world):
    with opened(world(), 1) as made:
        yield made


def opened(world, number):
    return world.backend.open(world.probe.devices[number], Clock())


def pinned(session, array):
    """Return a buffer that gets an array from pinned memory, once it is waited for."""
    held = session.host(array.shape, array.dtype.name, "pinned")
    held[...] = array
    buffer = session.empty(array.shape, array.dtype.name)
    session.upload(held, buffer)
    return buffer


@pytest.mark.parametrize("eager", [0, 1])
@pytest.mark.parametrize(("to", "fault", "route"), [
    (0, "", "same"), (1, "", "peer"), (1, "peer-refused", "staged"),
    (1, "peer-moves-nothing", "staged"),
])  # fmt: skip
def test_a_copy_to_another_session_waits_for_both(world, rng, eager, to, fault, route):
    """What the target has queued does not win, and what reads it later sees the copy."""
    made = world(eager=eager, fault=fault)
    ones, others = (rng.uniform(-1, 1, (64, 64)).astype("float32") for _ in range(2))
    with opened(made, 0) as here, opened(made, to) as there:
        source, target = pinned(here, ones), pinned(there, others)
        assert here.copy(source, target) == route
        back = there.host((64, 64), "float32", "pinned")
        there.download(target, back)
        there.synchronize()
        assert (back == ones).all()


def test_a_peer_that_moves_nothing_is_tried_once(world):
    made = world(fault="peer-moves-nothing")
    with opened(made, 0) as here, opened(made, 1) as there:
        routes = [here.copy(sent(here, np.ones(8)), there.empty((8,), "float64")) for _ in range(2)]
    assert routes == ["staged", "staged"]
    assert list(peers._known.values()) == [False]


@pytest.mark.parametrize("eager", [0, 1])
def test_a_session_waits_for_a_mark_of_another(world, eager):
    made = world(eager=eager)
    with opened(made, 0) as one, opened(made, 1) as two:
        order = []
        one._stream.queue.put(lambda: order.append("one"))
        two.wait(one.mark())
        two._stream.queue.put(lambda: order.append("two"))
        two.synchronize()
        one.synchronize()
    assert order == ["one", "two"]


def test_products_run_on_the_sessions_own_stream(world):
    """And so does every copy: the default stream stays as it is."""
    made = world()
    with opened(made, 0) as one:
        a = pinned(one, np.eye(4, dtype="float32"))
        out = one.empty((4, 4), "float32")
        one.gemm(a, a, out)
        one.copy(a, out)
        assert made.log[-1][2] is one._stream.queue
        assert [len(queue.jobs) for queue in made.defaults] == [0, 0]
        assert len(one._stream.queue.jobs) == 3


def test_tf32_is_on_for_the_product_that_requests_it(world, rng):
    """The next one is IEEE's again; and what is requested is done."""
    made = world()
    a, b = (rng.uniform(1, 2, (16, 16)).astype("float32") for _ in range(2))
    exact = a.astype(float) @ b
    with opened(made, 0) as one:
        off = []
        for tf32 in (False, True, False):
            out = one.empty((16, 16), "float32")
            one.gemm(sent(one, a), sent(one, b), out, tf32=tf32)
            off.append(abs(got(out) - exact).max() / exact.max())
    assert [word for _, word, _ in made.log] == ["ieee", "tf32", "ieee"]
    assert off[1] > 1e-5 > max(off[0], off[2])


def test_pageable_memory_blocks_and_pinned_memory_does_not(world):
    made = world()
    with opened(made, 0) as one:
        buffer = one.empty((8,), "float32")
        held = one.host((8,), "float32", "pinned")
        one.upload(held, buffer)
        one.download(buffer, held)
        assert len(one._stream.queue.jobs) == 2
        one.upload(np.ones(8, "float32"), buffer)
        assert len(one._stream.queue.jobs) == 0
        one.download(buffer, landed := np.zeros(8, "float32"))
        assert (landed == 1).all()


def test_events_are_of_the_sessions_device(world):
    """Each session has its own time, which is between the host's around it."""
    made, clock = world(), Clock()
    for number in (0, 1):
        with opened(made, number) as one:
            before = clock.now()
            start, stop = one.mark(), one.mark()
            time = one.at(stop)
            assert start.event.device.index == number
            assert one.seconds(start, stop) > 0
            assert before - 2e-3 <= time <= clock.now() + 2e-3
            assert one.at(stop) - one.at(start) == pytest.approx(one.seconds(start, stop), abs=1e-6)


def test_what_the_allocators_keep_is_given_back(world):
    made = world()
    one = opened(made, 0)
    one.close()
    one.close()
    assert made.emptied == ["empty_cache", "empty_host_cache"]


def test_a_device_that_fails_is_an_error_of_gpumaps(world, monkeypatch):
    made = world()
    with opened(made, 0) as one:
        monkeypatch.setattr(torch, "mm", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("no")))
        a = one.empty((2, 2), "float32")
        with pytest.raises(DeviceError, match="Simulated"):
            one.gemm(a, a, a)
    assert torch.backends.cuda.matmul.fp32_precision == "ieee"


def test_a_device_is_known_by_its_address_and_not_by_its_number(world, monkeypatch):
    """NVML's order is not CUDA's; CuPy would call them by the same identity."""
    boards = [
        NvmlGpu(
            n, "580", "Board", f"0000:{0x9D + n:02x}:00.0",
            f"GPU-{1 - n:08d}-0000-0000-0000-000000000000", memory_free=n + 1,
        )
        for n in range(2)
    ]  # fmt: skip
    monkeypatch.setattr(third_party, "gpus", lambda: tuple(boards))
    found = world().probe.devices[:2]
    assert [d.simulated for d in found] == [True, True]  # nothing of them is a measurement
    assert [d.pci for d in found] == ["0000:9e:00.0", "0000:9d:00.0"]
    assert [d.hardware for d in found] == [frozenset({f"pci:{d.pci}"}) for d in found]
    assert [d.uuid for d in found] == [boards[1].uuid, boards[0].uuid]
    assert [d.memory_free for d in found] == [2, 1]
    assert "tf32" in world().backend.features(found[0])


def test_a_broken_device_hides_no_other(world, monkeypatch):
    made = world()
    ask = torch.cuda.get_device_properties

    def asked(index):
        if index == 0:
            raise RuntimeError("it fell off the bus")
        return ask(index)

    monkeypatch.setattr(torch.cuda, "get_device_properties", asked)
    found = made.backend.found()
    assert str(found.devices[0].ref) == "cuda1"
    assert found.notes == ("cuda0: it fell off the bus",)


@pytest.mark.parametrize(("type_", "hip", "name", "hardware"), [
    ("cuda", "7.2", "rocm0", "pci:0000:9e:00.0"), ("xpu", None, "xpu0", "pci:0000:9e:00.0"),
    ("mps", None, "mps", "mps:0"),
])  # fmt: skip
def test_other_kinds_are_known_by_what_pytorch_calls_them(
    world, monkeypatch, type_, hip, name, hardware
):
    """ROCm is called cuda; Apple's tells nothing, and has no events and no float64."""
    made = world(devices=1)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device(type_))
    library = torch.cuda if type_ != "mps" else object()
    monkeypatch.setattr(torch, "get_device_module", lambda _: library)
    device = made.backend.found().devices[0]
    assert (str(device.ref), device.hardware) == (name, frozenset({hardware}))
    features = made.backend.features(device)
    assert ({"events", "pinned", "float64"} <= features) == (type_ != "mps")
    assert "tf32" not in features
    if type_ == "mps":
        with made.backend.open(device, Clock()) as one:
            mark = one.mark()
            assert (one.seconds(mark, mark), one.at(mark)) == (None, None)


@pytest.mark.parametrize("rule", ["bsp", "easgd", "gosgd"])
def test_a_network_is_trained_on_two_accelerators(world, rule):
    """Each on the stream of its own device, whose events tell the phases of a step."""
    made = world()
    with opened(made, 0) as one, opened(made, 1) as other:
        work, job = training([one, other], rule)
        assert abs(learned(work, 6) - job.initial).max() > 0
        assert work.check().passed
        assert sum(work.phases().values()) > 0
