"""Too much memory is a wrong question, told before anything is taken."""

from dataclasses import dataclass

import pytest

from gpumap.bench.memory import check_memory
from gpumap.errors import QuestionError
from gpumap.model import Binding, Device, DeviceRef, Kind, Plan

GIB = 1 << 30
FIX = ("too-much-memory", "choose a smaller size")


@dataclass(frozen=True)
class Machine:
    """As much of a topology as is asked."""

    memory_available: int


def cuda(number=0, *, free=10 * GIB, **others):
    """Return a device with some memory."""
    ref = DeviceRef(Kind.CUDA, number)
    return Device(f"cuda:{number}", Kind.CUDA, ref, "GPU", "cupy", memory_free=free, **others)


def cpu(number=0):
    """Return a core, whose memory is the host's."""
    ref = DeviceRef(Kind.CPU, number)
    return Device(f"cpu:{number}", Kind.CPU, ref, "CPU", "numpy", cores=(number,))


def problems(plan, *devices, available=10 * GIB):
    """Return what is said about a plan, or nothing."""
    bindings = [Binding(f"dev{n}", device) for n, device in enumerate(devices)]
    try:
        check_memory(plan, bindings, Machine(available))
    except QuestionError as error:
        return [d.message for d in error.diagnostics if (d.code, d.hint) == FIX]
    return []


@pytest.mark.parametrize(
    ("memory", "devices", "said"),
    [
        ({"cuda:0": 9 * GIB}, [cuda()], []),
        ({"cuda:0": 9 * GIB + 1}, [cuda()],
         ["cuda0 would need 9.0 GiB, and has 10.0 GiB free"]),
        ({"cuda:0": GIB}, [cuda(free=None, memory_total=GIB)],
         ["cuda0 would need 1.0 GiB, and has 1.0 GiB free"]),
        ({"cuda:0": 99 * GIB}, [cuda(free=None)], []),
        ({"host": 10 * GIB}, [cuda()],
         ["the host would need 10.0 GiB, and has 10.0 GiB free"]),
        ({"host": 4 * GIB, "cpu:0": 3 * GIB, "cpu:1": 3 * GIB}, [cpu(), cpu(1)],
         ["the host would need 10.0 GiB, and has 10.0 GiB free"]),
        ({"host": 4 * GIB, "cpu:0": 5 * GIB}, [cpu(), cpu()], []),
        ({"host": 4 * GIB, "cuda:0": 9 * GIB}, [cuda()], []),
        ({"cuda:0": 99 * GIB, "cuda:1": 98 * GIB, "host": 97 * GIB}, [cuda(), cuda(1)],
         ["cuda0 would need 99.0 GiB, and has 10.0 GiB free",
          "cuda1 would need 98.0 GiB, and has 10.0 GiB free",
          "the host would need 97.0 GiB, and has 10.0 GiB free"]),
    ],
)  # fmt: skip
def test_a_plan_takes_nine_tenths_of_what_is_free(memory, devices, said):
    """On each device and on the host, of which a core is a part; all problems at once."""
    assert said == problems(Plan((), memory), *devices)


@pytest.mark.parametrize(("largest", "said"), [
    (GIB, []),
    (GIB + 1, ["one buffer of cuda0 would need 1.0 GiB, and has 1.0 GiB free"]),
])  # fmt: skip
def test_one_buffer_may_be_too_large(largest, said):
    """OpenCL devices limit a single allocation."""
    device = cuda(facts={"largest_buffer": GIB})
    assert said == problems(Plan((), {"cuda:0": 2 * GIB}, largest), device)
