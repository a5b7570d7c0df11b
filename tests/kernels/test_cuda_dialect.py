"""The kernels' CUDA text compiles for every architecture in use; that takes no GPU, only NVRTC."""

import pytest

from gpumap.kernels import GROUP, KERNELS

nvrtc = pytest.importorskip(
    "cupy_backends.cuda.libs.nvrtc", reason="NVRTC through CuPy: pip install cupy-cuda13x"
)
ARCHITECTURES = ("compute_75", "compute_80", "compute_90", "compute_100", "compute_120")
REAL = ("float", "double")
WHOLE = ("fill", "copy")  # what integers can do too
ELEMENTWISE = [name for name, kernel in KERNELS.items() if kernel.file == "elementwise.c"]
TRAINING = [name for name, kernel in KERNELS.items() if kernel.file == "training.c"]
TEXT = KERNELS["fill"].text("cuda")


@pytest.fixture(scope="module", autouse=True)
def _library():
    try:
        nvrtc.getVersion()
    except RuntimeError as error:  # what CuPy raises where it finds none
        pytest.skip(f"NVRTC: {error} (pip install nvidia-cuda-nvrtc)")


def compiled(text, architecture, element, *, real=True, **constants):
    """Return the PTX of a text for a type of elements, or raise NVRTC's error with its log."""
    built = {"ELEMENT": element, **constants} | ({"REAL": element} if real else {})
    options = (f"-arch={architecture}", *(f"-D{name}={value}" for name, value in built.items()))
    program = nvrtc.createProgram(text, "elementwise.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return nvrtc.getPTX(program).decode()
    except nvrtc.NVRTCError as error:
        raise AssertionError(nvrtc.getProgramLog(program)) from error
    finally:
        nvrtc.destroyProgram(program)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("element", [*REAL, "unsigned char", "unsigned int"])
def test_every_kernel_is_an_entry_of_the_compiled_text(element, architecture):
    ptx = compiled(TEXT, architecture, element, real=element in REAL, GROUP=GROUP)
    assert all(f".entry {kernel}(" in ptx for kernel in (ELEMENTWISE if element in REAL else WHOLE))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("element", REAL)
@pytest.mark.parametrize(("inner", "columns"), [(10, 5), (1, 1), (16, 16)])
def test_a_chain_is_built_for_its_weights(element, architecture, inner, columns):
    """Of any size that registers hold; no sum goes by way of memory that threads share."""
    text = KERNELS["chain"].text("cuda")
    ptx = compiled(text, architecture, element, INNER=inner, COLUMNS=columns)
    assert ".entry chain(" in ptx
    assert ".shared" not in ptx


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("element", REAL)
def test_training_is_compiled(element, architecture):
    ptx = compiled(KERNELS["sgd"].text("cuda"), architecture, element)
    assert all(f".entry {name}(" in ptx for name in TRAINING)
