"""Quantities for people, and quantities that people write."""

import pytest
from tables import table

from gpumap import units
from gpumap.units import duration, memory, nbytes, quantity, share

TABLE = table(__file__)
READERS = {"duration": duration, "share": share, "nbytes": nbytes}


@pytest.mark.parametrize(("nbytes", "text"), TABLE["memory"])
def test_memory_is_in_binary_units(nbytes, text):
    assert text == memory(nbytes)


@pytest.mark.parametrize(("values", "unit", "shown"), TABLE["figures"])
def test_a_figure_has_three_digits_and_the_prefix_of_what_is_shown(values, unit, shown):
    """What rounds up to a thousand has the next prefix; its interval has the same one."""
    assert units.same_prefix(values, unit) == shown
    assert unit != "1/s" or units.quantity(shown[0], unit) == values[0]  # a limit may be so written


@pytest.mark.parametrize(("numbers", "text"), TABLE["numbers"])
def test_numbers_are_listed_as_the_kernel_does(numbers, text):
    """In their order, each once; neighbours as a range, and no number that is not there."""
    assert units.ranges(numbers) == text


@pytest.mark.parametrize(("read", "texts"), TABLE["written"])
def test_what_people_write_has_a_unit_that_means_one_thing(read, texts):
    """Seconds where there is none; bytes: binary units have an i; a share has its sign."""
    assert {text: READERS[read](text) for text in texts} == texts


@pytest.mark.parametrize(("text", "unit", "value"), TABLE["quantities"])
def test_a_quantity_has_the_unit_of_its_metric(text, unit, value):
    """To the last bit what the decimal says; a ratio needs no unit."""
    assert value == quantity(text, unit)


@pytest.mark.parametrize(("unit", "fix", "texts"), table(__file__, "units_parsing")["wrong"])
def test_what_is_no_quantity(unit, fix, texts):
    """Other units and digits, nothing, or what may mean two things: a message ends in the fix."""
    for text in texts:
        with pytest.raises(ValueError, match="write") as error:
            READERS[unit](text) if unit in READERS else quantity(text, unit)
        assert str(error.value).startswith(f"{text!r} ")
        assert str(error.value).endswith(fix)
