"""Scripted devices: exact times on their own clock, and faults on demand."""

from itertools import pairwise

import numpy as np
import pytest

from gpumap.backends.base import Host
from gpumap.backends.fake import FakeBackend, FakeClock
from gpumap.errors import DeviceLost, OutOfMemory, SourceError, Unsupported
from gpumap.machine import topology
from gpumap.model import DeviceRef, Kind

MACHINE = topology.read()
# Dyadic numbers: their sums are exact. 64 KiB take 1/16 s, a product of 16 is 2 * 16**3 / 2**16.
EXACT = """
[[device]]
ref = "cuda0"
launch = 0.25
latency = 0.5
bandwidth = 1048576
rate = 65536
"""


@pytest.fixture
def script(tmp_path):
    """Return a function that makes a backend of a script."""

    def make(text):
        path = tmp_path / "fake.toml"
        path.write_text(text)
        return FakeBackend(Host({"GPUMAP_FAKE": str(path)}, MACHINE))

    return make


def opened(backend, *names):
    """Open devices by their ids, or the first."""
    devices = {d.id: d for d in backend.probe().devices}
    names = names or tuple(devices)[:1]
    sessions = [backend.open(devices[name], backend.clock()) for name in names]
    return sessions[0] if len(sessions) == 1 else sessions


# --- the script


def test_without_a_script_there_are_two_of_each_kind():
    """So that every kind can be tried."""
    probe = FakeBackend(Host({}, MACHINE)).probe()

    assert [str(d.ref) for d in probe.devices] == [
        "cuda0", "cuda1", "opencl0:0", "opencl0:1", "cpu0", "cpu1",
    ]  # fmt: skip
    assert (probe.usable, probe.version) == (True, "1")


def test_a_script_says_all_about_a_device(script):
    """Every field, with the identity in the one spelling that a map's has."""
    (device,) = (
        script("""
        [[device]]
        ref = "opencl1:2.3"
        name = "A"
        pci = "00000000:0A:00.0"
        uuid = "GPU-12345678-9ABC-def0-1234-56789abcdef0"
        type = "other"
        memory = 1024
        silicon = ["x", "y"]
    """)
        .probe()
        .devices
    )

    assert device.ref == DeviceRef(Kind.OPENCL, 2, 1, 3)
    assert (device.id, device.name, device.backend) == ("opencl:1:2.3", "A", "fake")
    assert device.pci == "0000:0a:00.0"
    assert device.uuid == "GPU-12345678-9abc-def0-1234-56789abcdef0"
    assert (device.memory_total, device.memory_free) == (1024, 1024)
    assert (device.silicon, device.facts) == (frozenset("xy"), {"type": "other"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[device]]", "needs a ref"),
        ('[[device]]\nref = "cuda0"\nfault = "fire"', "fault is one of lost, memory, flip"),
        ('[[device]]\nref = "gpu0"', "is not a device"),
        ('[[device]]\nref = "cuda0"\nspeed = 1', 'unknown key "speed"'),
        ("devices = 1", 'unknown key "devices"'),
        ("device = 1", "device must be a list"),
        ("device = [1]", "device must be a list"),
        ("[[device]]\nref = 0", "cannot have ref = 0"),
        ('[[device]]\nref = "cuda0"\nrate = 0', "cannot have rate = 0"),
        ('[[device]]\nref = "cuda0"\nbandwidth = nan', "cannot have bandwidth = nan"),
        ('[[device]]\nref = "cuda0"\nlatency = -1', "cannot have latency = -1"),
        ('[[device]]\nref = "cuda0"\nlaunch = inf', "cannot have launch = inf"),
        ('[[device]]\nref = "cuda0"\nmemory = true', "cannot have memory = True"),
        ('[[device]]\nref = "cuda0"\nsilicon = "x"', "cannot have silicon = 'x'"),
        ('[[device]]\nref = "cuda0"\nfeatures = [1]', "cannot have features = [1]"),
        ('[[device]]\nref = "cuda0"\nname = 1', "cannot have name = 1"),
        ('[[device]]\nref = "cuda0"\n[[device]]\nref = "cuda0"', "cuda:0 stands there twice"),
        ("[[device", "cannot read the configuration"),
    ],
)
def test_a_script_that_is_wrong(script, text, said):
    """It is refused before any device is there."""
    with pytest.raises(SourceError) as error:
        script(text)

    assert said in str(error.value)


def test_a_script_that_is_missing(tmp_path):
    """Nothing takes its place."""
    with pytest.raises(SourceError):
        FakeBackend(Host({"GPUMAP_FAKE": str(tmp_path / "none")}, MACHINE))


def test_a_script_without_devices(script):
    """Then it cannot be used, and says why."""
    probe = script("").probe()

    assert (probe.usable, probe.reason) == (False, "its script lists no device")


# --- time


def test_the_clock_stands_still():
    """Only what is scripted takes time."""
    clock = FakeClock()
    clock.sleep(0.5)
    clock.reach(0.25)

    assert (clock.now(), clock.now()) == (0.5, 0.5)
    clock.reach(2.0)
    assert clock.now() == 2.0


def test_every_command_takes_what_the_script_says(script):
    """Launch on the host's side, the rest on the device's; exactly."""
    backend = script(EXACT)
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

    times = [session.at(mark) for mark in marks]
    copy, product, fill = 0.5 + 2**-10, 2 * 16**3 / 65536, 2**-10
    assert times[:4] == [0.0, 0.25 + copy, 0.25 + 2 * copy, 0.25 + 3 * copy]
    assert times[4] == times[3] + product
    assert times[5] == times[4] + fill
    assert [session.seconds(a, b) for a, b in pairwise(marks)] == [
        b - a for a, b in pairwise(times)
    ]
    assert clock.now() == 1.25  # five launches; the device goes on
    session.synchronize()
    assert clock.now() == times[5]


def test_a_device_that_waits_for_the_host(script):
    """A short command ends before the next is launched."""
    backend = script('[[device]]\nref = "cuda0"\nlaunch = 1\nbandwidth = 1024')
    session = opened(backend)
    buffer = session.empty((512,), "uint8")
    for _ in range(3):
        session.upload(np.zeros(512, "u1"), buffer)

    assert session.at(session.mark()) == 3.5


TWO = """
[[device]]
ref = "cuda0"
bandwidth = 1024
{engine}
[[device]]
ref = "cuda1"
bandwidth = 1024
{engine}
"""


@pytest.mark.parametrize(("engine", "seconds"), [("", 1.0), ('engine = "bus"', 2.0)])
def test_devices_of_one_engine_never_work_at_the_same_time(script, engine, seconds):
    """Two copies of a second each: side by side, or one after the other."""
    backend = script(TWO.format(engine=engine))
    sessions, clock = opened(backend, "cuda:0", "cuda:1"), backend.clock()
    for session in sessions:
        session.upload(np.zeros(1024, "u1"), session.empty((1024,), "uint8"))
    for session in sessions:
        session.synchronize()

    assert clock.now() == seconds


def test_the_same_device_opened_twice_has_one_engine(script):
    """Two sessions of it share it."""
    backend = script(TWO.format(engine=""))
    one, two = opened(backend, "cuda:0", "cuda:0")
    for session in (one, two):
        session.upload(np.zeros(1024, "u1"), session.empty((1024,), "uint8"))
    two.synchronize()

    assert backend.clock().now() == 2.0


def test_together_is_as_long_as_the_longest():
    """Each job starts at the same moment, in a thread of its own on paper."""
    clock, starts = FakeClock(), []
    clock.sleep(1.0)

    def job(seconds):
        starts.append(clock.now())
        clock.sleep(seconds)

    clock.together([lambda: job(0.5), lambda: job(2.0), lambda: job(0.25)])

    assert (starts, clock.now()) == ([1.0, 1.0, 1.0], 3.0)
    clock.together([])
    assert clock.now() == 3.0


def test_a_wait_holds_the_device_and_not_the_host(script):
    """What is queued after it starts when the mark is reached."""
    backend = script(TWO.format(engine=""))
    one, two = opened(backend, "cuda:0", "cuda:1")
    one.upload(np.zeros(4096, "u1"), one.empty((4096,), "uint8"))
    two.wait(one.mark())
    two.upload(np.zeros(1024, "u1"), two.empty((1024,), "uint8"))

    assert backend.clock().now() == 0.0
    assert two.at(two.mark()) == 5.0


def test_a_copy_to_another_device_holds_both(script):
    """It starts when the target is free, and what the target does next comes after it."""
    backend = script(TWO.format(engine=""))
    one, two = opened(backend, "cuda:0", "cuda:1")
    source, target = one.empty((1024,), "uint8"), two.empty((1024,), "uint8")
    two.upload(np.zeros(1024, "u1"), target)

    assert one.copy(source, target) == "peer"
    assert one.at(one.mark()) == two.at(two.mark()) == 2.0


def test_without_events_there_is_no_device_clock(script):
    """The host's moment of a mark is known all the same."""
    session = opened(script('[[device]]\nref = "cpu0"\nfeatures = []'))

    assert session.seconds(session.mark(), session.mark()) is None
    assert session.at(session.mark()) == 0.0
    with pytest.raises(Unsupported):
        session.host((1,), "uint8", "pinned")


# --- faults


def faulty(script, fault, after=0, more=""):
    """Open a device with a fault."""
    return opened(
        script(f'[[device]]\nref = "cuda0"\nfault = "{fault}"\nfault_after = {after}\n{more}')
    )


def test_lost(script):
    """After so many commands that went well, every other one fails."""
    session = faulty(script, "lost", 2)
    buffer = session.empty((4,), "uint8")
    for _ in range(2):
        session.upload(np.zeros(4, "u1"), buffer)

    for _ in range(2):
        with pytest.raises(DeviceLost, match="cuda0 no longer answers"):
            session.upload(np.zeros(4, "u1"), buffer)


def test_memory(script):
    """There is no room for anything."""
    with pytest.raises(OutOfMemory, match="cuda0 has no room for 4 bytes"):
        faulty(script, "memory").empty((4,), "uint8")


def test_memory_ends_where_the_script_says(script):
    """One byte more is too many."""
    session = opened(script('[[device]]\nref = "cuda0"\nmemory = 1024'))

    assert session.empty((256,), "float32").nbytes == 1024
    with pytest.raises(OutOfMemory):
        session.empty((1025,), "uint8")


def test_flip(script):
    """One high bit of what comes back is wrong, from the command on that is due."""
    session = faulty(script, "flip", 2)
    buffer, back = session.empty((64,), "float32"), np.full(64, np.nan, "f4")
    session.upload(np.ones(64, "f4"), buffer)
    session.download(buffer, back)
    assert (back == 1).all()

    session.download(buffer, back)

    off = back.view("u1") ^ np.ones(64, "f4").view("u1")
    assert sorted(off)[-2:] == [0, 0x40]
    assert (abs(back - 1) > 0.5).sum() == 1


def test_wrong_product(script):
    """One element is off by a thousand; copies are right."""
    session = faulty(script, "wrong-product")
    matrix, out = session.empty((4, 4), "float32"), session.empty((4, 4), "float32")
    session.upload(np.eye(4, dtype="f4"), matrix)
    session.gemm(matrix, matrix, out)
    back = np.full((4, 4), np.nan, "f4")
    session.download(out, back)

    expected = np.eye(4)
    expected[0, 0] = 1001
    assert (back == expected).all()
