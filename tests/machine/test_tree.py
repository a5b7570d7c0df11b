from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import listed

from gpumap.machine.tree import CPUS_MAX, Tree, cpu_list, number

pieces = st.text("0123456789-, \n\x00x٣", max_size=200)


@pytest.mark.parametrize(("text", "expected"), [
    ("0", (0,)), ("0-3", (0, 1, 2, 3)), ("0-1,64-65", (0, 1, 64, 65)), (" 2,3,6-7\n", (2, 3, 6, 7)),
    ("7,0-2,1-3", (0, 1, 2, 3, 7)), ("", ()), ("5-3", ()), ("x,1,-,2-,-3,4", (1, 4)), ("٣", ()),
    ("70000", ()), ("9" * 5000, ())])  # fmt: skip
def test_cpu_list(text, expected):
    """A list gives its numbers in ascending order, each once; parts that do not parse give none."""
    assert cpu_list(text) == expected


def test_cpu_list_is_capped():
    """A range without end is cut where no processor can be; many of them cost no more than one."""
    assert cpu_list("0-99999999999") == tuple(range(CPUS_MAX))
    assert cpu_list("0-65535," * 20_000) == tuple(range(CPUS_MAX))


@given(st.one_of(pieces, st.text(max_size=50)))
def test_cpu_list_never_raises(text):
    cpus = cpu_list(text)
    assert list(cpus) == sorted(set(cpus))
    assert all(0 <= cpu < CPUS_MAX for cpu in cpus)


@given(st.sets(st.integers(0, CPUS_MAX - 1), max_size=300))
def test_cpu_list_round_trips(cpus):
    assert cpu_list(listed(cpus)) == tuple(sorted(cpus))


@pytest.mark.parametrize(("text", "base", "expected"), [
    ("12", 10, 12), (" -1\n", 10, -1), ("0x10de", 16, 0x10DE), ("", 10, None), (None, 10, None),
    ("max", 10, None), ("9" * 5000, 10, None)])  # fmt: skip
def test_number(text, base, expected):
    """A number is all of a text, or there is none."""
    assert number(text, base) == expected


def test_a_file_that_cannot_be_read_is_none(sketch):
    tree = Tree(sketch.file("folder/file", b" \xff\x00 text \n").root)
    assert tree.text("folder/file") == "\ufffd\x00 text"
    assert [tree.text(path) for path in ("none", "folder", "a\0b")] == [None, None, None]
    assert [tree.names(path) for path in ("none", "folder", "a\0b")] == [(), ("file",), ()]


@pytest.mark.parametrize(("root", "live"), [("/", True), ("/tmp", False)])  # noqa: S108
def test_live(root, live):
    """Only the real root is the running system."""
    assert Tree(Path(root)).live is live
