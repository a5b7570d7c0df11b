"""The kernels' CUDA text compiles for every architecture in use; that takes no GPU, only NVRTC."""

import pytest

from gpumap.kernels import GROUP, KERNELS

nvrtc = pytest.importorskip(
    "cupy_backends.cuda.libs.nvrtc", reason="NVRTC through CuPy: pip install cupy-cuda13x"
)
ARCHITECTURES = ("compute_75", "compute_80", "compute_90", "compute_100", "compute_120")
REAL = ("float", "double")
ELEMENTWISE = [name for name, kernel in KERNELS.items() if kernel.file == "elementwise.c"]
TRAINING = [name for name, kernel in KERNELS.items() if kernel.file == "training.c"]


@pytest.fixture(scope="module", autouse=True)
def _library():
    try:
        nvrtc.getVersion()
    except RuntimeError as error:  # what CuPy raises where it finds none
        pytest.skip(f"NVRTC: {error} (pip install nvidia-cuda-nvrtc)")


def compiled(text, architecture, element, **constants):
    """Return the PTX of a text for a type of elements, or raise NVRTC's error with its log."""
    built = {"ELEMENT": element, "REAL": element, **constants}
    options = (f"-arch={architecture}", *(f"-D{name}={value}" for name, value in built.items()))
    program = nvrtc.createProgram(text, "elementwise.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return nvrtc.getPTX(program).decode()
    except nvrtc.NVRTCError as error:
        raise AssertionError(nvrtc.getProgramLog(program)) from error
    finally:
        nvrtc.destroyProgram(program)


SMALL, ONE, LARGE = ({"INNER": inner, "COLUMNS": columns} for inner, columns in
                     ((10, 5), (1, 1), (16, 16)))  # fmt: skip


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("kernel", "constants", "entries"), [
    ("fill", {"GROUP": GROUP}, ELEMENTWISE), ("sgd", {}, TRAINING),
    *(("chain", sizes, ["chain"]) for sizes in (SMALL, ONE, LARGE)),
])  # fmt: skip
def test_every_kernel_is_an_entry_of_the_compiled_text(kernel, constants, entries, architecture):
    """A chain is built for its weights, of any size that registers hold: it shares no memory."""
    for element in REAL:
        text = KERNELS[kernel].text("cuda")
        ptx = compiled(text, architecture, element, **constants)
        assert all(f".entry {name}(" in ptx for name in entries)
        assert kernel != "chain" or ".shared" not in ptx
