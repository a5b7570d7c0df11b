"""Published tables: reproduced to the printed digit, computed anew, and predicted."""

import pytest
import tables
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from gpumap.errors import SourceError
from gpumap.training import published
from gpumap.training.published import cell, select_rows, shipped, table, with_models

TABLES = tables.table(__file__)
HEADER = "network,devices,train_s,comm_s,batch,examples,bytes\n"


def test_a_row_must_be_there():
    said = refusal(SourceError, select_rows, table(shipped(), "theano-mpi"), ["AlexNet"])
    assert said.message == "theano-mpi has no row AlexNet"
    assert "AlexNet-128b, GoogLeNet-32b" in said.hint


EXACT = st.integers(1, 9)


@given(EXACT, EXACT)
def test_cells_that_go_by_the_model_are_predicted(fixed, slow):
    """A table that was made by a fixed cost and a bandwidth; with one link, no second is needed."""
    cells = []
    for name, size in (("a", 1.0), ("b", 3.0), ("c", 8.0)):
        for devices in (2, 4, 8):
            exchange = fixed / 100 + 2 * (devices - 1) / devices * size * slow / 100
            seconds = exchange * 64 / devices
            cells.append(cell(name, devices, f"1.5+{seconds:.9f}", 10, 640, round(size * 1e6)))
    found = with_models(published.Published("made", (), tuple(cells)))
    assert all(abs(each.miss) < 1e-5 for model in found.models for each in model.exchanged)
    assert len(found.models) == 3
    assert found.others == ()


@pytest.mark.parametrize("lines", TABLES["modelless"])
def test_without_what_it_takes_there_is_no_model(lines):
    found = table(HEADER + lines, "t.csv")
    assert (found.models, found.fitted, found.others) == ((), (), ())


def test_without_one_device_there_is_no_speed_up():
    (found,) = table("network,devices,train_s\nx,2,5\n", "t.csv").cells
    assert list(found.metrics) == ["time"]
    assert (found.row, found.comm, found.nbytes) == ("x", None, None)
    text = "network,devices,train_s,bytes\nvgg16,1,5,\nVGG16,2,3,7\n"
    assert [c.nbytes for c in table(text, "t.csv").cells] == [4 * 138_357_544, 7]


@pytest.mark.parametrize(("text", "problems"), TABLES["unreadable"])
def test_a_table_that_cannot_be_read(text, problems):
    with pytest.raises(SourceError) as raised:
        table(text, "t.csv")
    said = [
        d.message.removeprefix("cannot read the table t.csv: ") for d in raised.value.diagnostics
    ]
    assert said == problems
    assert all(d.hint for d in raised.value.diagnostics)


@given(st.text(max_size=200) | st.text('network,devicstrain_m0123456789.\n"', max_size=200))
def test_whatever_a_file_holds_it_is_read_or_refused(text):
    try:
        told = table(text, "t.csv").cells
    except SourceError as error:
        told = [d.hint for d in error.diagnostics]
    assert told
