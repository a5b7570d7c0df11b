"""What an interpreter and its libraries say of themselves: a program for the user's own Python.

It is run by that interpreter, as text, and imports nothing of gpumap: Python 3.7 and newer can.
``python -c TEXT about FD`` writes what it is, ``python -c TEXT torch FD`` what torch says. Each
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

    Say = Callable[..., None]

LONGEST = 2000  # characters of a text


def main(what: str, number: int) -> None:
    """Write facts to a descriptor, a line each as they come."""
    out = os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    pid = os.getpid()

    def say(**facts: Any) -> None:
        facts = {k: v[:LONGEST] if isinstance(v, str) else v for k, v in facts.items()}
        if os.getpid() == pid:  # not what a library forks
            out.write(json.dumps(facts, default=lambda each: str(each)[:LONGEST]) + "\n")

    if what != "about":
        sys.path[:] = [path for path in sys.path if path]
    try:
        ASK[what](say)
    except BaseException as error:  # noqa: BLE001 - a library may raise what it likes
        say(import_error=f"{type(error).__name__}: {error}")
    say(done=True)
    out.flush()
    os._exit(0)  # no time for what libraries do at their end


def about(say: Say) -> None:
    """Say what this interpreter is, and where it looks for packages."""
    import platform
    import site

    own = sys.prefix == getattr(sys, "base_prefix", sys.prefix)
    user = site.getusersitepackages() if own and not os.environ.get("PYTHONNOUSERSITE") else None
    lib = os.path.dirname(os.__file__)  # noqa: PTH120 - fast
    managed = own and os.path.exists(os.path.join(lib, "EXTERNALLY-MANAGED"))  # noqa: PTH110, PTH118 - as above
    say(
        managed=managed,
        conda=os.path.isdir(os.path.join(sys.prefix, "conda-meta")),  # noqa: PTH112, PTH118 - as above
        python=platform.python_version(),
        prefix=sys.prefix,
        paths=[path for path in sys.path if path],
        user_site=user,
        pythonpath=os.environ.get("PYTHONPATH"),
        has_pip=any(os.path.isdir(os.path.join(path, "pip")) for path in sys.path),  # noqa: PTH112, PTH118 - as above
    )


def torch(say: Say) -> None:
    """Ask PyTorch."""
    torch: Any = import_module("torch")

    version = torch.version
    say(module_path=torch.__file__, framework_version=torch.__version__)
    say(torch_version_cuda=version.cuda, torch_version_hip=getattr(version, "hip", None))
    built = torch._C  # noqa: SLF001 - get_arch_list() is empty without a device
    say(arch_list=(getattr(built, "_cuda_getArchFlags", str)() or "").split())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    say(is_available=available, warned=[str(each.message)[:LONGEST] for each in caught])
    if not available:
        torch.zeros(1).cuda()  # raises with the reason
    devices = []
    for index in range(torch.cuda.device_count()):
        found = torch.cuda.get_device_properties(index)
        devices.append({"name": found.name, "uuid": str(getattr(found, "uuid", "") or "")})
        say(capability=f"{found.major}.{found.minor}", gfx=getattr(found, "gcnArchName", None))
    say(devices=devices, visible_count=len(devices))
    for index in range(len(devices)):
        if float((torch.ones(1, device=f"cuda:{index}") + 1).item()) != 2.0:  # noqa: PLR2004 - 1 + 1
            say(framework_says=f"cuda:{index} computed a wrong sum")
    say(worked=True)


def jax(say: Say) -> None:
    """Ask JAX."""
    jax: Any = import_module("jax")

    say(module_path=jax.__file__, framework_version=jax.__version__)
    devices = [each for each in jax.devices() if each.platform in ("gpu", "cuda", "rocm")]
    say(is_available=bool(devices), visible_count=len(devices),
        devices=[{"name": each.device_kind, "uuid": ""} for each in devices])  # fmt: skip
    if not devices:
        jax.devices("cuda")  # raises with the reason, which jax.devices() swallows
    say(worked=float((jax.numpy.ones(1) + 1)[0]) == 2.0)  # noqa: PLR2004 - as above


def tensorflow(say: Say) -> None:
    """Ask TensorFlow."""
    tf: Any = import_module("tensorflow")

    say(module_path=tf.__file__, framework_version=tf.__version__)
    built = tf.sysconfig.get_build_info()
    say(built_with_cuda=bool(built.get("is_cuda_build")))
    say(built_cuda=built.get("cuda_version"), built_cudnn=built.get("cudnn_version"))
    devices = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(each) for each in devices]
    named = [{"name": each.get("device_name", ""), "uuid": ""} for each in details]
    say(is_available=bool(named), visible_count=len(named), worked=bool(named), devices=named)


def cupy(say: Say) -> None:
    """Ask CuPy."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cupy: Any = import_module("cupy")
    say(module_path=cupy.__file__, framework_version=cupy.__version__,
        warned=[str(each.message)[:LONGEST] for each in caught])  # fmt: skip
    runtime = cupy.cuda.runtime
    number = runtime.runtimeGetVersion()
    say(built_cuda=f"{number // 1000}.{number % 1000 // 10}")
    count = runtime.getDeviceCount()
    found = [runtime.getDeviceProperties(index) for index in range(count)]
    say(is_available=bool(count), visible_count=count,
        devices=[{"name": each["name"].decode(), "uuid": ""} for each in found])  # fmt: skip
    say(worked=float((cupy.ones(1) + 1)[0]) == 2.0)  # noqa: PLR2004 - as above


def onnxruntime(say: Say) -> None:
    """Ask ONNX Runtime: a provider that is listed need not be loadable."""
    import ctypes

    onnxruntime: Any = import_module("onnxruntime")

    providers = onnxruntime.get_available_providers()
    say(module_path=onnxruntime.__file__, framework_version=onnxruntime.__version__,
        providers=providers)  # fmt: skip
    if not {"CUDAExecutionProvider", "ROCMExecutionProvider"} & set(providers):
        say(is_available=False)
        return
    folder = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")  # noqa: PTH118, PTH120 - fast
    try:
        for name in ("shared", "cuda"):
            library = os.path.join(folder, f"libonnxruntime_providers_{name}.so")  # noqa: PTH118 - as above
            ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    except OSError as error:
        say(is_available=False, dlopen_errors=[str(error)[:LONGEST]])
        return
    say(loads=True)


ASK = {"about": about, "torch": torch, "jax": jax, "tensorflow": tensorflow, "cupy": cupy,
       "onnxruntime": onnxruntime}  # fmt: skip

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
