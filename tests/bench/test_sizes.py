"""Sizes as a user writes them; too much memory is a wrong question, told before any is taken."""

import re
from types import SimpleNamespace

import pytest
from judge.copy_rows import core, gpu, named
from tables import table

from gpumap.engine.needs import check_memory
from gpumap.engine.sizes import counts, squares, transfers
from gpumap.errors import QuestionError
from gpumap.model import Plan

TABLES = table(__file__)
READ = {"squares": squares, "transfers": transfers, "counts": counts}
OPTION = {"squares": "--size: ", "transfers": "--sizes: ", "counts": "--devices: "}


@pytest.mark.parametrize(("read", "text", "sizes"), TABLES["right"])
def test_sizes_as_they_are_written(read, text, sizes):
    """Single ones, several in their order, a range by a factor; two words of Theano's users."""
    assert list(READ[read](text)) == sizes


@pytest.mark.parametrize(
    ("read", "text", "said"), [*TABLES["wrong"], ("counts", "9" * 5000, f"'{'9' * 79}…' ")]
)
def test_what_is_no_size(read, text, said):
    """The message names the option, what is wrong with which part, and the fix."""
    with pytest.raises(QuestionError, match=re.escape(said)) as error:
        READ[read](text)
    assert str(error.value).startswith(OPTION[read])
    assert all(each.hint for each in error.value.diagnostics)
    assert len(str(error.value)) < 200  # a message is no place for thousands of digits


GIB = 1 << 30
FIX = ("too-much-memory", "choose a smaller size")


def cuda(number=0, *, free=10 * GIB, **others):
    return gpu(number, memory_free=free, **others)


def problems(plan, *devices, available=10 * GIB):
    try:
        check_memory(plan, named(*devices), SimpleNamespace(memory_available=available))
    except QuestionError as error:
        return [d.message for d in error.diagnostics if (d.code, d.hint) == FIX]
    return []


def lacks(place, need, free=10):
    return f"{place} would need {need}.0 GiB, and has {free}.0 GiB free"


DEVICES = {
    "cuda0": cuda(), "cuda1": cuda(1), "one GiB": cuda(free=None, memory_total=GIB),
    "unknown": cuda(free=None), "cpu0": core(0), "cpu1": core(1),
    "some cores": cuda(pci=None, cores=(), facts={"type": "other"}),
}  # fmt: skip


@pytest.mark.parametrize(("memory", "devices", "said"), TABLES["plans"])
def test_a_plan_takes_nine_tenths_of_what_is_free(memory, devices, said):
    plan = Plan((), {place: int(gib * GIB) for place, gib in memory.items()})
    found = problems(plan, *(DEVICES[name] for name in devices))
    assert found == [lacks(*each) for each in said]


def test_one_buffer_may_be_too_large():
    device = cuda(facts={"largest_buffer": GIB})
    for largest, said in ((GIB, []), (GIB + 1, [lacks("one buffer of cuda0", 1, 1)])):
        assert said == problems(Plan((), {"cuda:0": 2 * GIB}, largest), device)
