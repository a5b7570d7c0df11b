"""Scripted devices: exact times on their own clock, and faults on demand."""

import gc
import weakref
from itertools import accumulate, pairwise

import numpy as np
import pytest
from tables import table
from threadpoolctl import threadpool_info

from gpumap.backends.base import Host
from gpumap.backends.fake import FakeBackend
from gpumap.errors import DeviceLost, OutOfMemory, SourceError
from gpumap.machine import topology
from gpumap.model import DeviceRef, Kind

TABLES = table(__file__)
MACHINE = topology.read()


# Dyadic numbers: their sums are exact. 64 KiB take 1/16 s, a product of 16 is 2 * 16**3 / 2**16.
@pytest.fixture
def script(tmp_path):
    def make(text):
        path = tmp_path / "fake.toml"
        path.write_text(text)
        return FakeBackend(Host({"GPUMAP_FAKE": str(path)}, MACHINE))

    return make


def opened(backend, *names):
    devices = {d.id: d for d in backend.probe().devices}
    names = names or tuple(devices)[:1]
    sessions = [backend.open(devices[name], backend.clock()) for name in names]
    return sessions[0] if len(sessions) == 1 else sessions


def test_products_of_an_open_device_take_one_thread(script):
    """They are small, and beside other programs a second thread is waited for."""
    with opened(script('[[device]]\nref = "cuda0"\n')):
        held = [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]
    assert set(held) == {1}


def taken(session, *commands):
    """Return the seconds of each command, by the device's own marks around it."""
    marks = [session.mark()]
    for command, *arguments in commands:
        command(*arguments)
        marks.append(session.mark())
    return [session.seconds(*pair) for pair in pairwise(marks)]


def test_a_script_says_all_about_a_device(script):
    """Without one there are two of each kind; an empty one cannot be used, and says why."""
    (device,) = script(TABLES["whole"]).probe().devices
    assert device.ref == DeviceRef(Kind.OPENCL, 2, 1, 3)
    assert (device.id, device.name, device.backend) == ("opencl:1:2.3", "A", "fake")
    assert device.pci == "0000:0a:00.0"
    assert device.uuid == "GPU-12345678-9abc-def0-1234-56789abcdef0"
    assert (device.memory_total, device.memory_free) == (1024, 1024)
    assert (device.hardware, device.facts) == (frozenset("xy"), {"type": "other"})
    probe, none = FakeBackend(Host({}, MACHINE)).probe(), script("").probe()
    assert [str(d.ref) for d in probe.devices] == [
        "cuda0", "cuda1", "opencl0:0", "opencl0:1", "cpu0", "cpu1",
    ]  # fmt: skip
    assert (probe.usable, probe.version) == (True, "1")
    assert (none.usable, none.reason) == (False, "its script lists no device")


@pytest.mark.parametrize(("text", "said"), TABLES["wrong"])
def test_a_script_that_is_wrong(script, text, said):
    """It is refused before any device is there; nothing takes the place of one that is missing."""
    with pytest.raises(SourceError) as error:
        script(text)
    assert said in str(error.value)
    with pytest.raises(SourceError):
        FakeBackend(Host({"GPUMAP_FAKE": "/nowhere/none"}, MACHINE))


def test_every_command_takes_what_the_script_says(script):
    backend = script(TABLES["exact"])
    session, clock = opened(backend), backend.clock()
    a = np.zeros((16, 16), "f4")  # 1 KiB: 2**-10 s
    buffer, out = session.empty(a.shape, "float32"), session.empty(a.shape, "float32")
    marks = [session.mark()]
    for command in (
        lambda: session.upload(a, buffer),
        lambda: session.download(buffer, a),
        lambda: session.copy(buffer, out),
        lambda: session.gemm(buffer, buffer, out),
        lambda: session.run("fill", out, 1.0, size=256),
    ):
        command()
        marks.append(session.mark())
    copy, product, fill = 0.5 + 2**-10, 2 * 16**3 / 65536, 2**-10
    spent = [copy, copy, copy, product, fill]
    times = [0.0, *(0.25 + end for end in accumulate(spent))]
    assert [session.at(mark) for mark in marks] == times
    assert [session.seconds(a, b) for a, b in pairwise(marks)] == [0.25 + copy, *spent[1:]]
    assert clock.now() == 1.25  # five launches; the device goes on
    session.synchronize()
    assert clock.now() == times[5]
    # a short command ends before the next is launched: then the device waits for the host
    session = opened(script('[[device]]\nref = "cuda0"\nlaunch = 1\nbandwidth = 1024'))
    for _ in range(3):
        session.upload(np.zeros(512, "u1"), session.empty((512,), "uint8"))
    assert session.at(session.mark()) == 3.5


def test_memory_goes_with_its_last_array(script):
    """What a view of it keeps, and no session."""
    session = opened(script('[[device]]\nref = "cuda0"'))
    whole = session.empty((8, 2), "float32")
    part, seen = whole[2:], weakref.ref(whole.native.base)
    del whole
    assert seen() is not None
    del part
    gc.collect()
    assert seen() is None


def test_more_than_a_device_has_is_refused(script):
    """What just fits is not."""
    session = opened(script('[[device]]\nref = "cuda0"\nmemory = 4096'))
    assert session.empty((4096,), "uint8").nbytes == 4096
    with pytest.raises(OutOfMemory):
        session.empty((4097,), "uint8")


@pytest.mark.parametrize("where", ["upload", "download"])
def test_a_fault_is_in_the_command_that_the_script_names(script, where):
    """And on its device: four that flip a byte would leave it as it was."""
    fault = f'fault = "flip"\nfault_in = "{where}"\n[[device]]\nref = "cuda1"'
    sessions = opened(script(f'[[device]]\nref = "cuda0"\n{fault}'), "cuda:0", "cuda:1")
    wrong = []
    for session in sessions:
        first, second, third = (session.empty((64,), "uint8") for _ in range(3))
        back = np.ones(64, "u1")
        session.upload(np.zeros(64, "u1"), first)
        session.copy(first, second)
        session.copy(second, third)
        session.download(third, back)
        wrong.append(np.count_nonzero(back))
    assert wrong == [1, 0]


def test_no_time_is_lost(script):
    """Jobs side by side take that of the longest; who waits for what is past is not taken back."""
    backend = script('[[device]]\nref = "cuda0"')
    clock = backend.clock()
    clock.run_concurrently([lambda: clock.sleep(2), lambda: clock.sleep(1)])
    opened(backend).synchronize()
    assert clock.now() == 2


def test_a_large_copy_has_a_line_of_its_own_and_a_double_product_its_own_rate(script):
    """From that size on; products of float32 keep theirs."""
    large = "bandwidth = 1024\nlarge_from = 1024\nlarge_latency = 4\nlarge_bandwidth = 512"
    session = opened(script(f'[[device]]\nref = "cuda0"\nrate = 1024\ndouble = 8\n{large}'))
    sizes, dtypes = (512, 1024), ("float32", "float64")
    calls = [(session.upload, np.zeros(n, "u1"), session.empty((n,), "uint8")) for n in sizes]
    calls += [(session.gemm, *(session.empty((8, 8), each) for _ in "abc")) for each in dtypes]
    assert taken(session, *calls) == [0.5, 6.0, 1.0, 8.0]


TWO = "".join(f'[[device]]\nref = "cuda{n}"\nbandwidth = 1024\n{{engine}}\n' for n in (0, 1))


def busy(session, seconds=1):
    buffer = session.empty((1024 * seconds,), "uint8")
    session.upload(np.zeros(1024 * seconds, "u1"), buffer)
    return buffer


@pytest.mark.parametrize(
    ("engine", "second", "seconds"),
    [("", "cuda:1", 1.0), ('engine = "bus"', "cuda:1", 2.0), ("", "cuda:0", 2.0)],
)
def test_devices_of_one_engine_never_work_at_the_same_time(script, engine, second, seconds):
    """Two copies of a second each: side by side, or one after the other, as on one device."""
    backend = script(TWO.format(engine=engine))
    sessions, clock = opened(backend, "cuda:0", second), backend.clock()
    for session in sessions:
        busy(session)
    for session in sessions:
        session.synchronize()
    assert clock.now() == seconds


def test_a_wait_holds_the_device_and_not_the_host(script):
    """What is queued after it starts when the mark is reached."""
    backend = script(TWO.format(engine=""))
    one, two = opened(backend, "cuda:0", "cuda:1")
    busy(one, 4)
    two.wait(one.mark())
    busy(two)
    assert backend.clock().now() == 0.0
    assert two.at(two.mark()) == 5.0
    # a copy holds both devices: it starts when the target is free
    one, two = opened(script(TWO.format(engine="")), "cuda:0", "cuda:1")
    assert one.copy(one.empty((1024,), "uint8"), busy(two)) == "peer"
    assert one.at(one.mark()) == two.at(two.mark()) == 2.0


def test_lost(script):
    session = opened(script('[[device]]\nref = "cuda0"\nfault = "lost"\nfault_after = 2'))
    buffer = session.empty((4,), "uint8")
    for _ in range(2):
        session.upload(np.zeros(4, "u1"), buffer)
    for _ in range(2):
        with pytest.raises(DeviceLost, match="cuda0 no longer answers"):
            session.upload(np.zeros(4, "u1"), buffer)


@pytest.mark.parametrize(("more", "seconds"), [
    ("throttle_after = 2\nthrottle = 1.5", [1.0, 1.0, 1.5, 1.5]),
    ("slow_first = 4", [5.0, 1.0, 5.0, 1.0]),
])  # fmt: skip
def test_a_throttle_stays_and_the_first_of_each_command_may_be_slow(script, more, seconds):
    """Two copies to the device and two back, each of a second."""
    session = opened(script(TWO.format(engine=more)))
    buffer, host = session.empty((1024,), "uint8"), np.zeros(1024, "u1")
    up, down = (session.upload, host, buffer), (session.download, buffer, host)
    assert taken(session, up, up, down, down) == seconds
