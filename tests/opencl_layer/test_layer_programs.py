"""Unmodified programs on real drivers: what is counted is what they know of themselves."""

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest
from layered import DRIVERS, EVERY, KHRONOS

from gpumap.opencl_layer.layer import read

PYTHON = """
import json, sys
import numpy as np
import pyopencl as cl

parts = cl.get_platforms()[0].get_devices()[0]
if "parts" in sys.argv:
    equally = [cl.device_partition_property.EQUALLY, 1]
    devices = parts.create_sub_devices(equally)[:2]
else:
    devices = [parts]
context = cl.Context(devices)
queues = [cl.CommandQueue(context, device) for device in devices]
text = "__kernel void f(__global float *x) { x[get_global_id(0)] += 1; }"
kernel = cl.Kernel(cl.Program(context, text).build(), "f")
data = np.zeros(5000, np.float32)
buffer = cl.Buffer(context, 0, data.nbytes)
done = dict(kernels=0, write_bytes=0, read_bytes=0)
for _ in range(7):
    cl.enqueue_copy(queues[0], buffer, data)
    done["write_bytes"] += data.nbytes
    for _ in range(3):
        kernel(queues[0], data.shape, None, buffer)
        done["kernels"] += 1
    cl.enqueue_copy(queues[0], data, buffer)
    done["read_bytes"] += data.nbytes
assert (data == 21).all()
print(json.dumps(done))
"""


def told(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def counted(process):
    """Return the counts of the only device of a process that was counted in full."""
    assert process.complete
    (device,) = process.devices
    return device.counts._asdict()


def same(process, own):
    return {name: counted(process)[name] for name in own} == own


@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("driver", EVERY)
def test_every_call_of_a_c_program_is_counted(counting, program, driver, times):
    done, (process,) = counting.run([program], driver, times=times)
    (own,) = told(done)
    assert same(process, own)
    counts = counted(process)
    commands = ("kernels", "writes", "reads", "maps", "unmaps", "copies", "fills", "unknowns")
    queued = sum(counts[name] for name in commands) - 1  # a buffer in host memory is no command
    assert counts["timed"] + counts["untimed"] == (queued if times else 0)
    assert (counts["kernel_ns"] > 0) is times
    assert 0 < process.opened_ns < counts["first_ns"] + 10**7
    assert counts["first_ns"] <= counts["last_ns"]
    assert (process.times, Path(process.program)) == (times, program)


@pytest.mark.skipif(not KHRONOS.exists(), reason="no Khronos loader: intel-opencl-rt brings it")
def test_khronos_own_loader_loads_the_layer(counting, program):
    """It asks for more functions of a layer than ocl-icd does."""
    env = {"LD_LIBRARY_PATH": str(KHRONOS.parent), "OCL_ICD_VENDORS": "/nowhere"}
    done, (process,) = counting.run([program], OCL_ICD_FILENAMES=DRIVERS["intel"], **env)
    assert same(process, told(done)[0])


def test_a_fork_has_counts_of_its_own(counting, program):
    """PoCL's threads are gone in a fork; its device without threads works there."""
    done, processes = counting.run([program, "fork"], "system", POCL_DEVICES="basic")
    child, parent = told(done)  # the child prints first
    assert [same(process, parent) for process in processes] == [True, False]
    assert counted(processes[1])["kernels"] == child["kernels"] == 2
    assert processes[1].parent == processes[0].pid


def test_a_fork_that_can_open_no_file_leaves_its_parent_incomplete(counting, program):
    counting.run([program, "lost"], "system", POCL_DEVICES="basic", whole=False)
    reading = read(counting.folder)
    assert [process.complete for process in reading.processes] == [False]
    assert len(reading.refused) == 1


def test_a_program_that_may_write_no_large_file_is_not_ended_by_the_layer(counting, program):
    """A file beyond the limit would be a SIGXFSZ: it stays empty, and is no count."""
    command = ["sh", "-c", 'ulimit -f 16; exec "$0" look', program]
    done, _ = counting.run(command, "system", whole=False)
    reading = read(counting.folder)
    assert (done.returncode, reading.processes, len(reading.refused)) == (1, (), 1)  # its own code


def test_a_program_that_becomes_another_is_counted_as_two(counting, program):
    done, processes = counting.run([program, "exec"], "system")
    assert [same(*pair) for pair in zip(processes, told(done), strict=True)] == [True, True]
    assert processes[0].pid == processes[1].pid


ENDS = {"crash": -signal.SIGSEGV, "kill": -signal.SIGKILL, "leave": 7}


@pytest.mark.parametrize("end", ENDS)
def test_what_was_counted_is_whole_however_it_ends(counting, program, end):
    done, (process,) = counting.run([program, end], "system")
    if end != "crash":  # PoCL ends a crash in its own way
        assert done.returncode == ENDS[end]
    assert same(process, json.loads(done.stdout.splitlines()[0]))


@pytest.mark.parametrize("driver", EVERY)
def test_an_unmodified_python_program(counting, driver):
    pytest.importorskip("pyopencl")
    done, (process,) = counting.run([sys.executable, "-c", PYTHON], driver)
    assert same(process, told(done)[0])
    (device,) = process.devices
    assert (device.platform, device.device, device.part, device.kind) == (0, 0, None, "cpu")


def test_one_of_two_named_parts_is_not_used(counting):
    pytest.importorskip("pyopencl")
    done, (process,) = counting.run([sys.executable, "-c", PYTHON, "parts"], "system")
    (own,) = told(done)
    used, unused = process.devices
    assert [(d.device, d.part, d.units) for d in (used, unused)] == [(0, 0, 1), (0, 1, 1)]
    assert [d.counts.contexts for d in (used, unused)] == [1, 1]
    assert used.counts.kernels == own["kernels"]
    assert (unused.counts.queues, unused.counts.kernels, unused.counts.last_ns) == (1, 0, 0)


@pytest.mark.parametrize("driver", EVERY)
def test_a_program_that_only_looks_has_used_nothing(counting, program, driver):
    """Its loader has loaded the layer, so that this is certain."""
    _, (process,) = counting.run([program, "look"], driver)
    assert process.complete
    assert process.devices == ()


def test_the_users_own_layer_stays(counting, program, tmp_path):
    """A copy of ours stands in for it: both count. Ours is first, as ocl-icd cuts off the rest."""
    library = counting.env()["OPENCL_LAYERS"]
    other = shutil.copy(library, tmp_path / "other.so")
    counting.base["OPENCL_LAYERS"] = f"{other}:{library}"
    assert counting.env()["OPENCL_LAYERS"] == f"{library}:{other}"
    done, processes = counting.run([program], "system")
    assert [same(process, told(done)[0]) for process in processes] == [True, True]
    assert len({process.pid for process in processes}) == 1
