"""`gpumap devices` as a table: which backends drive each card."""

import made_reports

from gpumap.model import DeviceRef, Kind, replace
from gpumap.results import listed


def driven(*devices):
    """Return the rows that say who drives each card."""
    report = replace(made_reports.listed(), devices=devices)
    (section,) = listed.sections(report, report.result, verbose=False)
    tables = [part for part in section.parts if getattr(part, "title", "") == listed.DRIVEN]
    return [table.rows for table in tables]


def test_a_card_that_several_backends_drive_says_which():
    """It is one card by its hardware: the first backend drives it unless another is requested."""
    first, second = made_reports.device(0), made_reports.device(1)
    torch = replace(first, backend="torch")
    opencl = replace(first, id="opencl:0:1", kind=Kind.OPENCL, ref=DeviceRef(Kind.OPENCL, 1, 0),
                     backend="pyopencl")  # fmt: skip
    assert driven(opencl, first, second, torch) == [(
        ("cuda0", "Fake device", "fake, torch, pyopencl (as opencl0:1)"),
        ("cuda1", "Fake device", "fake"),
    )]  # fmt: skip


def test_where_each_card_has_one_backend_its_list_says_so_already():
    """And what each backend makes of cores, which are no cards, is in its own list."""
    assert driven(made_reports.device(0), made_reports.device(1)) == []
    cores = replace(made_reports.device(), kind=Kind.CPU, ref=DeviceRef(Kind.CPU, 0))
    assert driven(cores, replace(cores, backend="torch")) == []
