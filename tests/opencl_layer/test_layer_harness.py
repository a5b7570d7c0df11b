"""The layer against a loader and driver of ours: what no driver here does, and sanitizers."""

import re
import subprocess

import pytest
from layered import HERE, LAYER, Counting, compiled, layer

SANITIZERS = {
    "none": (),
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}
TIMED = ("good", "refuse", "failed", "no callback")


@pytest.fixture(scope="module", params=SANITIZERS)
def harness(request, tmp_path_factory):
    """Return the program and the layer, both built strictly and with a sanitizer."""
    flags = SANITIZERS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    return compiled(folder, HERE / "harness.c", "-ldl", "-pthread", *flags), layer(folder, *flags)


@pytest.fixture
def ran(harness, tmp_path, cache):
    def run(mode, **more):
        counting = Counting(tmp_path, cache)
        times = mode in TIMED
        done, processes = counting.run([*harness, mode], times=times, **more)
        assert (done.returncode, done.stderr) == (0, "")
        return processes

    return run


def test_more_devices_than_a_file_has_room_for(ran):
    """What has no place is counted as of no known device, so that zero is never "not used"."""
    (process,) = ran("devices")
    assert [d.counts.kernels for d in process.devices] == [1] * 64
    assert process.unplaced.kernels == 16
    assert not process.complete


def test_pci_addresses_by_three_ways(ran):
    (process,) = ran("devices")
    pci = [device.pci for device in process.devices[:4]]
    assert pci == ["0003:17:05.2", "0000:c3:04.1", "0001:81:1f.7", None]
    assert process.devices[0].name == "\x1b" + "n" * 94  # cut, and escaped where it is shown


def test_threads_lose_no_count_and_a_fork_begins_anew(ran):
    processes = ran("threads")
    parent, child = sorted(processes, key=lambda process: process.opened_ns)
    assert sum(d.counts.kernels for d in parent.devices) == 8 * 2000
    assert sum(d.counts.finishes for d in parent.devices) == 8 * 2000
    assert sum(d.counts.kernels for d in child.devices) == 1
    assert child.parent == parent.pid


def test_several_loaders_in_one_process(ran):
    """Four can be counted; a fifth is named, and makes the counts incomplete."""
    (process,) = ran("loaders")
    assert [d.counts.kernels for d in process.devices] == [1]
    assert (process.loaders, process.complete) == (1, False)


def test_a_handle_that_comes_again_is_asked_for_its_device(ran):
    (process,) = ran("recycled")
    assert [d.counts.kernels for d in process.devices] == [1, 1]


def test_what_cannot_be_known_is_counted_as_unknown(ran):
    """An image of unknown size, a buffer of two devices, functions that the driver hands out."""
    (process,) = ran("unknown")
    (device,) = process.devices
    assert (device.counts.reads, device.counts.read_bytes, device.counts.unknowns) == (1, 0, 1)
    assert (process.unplaced.inits, process.unplaced.init_bytes) == (1, 640)
    assert process.unplaced.kernels == 1
    assert (process.functions, process.function) == (2, "clEnqueueMemcpyINTEL")
    assert not process.complete


@pytest.mark.parametrize(("mode", "times"), [
    ("good", (2, 0, 100)), ("refuse", (0, 2, 0)), ("failed", (0, 2, 0)), ("no callback", (0, 2, 0)),
])  # fmt: skip
def test_a_driver_that_gives_no_times_breaks_no_program(ran, mode, times):
    (process,) = ran(mode)
    (device,) = process.devices
    assert (device.counts.timed, device.counts.untimed, device.counts.kernel_ns) == times
    assert device.counts.kernels == 2


@pytest.mark.parametrize("folder", ["", "relative", "/nowhere/at/all"])
def test_without_a_folder_the_layer_stays_out(harness, folder, tmp_path):
    """The loader then works as if there were none."""
    env = {"GPUMAP_LAYER_FOLDER": folder}
    command = [*harness, "no folder"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_layer_out(harness, tmp_path):
    """Room is taken at once: a write into a hole would be a SIGBUS of the user's program.

    The file stays empty, which says that the process is not counted.
    """
    script = 'mount -t tmpfs -o size=16k tmpfs "$0" && GPUMAP_LAYER_FOLDER="$0" "$@"; ls "$0"'
    tried = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("no mount of one's own: unshare -Urm fails")
    command = ["unshare", "-Urm", "sh", "-c", script, str(tmp_path), *harness, "no folder"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\d+-0\.opencl\n", done.stdout)


def test_every_place_is_that_of_khronos_header(tmp_path):
    """A wrong one would call another function: all are compared, also those not tried here."""
    places = re.findall(r"X\((cl\w+), (\d+)\)", LAYER.read_text())
    lines = [f'_Static_assert(offsetof(cl_icd_dispatch, {name}) == {number} * sizeof(void *), "");'
             for name, number in places]  # fmt: skip
    start = [
        "#define CL_TARGET_OPENCL_VERSION 300",
        "#include <CL/cl_icd.h>",
        "#include <stddef.h>",
    ]
    source = tmp_path / "places.c"
    source.write_text("\n".join([*start, *lines, "int main(void) { return 0; }\n"]))
    compiled(tmp_path, source)
    assert len(places) == len(dict(places)) > 50
