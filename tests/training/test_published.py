"""The published table: reproduced to the printed digit, and what its cells say of exchanges."""

import pytest

from gpumap.training.published import table

TABLE = table("theano-mpi")


def test_the_table_is_as_published():
    """Each cell is printed as it stands; speed-ups are of the times, not of rounded figures."""
    texts = {(cell.row, cell.devices): cell.text for cell in TABLE.cells}
    assert len(texts) == 20
    assert texts["AlexNet-128b", 1] == "20.50"
    assert texts["ResNet50-64b", 8] == "20.12+0.57"
    last = next(c for c in TABLE.cells if (c.row, c.devices) == ("ResNet50-64b", 8))
    assert last.metrics["speedup"].value == pytest.approx(163.15 / 20.69, abs=1e-12)
    assert last.metrics["efficiency"].value == pytest.approx(163.15 / 20.69 / 8, abs=1e-12)
    assert last.nbytes == 4 * 25_557_032


def test_what_is_above_one_is_labelled_and_left_as_it_is():
    above = [cell for cell in TABLE.cells if "super-linear-compute" in cell.flags]
    assert above
    assert all(cell.metrics["compute_efficiency"].value > 1.0 for cell in above)
