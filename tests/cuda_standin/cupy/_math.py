"""cuBLAS and NCCL of the stand-in: products by NumPy, sums over devices, both in the stream."""

import ctypes

import numpy as np

from cupy import _gpu

HANDLES = {}  # handle -> its device, and its math mode
_TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 14: np.uint16}  # cudaDataType_t
_COMPUTES = {68: (0, 2, 14), 70: (1,), 77: (0,)}  # cublasComputeType_t -> element types
_WHOLE_SUMS = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION


class CUBLASError(_gpu.Refused):
    __module__ = "cupy_backends.cuda.libs.cublas"


def create():
    handle = 0x6000_0000 + 8 * (len(HANDLES) + 1)
    HANDLES[handle] = [_gpu.CURRENT.device, 0]
    return handle


def destroy(handle):
    """Give it back, once nothing on its device uses its workspace."""
    _own(handle)
    HANDLES[handle] = None


def setMathMode(handle, mode):  # noqa: N802 - CuPy's names
    _own(handle)[1] = mode


def _own(handle):
    held = HANDLES.get(handle)
    if held is None or held[0] != _gpu.CURRENT.device:
        raise CUBLASError(1 if held is None else 7)
    return held


def gemmEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype,  # noqa: N802, N803
           ldc, computeType, algo):  # noqa: N803  # fmt: skip
    """Queue C = alpha op(A) op(B) + beta C of matrices by columns, in the current stream."""
    whole = bool(_own(handle)[1] & _WHOLE_SUMS)
    rows = (m if transa == 0 else k), (k if transb == 0 else n), m
    legal = (
        Atype == Btype == Ctype and Ctype in _COMPUTES.get(computeType, ()) and min(m, n, k) > 0
        and all(ld >= max(r, 1) for ld, r in zip((lda, ldb, ldc), rows, strict=True))
        and {transa, transb} <= {0, 1, 2} and algo == -1
    )  # fmt: skip
    if not legal:
        raise CUBLASError(7)
    scale = ctypes.c_double if computeType == 70 else ctypes.c_float
    a, b = (scale.from_address(at).value for at in (alpha, beta))  # read at the call
    columns = (k if transa == 0 else m), (n if transb == 0 else k), n
    blocks, views = [], []
    for at, ld, row, column in zip((A, B, C), (lda, ldb, ldc), rows, columns, strict=True):
        kind = np.dtype(_TYPES[Ctype])
        nbytes = ((column - 1) * ld + row) * kind.itemsize
        block, data = _gpu.region(at, nbytes)
        blocks.append(block)
        views.append(_matrix(data.view(kind), ld, row, column))
    queue = _gpu.CURRENT.stream

    def run():
        _gpu.alive(*blocks)
        left, right = (_wide(v, Ctype, computeType) for v in views[:2])
        left, right = (left.T if transa else left), (right.T if transb else right)
        with np.errstate(all="ignore"):
            product = _summed(left, right, Ctype, computeType, whole=whole)
            total = product if a == 1 else product * product.dtype.type(a)
            if b:
                total = total + total.dtype.type(b) * _wide(views[2], Ctype, computeType)
            views[2][...] = _narrow(total, Ctype)
            if _gpu.fault("wrong-sum"):
                views[2][-1, -1] += 1

    queue.put(run)


def _matrix(data, ld, rows, columns):
    size = data.itemsize
    return np.lib.stride_tricks.as_strided(data, (rows, columns), (size, ld * size))


def _wide(values, kind, compute):
    """Return what a product reads: 16 bits as 32, and ten bits of a fraction for TF32."""
    if kind == 14:
        return (values.astype(np.uint32) << 16).view(np.float32)
    if compute == 77:
        bits = np.ascontiguousarray(values).view(np.uint32)
        return ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).view(np.float32)
    return values if kind == 1 else values.astype(np.float32)


def _narrow(values, kind):
    if kind == 14:
        bits = np.ascontiguousarray(values).view(np.uint32)
        rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(values), np.uint16(0x7FFF), rounded)
    return values.astype(_TYPES[kind], copy=False)


def _summed(left, right, kind, compute, *, whole):
    """Return a product; without the math mode, sums of 16 bits meet in their own type."""
    if whole or kind not in (2, 14) or left.shape[1] < 64:
        return left @ right
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    for at in range(0, left.shape[1], 32):
        part = total + left[:, at : at + 32] @ right[at : at + 32]
        total = _wide(_narrow(part, kind), kind, compute)
    return total


NCCL_SUM, NCCL_FLOAT32 = 0, 7
_group = []  # calls since groupStart; None outside of one
_depth = [0]


class NcclCommunicator:
    def __init__(self, ndev, commId, rank):  # noqa: N803 - CuPy's names
        raise _gpu.Misuse(f"ranks of processes are not here: {ndev, commId, rank}")

    @staticmethod
    def initAll(devices):  # noqa: N802
        devices = list(range(devices)) if isinstance(devices, int) else list(devices)
        if len(set(devices)) != len(devices) or not set(devices) <= set(range(_gpu.DEVICES)):
            raise _gpu.Misuse(f"NCCL on the devices {devices}")
        made = [NcclCommunicator.__new__(NcclCommunicator) for _ in devices]
        for rank, device in enumerate(devices):
            made[rank]._rank, made[rank]._device, made[rank]._size = rank, device, len(devices)
        return made

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):  # noqa: N802
        """Queue a sum over the devices; outside of a group the first call waits for the others."""
        if (datatype, op) != (NCCL_FLOAT32, NCCL_SUM):
            raise _gpu.Misuse(f"type {datatype} and operation {op} of NCCL")
        if not _depth[0] and self._size > 1:
            raise _gpu.Misuse("a call of one thread for several devices hangs outside of a group")
        queue = _gpu.QUEUES.get(stream)
        if queue is None or queue.device != self._device:
            raise _gpu.Misuse("the stream is not of the communicator's device")
        ends = [_gpu.region(at, 4 * count, self._device) for at in (sendbuf, recvbuf)]
        _group.append((self, queue, ends))
        if not _depth[0]:
            _meet()


def groupStart():  # noqa: N802
    _depth[0] += 1


def groupEnd():  # noqa: N802
    """Queue what was collected; whoever comes first runs the others' streams to the same place."""
    _depth[0] -= 1
    if not _depth[0] and _group:
        _meet()


def _meet():
    calls, places, over = list(_group), [], []
    _group.clear()
    if len(calls) != calls[0][0]._size or len({c[0]._rank for c in calls}) != len(calls):
        raise _gpu.Misuse("a group has one call of each device")
    if len({view.size for _, _, ends in calls for _, view in ends}) > 1:
        raise _gpu.Misuse("calls of one group have one count")

    def run():
        if over:
            return
        over.append(True)
        for queue, at in places:
            queue.drain(at)
        _gpu.alive(*(block for _, _, ends in calls for block, _ in ends))
        with np.errstate(all="ignore"):
            total = sum(np.array(ends[0][1].view(np.float32)) for _, _, ends in calls)
        for _, _, ends in calls:
            ends[1][1].view(np.float32)[:] = total

    for _, queue, _ in calls:
        queue.put(run)
        places.append((queue, queue.queued))
