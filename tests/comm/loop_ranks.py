"""A user's own training loop, over all ranks and on the whole batch alone: the same parameters.

loop_ranks.py FILE             train; the last checkpoint is FILE
loop_ranks.py FILE WRONG...    what is raised where the last rank's arrays or calls are others
loop_ranks.py FILE raise       the last rank ends with an exception, the others wait for it
"""

import os
import sys

import numpy as np

import gpumap

rank, ranks = gpumap.rank(), gpumap.ranks()


def gradients(parameters, x, y):
    w, b = parameters
    wrong = (1 / (1 + np.exp(-(x @ w.reshape(-1) + b))) - y) / len(x)
    return [(x.T @ wrong).reshape(w.shape), wrong.sum(keepdims=True)]


def trained(average, part, parameters, scale):
    rng = np.random.default_rng(0)
    for step in range(50):
        x = rng.standard_normal((30, 8)).astype(np.float32)
        y = (x[:, 0] > 0).astype(np.float32)
        own = gradients(parameters, x[part], y[part])
        rate = gpumap.scaled_rate(0.1, step, 10) if scale else 0.1 * ranks ** min(step / 10, 1)
        for array, gradient in zip(parameters, average(own, len(x[part])), strict=True):
            np.subtract(array, np.float32(rate) * gradient, out=array)
    return parameters


def begun(seed):
    return [np.random.default_rng(seed).random((2, 4), np.float32), np.zeros(1, np.float32)]


class Foreign:
    """An array of another library, in host memory."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def wrong(kind):
    odd = rank == ranks - 1
    good, last = np.ones((2, 3), np.float32), np.ones(4)
    try:
        if kind == "file":
            gpumap.checkpoint("/nowhere/a.npz", [good])
        elif kind == "weight":
            gpumap.average([good], -1.0 if odd else 1.0)
        elif kind == "call":
            (gpumap.broadcast if odd else gpumap.average)([good])
        elif kind == "empty":  # the mean of no examples
            return str(gpumap.average([good * np.nan if odd else good], 0 if odd else 2)[0].max())
        elif kind == "large":
            return str(gpumap.average([good], 1e308)[0].max())
        else:
            other = {
                "shape": [good.T, last],
                "dtype": [good, last.astype("f4")],
                "count": [good],
                "none": [good, "text"],
                "nothing": None,
            }[kind]
            gpumap.average(other if odd else [good, last])
    except gpumap.GpumapError as error:
        return f"{type(error).__name__}: {error.diagnostics[0].message}"
    return "nothing"


file, *kinds = sys.argv[1:]
if kinds == ["raise"]:
    if rank == ranks - 1:
        raise RuntimeError("as users' code does")
    gpumap.average([np.ones(3)])
if kinds:
    sys.stdout.write("".join(f"{rank} {kind} {wrong(kind)}\n" for kind in kinds))
    sys.exit()
average, foreign = gpumap.average, Foreign
if os.environ.get("LOOP_OF") == "torch":  # of which the program has started all ranks itself
    import torch

    torch.distributed.init_process_group("gloo")
    foreign = torch.from_numpy

    def average(arrays, weight):
        """Return the mean, by way of tensors that need a gradient, in half a float's bits too."""
        tensors = [torch.from_numpy(array).requires_grad_() for array in arrays]
        narrow = gpumap.average([tensor.bfloat16() for tensor in tensors], weight)
        assert {tensor.dtype for tensor in narrow} == {torch.bfloat16}
        return [tensor.numpy() for tensor in gpumap.average(tensors, weight)]


parameters = gpumap.broadcast([foreign(array) for array in begun(rank)])  # rank 0's, seed 0
parameters = [np.asarray(each) for each in parameters]
parameters = trained(average, slice(rank, None, ranks), parameters, scale=True)
gpumap.checkpoint(file, parameters)
with np.load(file) as saved:
    first = [saved["arr_0"], saved["arr_1"]]
assert [one.tobytes() for one in first] == [one.tobytes() for one in parameters]
by_mpi = "OMPI_COMM_WORLD_RANK" in os.environ or "PMI_RANK" in os.environ
assert by_mpi or "mpi4py" not in sys.modules
alone = trained(lambda own, _: own, slice(None), begun(0), scale=False)
off = max(float(abs(one - other).max()) for one, other in zip(parameters, alone, strict=True))
sys.stdout.write(f"rank {rank} of {ranks}: off by {off:.1e}\n")
