"""Devices, memory, streams and events that are not there, as strict as CUDA's rules.

A stream runs nothing before it is waited for: without a wait, data are wrong.
What CUDA leaves undefined (memory that was freed, a stream of another device, a pointer to nothing)
is `Misuse`, which no table of gpumap's errors knows. Nothing here may ever give a figure.

    GPUMAP_STANDIN_DEVICES   how many devices there are: 1 unless set
    CUDA_VISIBLE_DEVICES     those that a process sees, by UUID or number: all unless set
    GPUMAP_STANDIN_EAGER     a device whose streams run at the call: none unless set
    GPUMAP_STANDIN_FAULT     KIND or KIND:WORD, in processes whose arguments have that word
"""

import ctypes
import os
import sys
import threading
import time
from collections import deque
from itertools import takewhile
from uuid import UUID

import numpy as np

EAGER = os.environ.get("GPUMAP_STANDIN_EAGER", "")
TOTAL = 4 << 30  # bytes of each device
LOCK = threading.RLock()
POISON, GUARD, FENCE = 0xFF, 64, 0xC5  # NaN in every type; bytes around each block, and their value
_DEVICE = 1 << 56  # no address of the host has this bit
_CONTEXTS = 0x4000_0000  # the handle of the first device's context


class Misuse(AssertionError):
    """What CUDA does not define."""


class Refused(RuntimeError):
    def __init__(self, status):
        super().__init__(f"status {status}: the stand-in says so")
        self.status = status


class CUDARuntimeError(Refused):
    __module__ = "cupy_backends.cuda.api.runtime"


class CUDADriverError(Refused):
    __module__ = "cupy_backends.cuda.api.driver"


class OutOfMemoryError(MemoryError):
    __module__ = "cupy.cuda.memory"


_kind, _, _word = os.environ.get("GPUMAP_STANDIN_FAULT", "").partition(":")
_PLANTED = _kind if not _word or _word in sys.orig_argv else ""


def fault(kind):
    return kind == _PLANTED


def uuid(number):
    return bytes([0xA0 + number] * 16)


def _visible():
    """Return the numbers of the devices that this process sees; CUDA stops at what names none."""
    count = int(os.environ.get("GPUMAP_STANDIN_DEVICES", "1"))
    known = {f"GPU-{UUID(bytes=uuid(n))}": n for n in range(count)}
    known |= {str(n): n for n in range(count)}
    words = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")
    seen = [known[word] for word in takewhile(known.__contains__, words)]
    return [n + 1 for n in seen] if fault("other-device") else seen


VISIBLE = _visible()
DEVICES = len(VISIBLE)


class _Current(threading.local):
    """What a thread has chosen; a new one has no context, and no call but `use` gives it one."""

    chosen, context, streams = 0, 0, ()

    @property
    def device(self):
        return self.context - _CONTEXTS if self.context else self.chosen

    def use(self, device):
        self.chosen, self.context = device, _CONTEXTS + device

    @property
    def stream(self):
        """Return the queue that work goes to; CUDA's legacy stream waits for others: unwanted."""
        if not self.streams:
            raise Misuse("no stream is current: the legacy stream would be used")
        if self.streams[-1].device != self.device:
            raise Misuse("the current stream is of another device")
        return self.streams[-1]


CURRENT = _Current()
QUEUES = {}  # address of a stream -> its queue
PEERS = set()  # (from, to): whose memory a device may use
_spent = dict.fromkeys(range(DEVICES), 0)


class Queue:
    """What one stream has to do; `done` of `queued` jobs are behind it."""

    def __init__(self, device):
        self.device, self.jobs, self.queued, self.done = device, deque(), 0, 0
        self.captured = None
        self.ptr = 0x5000_0000 + 64 * len(QUEUES)
        QUEUES[self.ptr] = self

    def put(self, job):
        if fault("lost") and self.queued > 40:
            raise CUDARuntimeError(719)
        with LOCK:
            if self.captured is not None:
                self.captured.append(job)
                return
            self.jobs.append(job)
            self.queued += 1
            if str(self.device) == EAGER:
                self.drain()

    def drain(self, upto=None):
        while fault("hang"):
            time.sleep(0.1)
        if self.captured is not None:
            raise CUDARuntimeError(900)
        with LOCK:
            upto = self.queued if upto is None else upto
            while self.done < upto:
                job = self.jobs.popleft()
                self.done += 1
                job()


def ctxGetCurrent():  # noqa: N802 - CuPy's names, here and below
    return CURRENT.context


def ctxSetCurrent(ctx):  # noqa: N802
    """Let a context be current, whatever device was chosen; 0: none."""
    if ctx and ctx - _CONTEXTS not in range(DEVICES):
        raise CUDADriverError(201)
    CURRENT.context = ctx


def queue_at(ptr):
    queue = QUEUES.get(ptr)
    if queue is None or queue.device != CURRENT.device:
        raise Misuse(f"stream {ptr:#x} is none of the current device {CURRENT.device}")
    return queue


class Block:
    """Bytes of a device, or of the host's that stay in their place, with a fence on both sides."""

    def __init__(self, size, device, kind):
        self.size, self.device, self.kind, self.freed = size, device, kind, False
        self.held = np.full(size + 2 * GUARD, POISON, np.uint8)
        self.bytes = self.held[GUARD : GUARD + size]
        self.held[:GUARD] = self.held[GUARD + size :] = FENCE
        host = self.bytes.ctypes.data
        self.address = host if kind == "pinned" else host | _DEVICE
        with LOCK:
            _BLOCKS.add(self)

    def check(self):
        if (self.held[:GUARD] != FENCE).any() or (self.held[GUARD + self.size :] != FENCE).any():
            raise Misuse(f"something was written beside {self.size} bytes at {self.address:#x}")

    def free(self):
        self.check()
        self.freed = True
        self.bytes[:] = 0xDB
        with LOCK:
            _BLOCKS.remove(self)


_BLOCKS = set()  # that are not freed


def found(address):
    """Return the block that an address is in, and how far; None where it is in none."""
    with LOCK:
        for block in tuple(_BLOCKS):
            if 0 <= address - block.address <= block.size:
                return block, address - block.address
    return None, 0


def region(address, nbytes, device=None):
    """Return the block and the bytes that a device uses: they are its own, or a peer's."""
    device = CURRENT.device if device is None else device
    block, at = found(address)
    if block is None or block.kind == "pinned":
        raise Misuse(f"{address:#x} is no memory of a device")
    if at + nbytes > block.size:
        raise Misuse(f"{nbytes} bytes from {at} on are past the end of {block.size}")
    if block.device != device and (device, block.device) not in PEERS:
        raise Misuse(f"device {device} uses memory of device {block.device}")
    return block, block.bytes[at : at + nbytes]


def alive(*blocks):
    for block in blocks:
        if block and block.freed:
            raise Misuse(f"work runs on {block.kind} memory that was freed")


class Memory:
    """A device's block, given back in the order of the stream that it was taken in."""

    def __init__(self, size):
        device = CURRENT.device
        if (fault("memory") and size > 1 << 16) or _spent[device] + size > TOTAL:
            raise OutOfMemoryError(f"Out of memory allocating {size} bytes")
        self.queue = CURRENT.stream
        _spent[device] += size
        self.block = Block(size, device, "device")

    def __del__(self):
        if block := getattr(self, "block", None):
            _spent[block.device] -= block.size
            with LOCK:
                self.queue.jobs.append(block.free)
                self.queue.queued += 1


class PinnedMemory:
    """Memory of the host that stays in its place; an error once it is freed."""

    def __init__(self, size):
        if size > TOTAL or fault("memory"):
            raise CUDARuntimeError(2)
        self._block = Block(size, CURRENT.device, "pinned")

    def __int__(self):
        return self._block.address

    def __del__(self):
        if block := getattr(self, "_block", None):
            block.free()


class _Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)


def _moved(call, local, remote, nbytes):
    """Let the kernel move bytes of this process: a page that is gone is an error, no crash."""
    near, far = (ctypes.byref(_Part(at, nbytes)) for at in (local, remote))
    if call(os.getpid(), near, 1, far, 1, 0) != nbytes:
        raise Misuse("memory of the host was freed before it was used")


def read_host(address, nbytes):
    out = np.empty(nbytes, np.uint8)
    _moved(_libc.process_vm_readv, out.ctypes.data, address, nbytes)
    return out


def _pinned(address, nbytes):
    """Return the block that memory of the host is in; None where it is pageable."""
    if address >= _DEVICE:
        raise Misuse(f"{address:#x} is no address of the host")
    block, at = found(address)
    if block is not None and at + nbytes > block.size:
        raise Misuse(f"{nbytes} bytes from {at} on are past the end of {block.size}")
    return block


def upload(target, source, nbytes, queue):
    there, view = region(target, nbytes)
    pinned = _pinned(source, nbytes)

    def run():
        alive(there, pinned)
        view[:] = read_host(source, nbytes)
        if fault("wrong-byte") and nbytes > 1 << 12:
            view[nbytes // 2] ^= 0x40

    queue.put(run)


def download(target, source, nbytes, queue):
    """Queue a copy to the host; into pageable memory it comes late, as it may."""
    there, view = region(source, nbytes)
    pinned = _pinned(target, nbytes)

    def run():
        alive(there, pinned)
        _moved(_libc.process_vm_writev, view.ctypes.data, target, nbytes)

    queue.put(run)


def copy_inside(target, source, nbytes, queue, devices=None):
    here = queue.device
    to, from_ = devices or (here, here)
    (one, into), (two, out) = region(target, nbytes, to), region(source, nbytes, from_)

    def run():
        alive(one, two)
        if devices is None or not fault("peer-moves-nothing"):
            into[:] = out

    queue.put(run)


class Event:
    def __init__(self, block=False, disable_timing=False):  # noqa: FBT002
        del block
        self._timing, self._device, self._at = not disable_timing, CURRENT.device, None

    def record(self, stream=None):
        queue = stream._queue if stream else CURRENT.stream
        if queue.device != self._device:
            raise CUDARuntimeError(400)
        self._at = place = [queue, 0, None]

        def reached():
            place[2] = time.perf_counter()

        queue.put(reached)
        place[1] = queue.queued

    def synchronize(self):
        if self._at:
            self._at[0].drain(self._at[1])


def get_elapsed_time(start_event, end_event):
    ends = start_event._at, end_event._at
    same = start_event._device == end_event._device == CURRENT.device
    if None in ends or not same or not (start_event._timing and end_event._timing):
        raise CUDARuntimeError(400)
    (*_, start), (*_, end) = ends
    if start is None or end is None:
        raise CUDARuntimeError(600)
    return float(np.float32((end - start) * 1e3))
