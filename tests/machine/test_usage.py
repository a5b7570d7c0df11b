"""What processes take of cores and GPUs, by trees of the kernel's files and by NVML's answers.

`amd` is a recording: github.com/Umio-Yasuno/amdgpu_top/issues/87. `xe` is the kernel's own example:
docs.kernel.org/gpu/xe/xe-drm-usage-stats.html. The i915 file and all of sysfs and /proc/PID/stat
are no recordings: they follow docs.kernel.org/gpu/drm-usage-stats.html, the ABI files and proc(5).
"""

from types import SimpleNamespace

import pytest
from nvml_library import Library
from tables import table
from trees import Sketch

from gpumap.launch import device_usage as usage
from gpumap.launch.watching import Watch, units_of
from gpumap.model import Binding, Device, DeviceRef, Kind

TABLE = table(__file__)
AMD, XE = TABLE["amd"], TABLE["xe"]
SECOND = 1_000_000_000


def tree(
    folder, pid=100, ticks=0, processor=0, drm=(), threads=(), children="", state="S", waited=0,
    gone=0,
):  # fmt: skip
    """Write a process as proc(5) has it; its name has what names may have.

    `waited` are ticks of its children, `gone` those of its threads that have ended.
    """
    proc, sketch = folder / "proc" / str(pid), Sketch(folder)

    def stat(thread, spent, core):
        fields = [state, *[0] * 10, spent, 0, waited, 0, 20, 0, 1 + len(threads), 0, 555, 0, 3]
        fields += [0] * (36 - len(fields)) + [core, 0]
        return f"{thread} (a ) b (c) " + " ".join(map(str, fields))

    for thread, spent, core in ((pid, ticks, processor), *threads):
        task = f"proc/{pid}/task/{thread}"
        sketch.file(f"{task}/stat", stat(thread, spent, core))
        sketch.file(f"{task}/children", children if thread == pid else "")
    total = ticks + gone + sum(spent for _, spent, _ in threads)
    sketch.file(f"proc/{pid}/stat", stat(pid, total, processor))
    for name in ("fd", "fdinfo"):
        (proc / name).mkdir(exist_ok=True)
    for number, (node, text) in enumerate(drm):
        link = proc / "fd" / str(number)
        link.unlink(missing_ok=True)
        link.symlink_to(node)
        (proc / "fdinfo" / str(number)).write_text(text)


def card(folder, pci, **files):
    """Write a card of DRM's."""
    (folder / "sys/bus/pci/devices" / pci / "drm/card0").mkdir(parents=True, exist_ok=True)
    Sketch(folder).pci(pci, **files)


def cpu(index):
    return Binding(f"dev{index}", Device(f"cpu:{index}", Kind.CPU, DeviceRef(Kind.CPU, index), "",
                   "numpy", cores=(index,)))  # fmt: skip


def gpu(pci, kind=Kind.OPENCL, **more):
    return Binding("gpu", Device(f"{kind}:{pci}", kind, DeviceRef(kind, 0), "", "x", pci, **more))


class Seen:
    """A watch of a tree whose files the test writes between two looks, a second apart."""

    def __init__(self, root, bindings, library=None, interval=()):
        self.root, self.bindings, self.now = root, bindings, 0.0
        more = {"root": str(root), "clock": lambda: self.now, "library": library}
        self.watch = Watch(bindings, *interval, **more)
        self.watch.add(100, None)

    def look(self, **process):
        tree(self.root, **process)
        self.now += 1.0
        self.watch.look()

    def uses(self):
        self.watch.end()
        return {use.name: use for use in self.watch.uses()}


def ended(seen, seconds, *, lived=0.05, **process):
    """Let the process end after its last look, and be waited for."""
    tree(seen.root, state="Z", **process)
    seen.now += lived
    seen.watch.last(100)
    seen.watch.reaped(100, seconds)
    return {name: (use.verdict, use.why) for name, use in seen.uses().items()}


@pytest.mark.parametrize("text", TABLE["broken"])
def test_a_broken_file_is_no_client(tmp_path, text):
    tree(tmp_path, drm=[("/dev/dri/card0", text)])
    assert usage.drm_use(str(tmp_path), 100).clients == {}


def test_processors_count_what_is_neither_idle_nor_stolen(tmp_path):
    (tmp_path / "proc").mkdir()
    lines = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 4 1000 1000 8 16 1000 0 0\nintr 5\n"
    (tmp_path / "proc/stat").write_text(lines)
    assert usage.processors(str(tmp_path)) == {0: 31}


def test_ticks_of_a_thread_are_of_the_core_it_ran_on(tmp_path):
    seen = Seen(tmp_path, [cpu(0), cpu(1)])
    seen.look(ticks=0)
    seen.look(ticks=0, threads=[(101, 80, 1)])
    seen.look(ticks=0, threads=[(101, 160, 1)])
    found = seen.uses()
    assert (found["dev0"].verdict, found["dev0"].busy) == ("not-used", 0.0)
    one = found["dev1"]
    assert (one.verdict, one.idle) == ("used", 1.0)
    assert one.busy == pytest.approx(160 / usage.TICKS / 3, abs=1e-3)


@pytest.mark.parametrize(("ticks", "verdict"), [(20, "not-used"), (30, "used")])
def test_to_start_an_interpreter_is_no_use_of_a_core(tmp_path, ticks, verdict):
    """A quarter of a second is; of a run of some seconds."""
    seen = Seen(tmp_path, [cpu(0)])
    for spent in (0, ticks, ticks):
        seen.look(ticks=spent)
    assert seen.uses()["dev0"].verdict == verdict


def test_the_work_of_a_child_from_before_it_was_found_counts(tmp_path):
    seen = Seen(tmp_path, [cpu(0), cpu(1)])
    for _ in range(4):
        seen.look()
    tree(tmp_path, pid=200, ticks=300, processor=1)
    seen.look(children="200")
    found = seen.uses()
    assert (found["dev0"].verdict, found["dev1"].verdict) == ("not-used", "used")
    assert found["dev1"].busy == pytest.approx(3.0 / 5, abs=1e-4)


@pytest.mark.parametrize(("options", "moments"), TABLE["moments"])
def test_looks_come_early_and_then_at_the_interval(tmp_path, monkeypatch, options, moments):
    """So there is never more than half of a short program after the last look."""
    monkeypatch.setattr("gpumap.launch.watching.time.thread_time", lambda: 0.0)
    tree(tmp_path)
    seen = Seen(tmp_path, [cpu(0)], interval=options)
    seen.watch.glance()  # before it is due
    found = []
    while seen.watch.due <= moments[-1] + 0.01:
        seen.now = seen.watch.due
        seen.watch.glance()
        found.append(round(seen.now, 3))
    assert (found, seen.watch.looks) == (moments, len(moments))


def processors(folder, *seconds, idle=5):
    ticks = (round(each * usage.TICKS) for each in seconds)
    lines = [f"cpu{core} {spent} 0 0 {idle} 0 0 0 0" for core, spent in enumerate(ticks)]
    (folder / "proc" / "stat").write_text("\n".join(lines))


def counted(folder, *seconds, cores=2):
    """Return a watch of some cores, all of which have worked so long before."""
    seen = Seen(folder, [cpu(core) for core in range(cores)])
    tree(folder)
    processors(folder, *seconds)
    seen.watch.begin()
    return seen


@pytest.mark.parametrize(("second", "verdict"), TABLE["moved"])
def test_a_thread_that_may_have_moved_may_have_used_the_other_core(tmp_path, second, verdict):
    """As far as that core was busy at all: one that was idle was not used."""
    seen = counted(tmp_path, 10, 10)
    seen.watch.allowed = lambda _: {0, 1}
    seen.look(ticks=100)
    processors(tmp_path, 11, 10 + second)
    assert ended(seen, 1.0, ticks=100)["dev1"] == tuple(verdict)


@pytest.mark.parametrize(("busy", "second"), [((13, 10), "not-used"), ((10, 10), "unknown")])
def test_what_no_look_saw_was_on_no_core_that_was_idle(tmp_path, busy, second):
    """Three seconds of children that it has waited for; zeros of a container tell nothing."""
    seen = counted(tmp_path, 10, 10)
    for _ in range(4):
        seen.look(ticks=0)
    processors(tmp_path, *busy)
    seen.watch.last(100)
    seen.watch.reaped(100, 3.0)
    found = seen.uses()
    assert (found["dev0"].verdict, found["dev1"].verdict) == ("unknown", second)


def test_a_short_program_is_looked_at_when_it_has_ended(tmp_path):
    """No look came before: what it took, and where it last ran, is there until it is waited for."""
    seen = Seen(tmp_path, [cpu(0), cpu(1)])
    found = ended(seen, 0.238, lived=0.3, ticks=23, processor=1)
    assert found == {"dev0": ("not-used", None), "dev1": ("used", None)}
    assert seen.watch.looks == 1


@pytest.mark.parametrize("hidden", [{"waited": 300}, {"gone": 300}])
def test_work_of_children_and_threads_that_no_look_saw_is_of_no_known_core(tmp_path, hidden):
    seen = Seen(tmp_path, [cpu(0), cpu(1)])
    seen.look(ticks=100)
    found = ended(seen, 4.0, ticks=100, **hidden)
    assert found == {"dev0": ("used", None), "dev1": ("unknown", "short-lived")}


def test_the_rest_of_an_orphan_is_of_no_known_core(tmp_path):
    """It did more after the last look, and what it waited for is its own."""
    seen = Seen(tmp_path, [cpu(0), cpu(1)])
    tree(tmp_path, pid=200, ticks=100)
    seen.look(children="200")
    seen.watch.reaped(200, 3.0)
    assert ended(seen, 0.0)["dev1"] == ("unknown", "short-lived")


@pytest.mark.parametrize(("waited", "seen_alive", "lived", "verdict"), TABLE["unseen"])
def test_a_gpu_is_not_unused_where_a_process_may_have_opened_it_unseen(
    tmp_path, waited, seen_alive, lived, verdict
):
    card(tmp_path, "0000:08:00.0")
    seen = Seen(tmp_path, [gpu("0000:08:00.0")])
    tree(tmp_path, pid=200, ticks=seen_alive)
    seen.look(ticks=9, children="200" if seen_alive else "")
    found = ended(seen, 0.1 + waited / 100, lived=lived, ticks=10, waited=waited)
    assert found["gpu"] == tuple(verdict)


@pytest.mark.parametrize(("cost", "pause"), [(1e-4, 1.0), (3e-3, 3.0)])
def test_looks_that_cost_more_take_place_less_often(tmp_path, monkeypatch, cost, pause):
    """At most 0.1 % of a core."""
    spent = iter(n * cost for n in range(1000))
    monkeypatch.setattr("gpumap.launch.watching.time.thread_time", lambda: next(spent))
    seen = Seen(tmp_path, [cpu(0)])
    for _ in range(8):
        seen.look()
    assert seen.watch.due - seen.now == pytest.approx(pause, rel=0.01)


def fdinfo(text, key, value):
    head, _, tail = text.partition(f"{key}:")
    return f"{head}{key}: {value}{tail[tail.index(chr(10)) :]}"


@pytest.mark.parametrize(("driver", "pci", "looks", "busy", "idle"), TABLE["engines"])
def test_busy_is_what_engine_times_or_cycles_grew_by(tmp_path, driver, pci, looks, busy, idle):
    """A client that is open twice counts once; the longest time without work may be the last."""
    card(tmp_path, pci)
    seen = Seen(tmp_path, [gpu(pci)])
    for values in looks:
        written = TABLE[driver]
        for key, value in values.items():
            written = fdinfo(written, key, value)
        seen.look(drm=[("/dev/dri/renderD128", written)] * 2)
    use = seen.uses()["gpu"]
    assert (use.busy, use.idle) == (pytest.approx(busy, abs=5e-3), idle)


IDLE = ("/dev/dri/renderD128", fdinfo(AMD, "drm-engine-gfx", "0 ns"))


@pytest.mark.parametrize(("drm", "looks", "verdict"), [
    ([], 1, ("not-used", None)), ([IDLE], 1, ("unknown", "opened-idle")),
    ([("/dev/kfd", "")], 6, ("unknown", "compute-driver")),
    ([("/dev/dri/renderD129", XE)], 1, ("not-used", None)),
])  # fmt: skip
def test_not_used_is_said_where_work_would_have_shown(tmp_path, drm, looks, verdict):
    card(tmp_path, "0000:08:00.0")
    seen = Seen(tmp_path, [gpu("0000:08:00.0")])
    for _ in range(looks):
        seen.look(drm=drm)
    use = seen.uses()["gpu"]
    assert (use.verdict, use.why) == verdict


def test_the_time_of_threads_is_no_gpus(tmp_path):
    """Not of one that they are near; of OpenCL in host memory no look can tell its threads."""
    seen = Seen(tmp_path, [gpu("0000:08:00.0", cores=(0,)), cpu(0), gpu(None, cores=(0, 1))])
    seen.watch.add(100, "gpu")
    seen.look(ticks=90)
    near, core, inside = (seen.watch.end(), *seen.watch.uses())[1:]
    assert (near.busy or 0.0, core.busy) == (0.0, 0.9)
    assert (inside.verdict, inside.why, inside.busy) == ("unknown", "host-threads", None)


class Answer(SimpleNamespace):
    """An answer of NVML's, with every field that anyone looks at."""

    pid = smUtil = used = gpu = 0  # noqa: N815
    usedGpuMemory = None  # noqa: N815


def structure(answer):
    return list(map(structure, answer)) if isinstance(answer, list) else Answer(**answer)


def nvml(answers=None):
    """Return a library with these answers, beside those of a device that no one uses."""
    known = {"DeviceGetHandleByPciBusId": "h", "DeviceGetMemoryInfo": Answer(used=1 << 30)}
    known["DeviceGetComputeRunningProcesses_v3"] = []
    known["DeviceGetUtilizationRates"] = Answer()
    return Library(known | {key: structure(answer) for key, answer in (answers or {}).items()})


@pytest.mark.parametrize(("library", "verdict", "why", "busy"), [
    *((nvml(answers), *expected) for answers, *expected in TABLE["nvml"]),
    (Library({}), "unknown", "no-driver", None),
])  # fmt: skip
def test_nvml_tells_by_process(tmp_path, library, verdict, why, busy):
    seen = Seen(tmp_path, [gpu("0000:09:00.0", Kind.CUDA)], library)
    seen.look()
    use = seen.uses()["gpu"]
    assert (use.verdict, use.why, use.busy) == (verdict, why, busy)


def test_memory_that_grows_without_a_process_is_of_hidden_processes(tmp_path):
    """In a container NVML lists no process: then nothing is reported of the device."""
    library = nvml()
    seen = Seen(tmp_path, [gpu("0000:09:00.0", Kind.CUDA)], library)
    seen.look()
    library.answers["DeviceGetMemoryInfo"] = Answer(used=2 << 30)
    seen.look()
    use = seen.uses()["gpu"]
    assert (use.verdict, use.why) == ("unknown", "hidden-processes")


def test_a_timed_run_is_of_cores_by_its_cpu_time(tmp_path):
    """`start`: from then on more than one core worked; `foreign`: what others worked there."""
    seen = counted(tmp_path, 10, 10, 10)
    seen.look(ticks=100)
    seen.look(ticks=200)
    seen.look(ticks=300, threads=[(101, 90, 1)])
    processors(tmp_path, 13, 11.45, 99)
    seen.watch.last(100)
    seen.watch.reaped(100, 3.95)
    processors(tmp_path, 99, 99, 99)  # after the program's end
    seen.watch.end()
    found = seen.watch.timed(4)
    assert (found.turn, found.elapsed, found.busy, found.start) == (4, 3.0, 3.95, 2.0)
    assert found.foreign == pytest.approx(4.45 - 3.95)
    assert units_of(seen.bindings) == 2


def test_a_program_and_others_have_at_most_all_of_the_cores_time(tmp_path):
    """Ticks of the kernel's are counted later than the time of a process that has ended."""
    seen = counted(tmp_path, 10, cores=1)
    seen.look(ticks=0)
    seen.look(ticks=40)
    processors(tmp_path, 19)
    seen.watch.reaped(100, 0.4)
    seen.watch.end()
    found = seen.watch.timed(0)
    assert found.busy + found.foreign == pytest.approx(found.elapsed)


@pytest.mark.parametrize(("pci", "busy"), [("0000:08:00.0", 1.0), ("0000:99:00.0", None)])
def test_a_timed_run_is_of_devices_by_how_busy_they_were(tmp_path, pci, busy):
    """Of a device that cannot be read it is unknown, and so is what others did there."""
    card(tmp_path, "0000:08:00.0", vendor="0x1002")
    seen = Seen(tmp_path, [gpu(pci)])
    for spent in (0, SECOND // 2, SECOND):
        drm = AMD.replace("107322799", str(spent))
        seen.look(drm=[("/dev/dri/renderD128", drm)])
    seen.watch.end()
    found = seen.watch.timed(0)
    assert found.busy == (None if busy is None else pytest.approx(busy, rel=0.01))
    assert (found.foreign, found.start, units_of(seen.bindings)) == (None, 0.0, 1)
