"""Let every Python with this folder on its path have torch_standin's GPUs in PyTorch.

They are the cards that cuda_standin shows to CuPy.
"""

import os
import sys
from importlib.machinery import PathFinder
from uuid import UUID


class Finder:
    """Find PyTorch as ever, and give it its devices once it is loaded."""

    @staticmethod
    def find_spec(name, *_):
        spec = PathFinder.find_spec(name) if name == "torch" else None
        if spec is not None:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), install())
        return spec


class Always:
    """As pytest's `monkeypatch`, until the process ends."""

    setattr = staticmethod(setattr)


def install():
    from torch_standin import installed

    count = int(os.environ["GPUMAP_STANDIN_DEVICES"])
    installed(Always, count, identity=lambda n: (UUID(bytes=bytes([0xA0 + n] * 16)), 9 + n))


sys.meta_path.insert(0, Finder)
