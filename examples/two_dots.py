"""Theano's first program for two GPUs: two matrix products on two devices, at the same time.

    GPUMAP_CONTEXTS="dev0->cuda0;dev1->cuda1" python examples/two_dots.py [SIZE]
    gpumap trace --map "dev0->cpu0;dev1->cpu1" examples/two_dots.py [SIZE]

It takes the first and the last name of the map. With a map of one name both products run there,
one after the other, and not a line changes; without any map gpumap finds a default one.

The original is in Theano's tutorial "Using multiple GPUs", as "A simple graph on two GPUs".
"""

import sys

import numpy as np

import gpumap

size = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
random = np.random.default_rng(1)


def matrix() -> np.ndarray:
    """Return a random matrix in host memory."""
    return random.random((size, size), dtype="float32")


with gpumap.open() as context:
    first, last = context.names[0], context.names[-1]

    v01 = context.shared(matrix(), target=first)
    v02 = context.shared(matrix(), target=first)
    v11 = context.shared(matrix(), target=last)
    v12 = context.shared(matrix(), target=last)

    a = gpumap.dot(v01, v02)  # runs on the first device: queued, not waited for
    b = gpumap.dot(v11, v12)  # runs on the last one, at the same time

    for name, product in (("a", a), ("b", b)):
        print(f"{name} on {product.target}: mean {product.numpy().mean():.6f}")
