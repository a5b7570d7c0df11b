"""The libraries that drive devices: one file each, loaded by name and only when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gpumap.errors import QuestionError
from gpumap.model import Kind
from gpumap.text import fix

if TYPE_CHECKING:
    from gpumap.backends.base import Backend, Host

REGISTRY = {
    "numpy": "gpumap.backends.numpy:NumpyBackend",
    "pyopencl": "gpumap.backends.pyopencl:PyopenclBackend",
    "cupy": "gpumap.backends.cupy:CupyBackend",
    "pygpu": "gpumap.backends.pygpu:PygpuBackend",
    "fake": "gpumap.backends.fake:FakeBackend",
}

# What drives a kind unless --backend says otherwise: the first that is usable.
DEFAULTS: dict[Kind, tuple[str, ...]] = {
    Kind.CUDA: ("cupy", "pygpu"),
    Kind.OPENCL: ("pyopencl", "pygpu"),
    Kind.CPU: ("numpy",),
}


def load(name: str, host: Host) -> Backend:
    """Return the backend called `name`; loads its file, but not yet its library.

    Raises:
        QuestionError: there is no such backend.
    """
    if name not in REGISTRY:
        known = fix(name, REGISTRY, f"choose one of {', '.join(REGISTRY)}")
        raise QuestionError(f'no backend is called "{name}"', known)
    module, _, attribute = REGISTRY[name].partition(":")
    backend: Backend = getattr(import_module(module), attribute)(host)
    return backend
