"""Every accelerator that JAX drives here, and its processors where it is requested by name.

JAX would take three quarters of a GPU's memory when it first uses one; here it takes what is used.
A processor is all cores whatever its number: how many there are says JAX_NUM_CPU_DEVICES.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.backends.accelerators import accelerator, listed
from gpumap.backends.numpy import cores
from gpumap.backends.probe import ProbedBackend
from gpumap.backends.third_party import Cuda
from gpumap.errors import AbsentError
from gpumap.extras import install, pip
from gpumap.kinds import KINDS, Kind
from gpumap.model import Device, DeviceRef, Probe, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.backends.base import Clock, Feature, Host, Library
    from gpumap.backends.jax.session import JaxSession

NAME = "jax"
_FEATURES: frozenset[Feature] = frozenset(
    {"kernels", "operations", "float16", "float64", "bfloat16"}
)


class JaxBackend(ProbedBackend):
    """JAX on the accelerators that this process may see, and on its processors."""

    name = NAME
    framework = True
    kinds = frozenset(kind for kind, row in KINDS.items() if NAME in row.backends) | {Kind.CPU}

    def library(self) -> Any:
        """Import JAX."""
        return library()

    def found(self) -> Probe:
        """Import JAX and return what it finds."""
        version, natives = str(self.library().__version__), _natives()
        cuda = Cuda(self._host.env)
        every = {i: partial(_device, i, native, self._host, cuda) for i, native in natives.items()}
        devices, notes = listed(every)
        if count := sum(d.kind is Kind.CPU and d.ref.index is not None for d in devices):
            more = "JAX_NUM_CPU_DEVICES makes more"
            notes.append(f"cpu: JAX has {count}, each of all cores; {more}")
        found = Probe(NAME, usable=True, version=version)
        return replace(found, devices=tuple(devices), notes=tuple(notes))

    def open(self, device: Device, clock: Clock) -> JaxSession:  # noqa: ARG002 - it has no events
        """Open a device, which JAX knows by its platform and number."""
        native = _natives()[device.id]
        from gpumap.backends.jax.session import JaxSession  # not before `library`

        return JaxSession(device, self.features(device), native)

    def features(self, device: Device) -> frozenset[Feature]:
        """Return what a session on the device has: a TPU has no float64 of its own."""
        return _FEATURES - {"float64"} if device.kind is Kind.TPU else _FEATURES


def psum(sessions: Sequence[Any]) -> Library:
    """Return the allreduce of JAX between several sessions.

    Raises:
        AbsentError: JAX is not installed.
        QuestionError: a session is not JAX's, or a device is listed twice.
    """
    try:
        jax = library()
    except ImportError as error:
        raise AbsentError("psum is JAX's, which is not installed", install("jax")) from error
    if not hasattr(jax, "shard_map"):
        newer = pip("install", "--upgrade", "jax")
        raise AbsentError(f"psum needs jax.shard_map, and this is JAX {jax.__version__}", newer)
    from gpumap.backends.jax.psum import Psum

    return Psum(sessions).exchange


def library() -> Any:
    """Return JAX, with float64, and set to take a GPU's memory as it is used."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - JAX's own
    return jax


def _natives() -> dict[str, Any]:
    """Return JAX's devices by gpumap's ids; `cpu` is the first processor, whose number is 0."""
    jax = library()
    every = list(jax.local_devices())
    with suppress(RuntimeError):  # JAX_PLATFORMS=cuda leaves processors out
        every += jax.local_devices(backend="cpu")  # the same, without others
    named = {f"{_platform(each.client)}:{each.local_hardware_id}": each for each in every}
    return named | ({"cpu": named["cpu:0"]} if "cpu:0" in named else {})


def _platform(client: Any) -> str:
    """Return "cuda", "rocm", "tpu" or "cpu": to JAX all makers' GPUs are gpu, but their version."""
    made = client.platform_version if client.platform == "gpu" else ""
    return next((kind for kind in (Kind.CUDA, Kind.ROCM) if kind in made), client.platform)


def _device(id_: str, native: Any, host: Host, cuda: Cuda) -> Device:
    kind, _, number = id_.partition(":")
    if kind == Kind.CPU:
        every = cores(host.topology)[-1]
        index = int(number) if number else None
        return replace(every, id=id_, ref=DeviceRef(Kind.CPU, index), backend=NAME)
    memory = (native.memory_stats() or {}).get("bytes_limit")
    units = getattr(native, "core_count", None)
    capability = native.compute_capability if kind == Kind.CUDA else "0.0"  # of AMD's it is gfx942
    ref = DeviceRef(Kind(kind), int(number))
    told = Device(id_, ref.kind, ref, native.device_kind, NAME, memory_total=memory, units=units)
    return accelerator(told, host, cuda, str(capability))
