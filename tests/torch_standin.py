"""A stand-in for PyTorch's accelerators: CUDA devices whose memory is the host's, as it lies.

What is queued on a stream runs when it is waited for, and no earlier: but for the device that
is `eager`, whose streams run at once. So what waits for too little sees the wrong data. What real
hardware would only do slowly, or sometimes, is an error here (`Misuse`). Products of float32 read
ten bits where TF32 is on. Nothing it does is a measurement, which its version says.
"""

import threading
import time
from collections import deque
from types import SimpleNamespace

import torch

EMPTY, GIB = torch.empty, 1 << 30
POISON = 0xA5


class Misuse(Exception):
    """What a device takes, and does otherwise than its caller thinks."""


class World:
    """The devices, their streams, and what was done with them."""

    def __init__(self, devices, eager, fault):
        self.devices, self.eager, self.fault = devices, eager, fault
        self.defaults = [Queue(self, n) for n in range(devices)]
        self.threads = threading.local()
        self.pinned, self.emptied, self.log = [], [], []
        self.lock = threading.RLock()

    def current(self, index):
        return self.chosen.get(index) or self.defaults[index]

    @property
    def chosen(self):
        if not hasattr(self.threads, "chosen"):
            self.threads.chosen = {}
        return self.threads.chosen

    def is_pinned(self, tensor):
        address = tensor.data_ptr()
        return any(t.data_ptr() <= address < t.data_ptr() + t.numel() for t in self.pinned)


class Queue:
    """What a stream has to do, in order."""

    def __init__(self, world, index):
        self.world, self.index, self.jobs = world, index, deque()

    def put(self, job):
        self.jobs.append(job)
        if self.index == self.world.eager:
            self.run()

    def run(self, until=None):
        with self.world.lock:
            while self.jobs:
                job = self.jobs.popleft()
                job()
                if job is until:
                    return


class Stream:
    """As `torch.Stream`."""

    world = None

    def __init__(self, device=None):
        self.device = torch.device(device)
        self.queue = Queue(self.world, self.device.index)

    def __enter__(self):
        self._before = self.world.chosen.get(self.device.index)
        self.world.chosen[self.device.index] = self.queue
        return self

    def __exit__(self, *exc):
        self.world.chosen[self.device.index] = self._before

    def wait_event(self, event):
        self.queue.put(event.run)

    def synchronize(self):
        self.queue.run()


class Event:
    """As `torch.Event`; its time is when the queue came to it."""

    def __init__(self, device=None, *, enable_timing=False):
        self.device, self.timing = torch.device(device), enable_timing
        self.queue = self.job = self.time = None

    def record(self, stream):
        if stream.device != self.device:
            raise RuntimeError(f"Event device {self.device} does not match {stream.device}")
        self.queue, self.job, self.time = stream.queue, self._reach, None
        self.queue.put(self.job)

    def _reach(self):
        self.time = time.perf_counter()

    def run(self):
        if self.time is None:
            self.queue.run(self.job)

    synchronize = run

    def elapsed_time(self, end):
        if not (self.timing and end.timing) or self.device != end.device:
            raise RuntimeError("Both events must have timing, and be of one device")
        return (end.time - self.time) * 1e3


class Tensor(torch.Tensor):
    """A tensor of a simulated device over one of the host."""

    world = None

    @staticmethod
    def __new__(cls, inner, index):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device="meta",  # of which no driver is asked
        )  # fmt: skip
        made.inner, made.index = inner, index
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.name()
        if name in ("aten::copy_", "aten::copy_.default"):
            return copied(cls.world, *args, **kwargs)
        own = [each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)]
        index = own[0].index
        assert {each.index for each in own} == {index}, f"{name} on two devices"
        if name in ("aten::mm.out", "aten::addmm_"):
            return product(cls.world, func, args, kwargs, index)
        if not func.is_view:
            cls.world.current(index).run()  # a result of its own is computed in its turn, at once
        found = func(*map(bare, args), **{key: bare(value) for key, value in kwargs.items()})
        return next((each for each in own if each.inner is found), Tensor(found, index))


def bare(argument):
    return argument.inner if isinstance(argument, Tensor) else argument


def product(world, func, args, kwargs, index):
    precision = torch.backends.cuda.matmul.fp32_precision
    given, named = [*map(bare, args)], {key: bare(value) for key, value in kwargs.items()}
    world.log.append((func.name(), precision, world.current(index)))
    first = 1 if func.name() == "aten::addmm_" else 0

    def job():
        factors = [*given]
        if precision == "tf32" and factors[first].dtype is torch.float32:
            for place in (first, first + 1):
                bits = factors[place].contiguous().view(torch.int32)
                factors[place] = (bits & ~0x1FFF).view(torch.float32)
        func(*factors, **named)

    world.current(index).put(job)
    return kwargs["out"] if "out" in kwargs else args[0]


def copied(world, target, source, non_blocking=False):  # noqa: FBT002 - as aten has it
    to, from_ = bare(target), bare(source)
    ends = [end.index for end in (source, target) if isinstance(end, Tensor)]
    queue = world.current(ends[0])
    peers = len(set(ends)) > 1
    if len(ends) == 1 and non_blocking:
        host = next(end for end in (target, source) if not isinstance(end, Tensor))
        if not world.is_pinned(host):
            raise Misuse("a copy of pageable memory that does not block")
    nothing = peers and world.fault == "peer-moves-nothing"
    queue.put(lambda: None if nothing else to.copy_(from_))
    if len(ends) == 1 and not non_blocking:
        queue.run()
    return target


def board(index):
    """Return a device's UUID and the number of its bus."""
    return f"{index:08d}-0000-0000-0000-000000000000", 0x9E - index


def installed(monkeypatch, devices=2, eager=None, fault="", identity=board):
    """Let PyTorch have simulated devices until the test ends; return their world."""
    world = World(devices, eager, fault)

    def empty(*shape, dtype=None, device=None, pin_memory=False):
        sizes = shape[0] if len(shape) == 1 else shape
        nbytes = torch.Size([sizes] if isinstance(sizes, int) else sizes).numel()
        where = torch.device(device or "cpu")
        if pin_memory and nbytes > 1 << 40:
            error = torch.AcceleratorError("CUDA error: out of memory")
            error.error_code = 2
            raise error
        if where.type == "cuda" and nbytes > GIB:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {nbytes} bytes")
        made = EMPTY(sizes, dtype=dtype)
        if pin_memory:
            world.pinned.append(made)
        if where.type == "cuda":
            made.reshape(-1).view(torch.uint8).fill_(POISON)
            return Tensor(made, where.index)
        return made

    def properties(index):
        uuid, bus = identity(index)
        return SimpleNamespace(
            name="Simulated", major=9, minor=0, total_memory=GIB, multi_processor_count=4,
            uuid=uuid, pci_domain_id=0, pci_bus_id=bus, pci_device_id=0,
        )  # fmt: skip

    own = {"world": world}
    monkeypatch.setattr(torch, "Stream", type("Stream", (Stream,), own))
    monkeypatch.setattr(torch, "Event", Event)
    monkeypatch.setattr(Tensor, "world", world)
    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch, "__version__", f"{torch.__version__}.simulated")
    accelerator, cuda = torch.accelerator, torch.cuda
    monkeypatch.setattr(accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
    monkeypatch.setattr(accelerator, "device_count", lambda: devices)
    for name in ("empty_cache", "empty_host_cache"):
        monkeypatch.setattr(accelerator, name, lambda name=name: world.emptied.append(name))
    monkeypatch.setattr(cuda, "device_count", lambda: devices)
    monkeypatch.setattr(cuda, "get_device_properties", properties)
    monkeypatch.setattr(cuda, "can_device_access_peer", lambda *_: fault != "peer-refused")
    return world
