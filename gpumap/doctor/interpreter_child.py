"""Query an interpreter and its libraries: a program for the user's Python.

It is run by that interpreter, as text, and imports nothing of gpumap: Python 3.7 and newer can.
``python -c TEXT about FD`` writes its facts, ``python -c TEXT torch FD`` those of torch. Each
line that it writes to the descriptor is a JSON object of facts: a crash loses only the rest.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Put = Callable[..., None]


def main(what: str, number: int) -> None:
    """Write facts to a descriptor, a line each as they come."""
    out = os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    pid = os.getpid()

    def put(**facts: Any) -> None:
        if os.getpid() == pid:  # not what a library forks
            out.write(json.dumps(facts, default=str) + "\n")

    warnings.simplefilter("always", UserWarning)
    warnings.formatwarning = lambda message, *_, **__: f"{message}\n"  # on stderr, as all it says
    try:
        if what == "about":
            about(put)
        else:
            _query(what, put)
    except BaseException as error:  # noqa: BLE001 - a library may raise what it likes
        put(import_error=f"{type(error).__name__}: {error}")
    put(done=True)
    os._exit(0)  # no time for what libraries do at their end


def _query(framework: str, put: Put) -> None:
    """Import a library, and query it."""
    sys.path[:] = [path for path in sys.path if path]
    library = import_module(framework)
    put(module_path=library.__file__, framework_version=library.__version__)
    QUERIES[framework](put, library)


def about(put: Put) -> None:
    """Write the facts of this interpreter, and its package folders."""
    import platform
    import site

    base = sys.prefix == getattr(sys, "base_prefix", sys.prefix)
    user = site.getusersitepackages() if base and not os.environ.get("PYTHONNOUSERSITE") else None
    first = os.environ.get("PYTHONPATH", "").split(os.pathsep)  # which -I leaves out
    lib = os.path.dirname(os.__file__)  # noqa: PTH120 - fast
    managed = base and os.path.exists(os.path.join(lib, "EXTERNALLY-MANAGED"))  # noqa: PTH110, PTH118 - as above
    put(
        managed=managed,
        python=platform.python_version(),
        prefix=sys.prefix,
        paths=[path for path in (*first, user, *sys.path) if path],  # in its own order
        has_pip=any(os.path.isdir(os.path.join(path, "pip")) for path in sys.path),  # noqa: PTH112, PTH118 - as above
    )


def torch(put: Put, torch: Any) -> None:
    """Query PyTorch."""
    version = torch.version
    put(torch_version_cuda=version.cuda, torch_version_hip=getattr(version, "hip", None))
    built = torch._C  # noqa: SLF001 - get_arch_list() is empty without a device
    put(arch_list=(getattr(built, "_cuda_getArchFlags", str)() or "").split())
    available = torch.cuda.is_available()
    put(is_available=available)
    if not available:
        torch.zeros(1).cuda()  # raises with the reason
    devices = []
    for index in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(index)
        devices.append({"name": card.name, "uuid": str(getattr(card, "uuid", "") or "")})
        put(capability=f"{card.major}.{card.minor}", gfx=getattr(card, "gcnArchName", None))
    put(devices=devices)
    for index in range(len(devices)):
        if float((torch.ones(1, device=f"cuda:{index}") + 1).item()) != 2.0:  # noqa: PLR2004 - 1 + 1
            put(framework_says=f"cuda:{index} computed a wrong sum")
    put(worked=True)


def jax(put: Put, jax: Any) -> None:
    """Query JAX."""
    devices = [each for each in jax.devices() if each.platform in ("gpu", "cuda", "rocm")]
    put(is_available=bool(devices), devices=[{"name": each.device_kind} for each in devices])
    if not devices:
        jax.devices("cuda")  # raises with the reason, which jax.devices() swallows
    put(worked=float((jax.numpy.ones(1) + 1)[0]) == 2.0)  # noqa: PLR2004 - as above


def tensorflow(put: Put, tf: Any) -> None:
    """Query TensorFlow."""
    built = tf.sysconfig.get_build_info()
    put(built_with_cuda=bool(built.get("is_cuda_build")))
    put(built_cuda=built.get("cuda_version"), built_cudnn=built.get("cudnn_version"))
    devices = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(each) for each in devices]
    listed = [{"name": each.get("device_name", "")} for each in details]
    put(is_available=bool(listed), worked=bool(listed), devices=listed)


def cupy(put: Put, cupy: Any) -> None:
    """Query CuPy."""
    runtime = cupy.cuda.runtime
    number = runtime.runtimeGetVersion()
    put(built_cuda=f"{number // 1000}.{number % 1000 // 10}")
    cards = [runtime.getDeviceProperties(n) for n in range(runtime.getDeviceCount())]
    put(is_available=bool(cards), devices=[{"name": each["name"].decode()} for each in cards])
    put(worked=float((cupy.ones(1) + 1)[0]) == 2.0)  # noqa: PLR2004 - as above


def onnxruntime(put: Put, onnxruntime: Any) -> None:
    """Query ONNX Runtime: a provider that is listed need not be loadable."""
    import ctypes

    providers = set(onnxruntime.get_available_providers())
    if providers.isdisjoint(("CUDAExecutionProvider", "ROCMExecutionProvider")):
        put(is_available=False)
        return
    folder = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")  # noqa: PTH118, PTH120 - fast
    try:
        for name in ("shared", "cuda"):
            library = os.path.join(folder, f"libonnxruntime_providers_{name}.so")  # noqa: PTH118 - as above
            ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    except OSError as error:
        put(is_available=False, dlopen_errors=[str(error)])
        return
    put(loads=True)


QUERIES = {"torch": torch, "jax": jax, "tensorflow": tensorflow, "cupy": cupy,
       "onnxruntime": onnxruntime}  # fmt: skip

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
