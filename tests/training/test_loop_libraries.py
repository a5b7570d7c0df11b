"""A loop's arrays of PyTorch and JAX: they come back as they were given."""

import numpy as np
import pytest
from backends.frameworks import needs

import gpumap
from gpumap.errors import DtypeError

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def made(library, dtype):
    if library == "torch":
        import torch

        return torch.tensor(VALUES, dtype=getattr(torch, dtype), requires_grad=True)
    import jax.numpy

    return jax.numpy.asarray(VALUES, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=needs(name)) for name in ("torch", "jax")]
)
def test_what_is_averaged_is_of_the_library_that_it_came_from(library, dtype, tmp_path):
    given = made(library, dtype)
    for call in (gpumap.average, gpumap.broadcast):
        (found,) = call([given])
        assert type(found) is type(given) or type(found).__name__ == "Tensor"
        assert (found.shape, found.dtype) == (given.shape, given.dtype)
        assert np.array_equal(np.asarray(found.tolist()), VALUES)
    gpumap.checkpoint(tmp_path / "a.npz", [given])
    with np.load(tmp_path / "a.npz") as saved:
        assert np.array_equal(saved["arr_0"], VALUES)


@needs("torch")
def test_numbers_of_torch_that_have_no_mean_are_refused():
    import torch

    with pytest.raises(DtypeError, match="int64"):
        gpumap.average([torch.arange(3)])
