"""What CuPy and NVML tell about devices, and why there are none."""

import pytest

from gpumap.backends.cupy_devices import _uuid, _version


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (None, None),
        (b"", None),
        (bytes(range(16)), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (bytes(range(16)) + b"\0", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"),
    ],
)
def test_a_uuid_is_written_as_nvidia_smi_writes_it(raw, text):
    """Sixteen bytes, in groups."""
    assert text == _uuid(raw)


@pytest.mark.parametrize(("number", "text"), [(13020, "CUDA 13.2"), (12000, "CUDA 12.0")])
def test_a_version_is_written_with_a_point(number, text):
    """CUDA counts in thousands and tens."""
    assert text == _version(number)
