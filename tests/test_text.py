"""Hostile text: nothing that a terminal acts on gets through, and the width is what it shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from gpumap.text import printable, width

TABLE = table(__file__)


@pytest.mark.parametrize(("text", "expected"), [
    ("dev0 [bold]é名🦊", "dev0 [bold]é名🦊"), ("a\n\t\rb", r"a\n\t\rb"), ("\x1b[31m", r"\x1b[31m"),
    ("\0\x7f\x9b", r"\x00\x7f\x9b"), ("\u202e\u200f\u200b\ufeff", r"\u202e\u200f\u200b\ufeff"),
    ("\u2028\u2029\xa0\u3000", r"\u2028\u2029\xa0\u3000"), ("\ud800\udfff", r"\ud800\udfff"),
    ("\ue000", r"\ue000"), ("\U000e0001\U0010ffff", r"\U000e0001\U0010ffff"), ("", ""),
])  # fmt: skip
def test_what_a_terminal_could_act_on_is_an_escape(text, expected):
    """Escapes are written as Python writes them; all else stays as it is."""
    assert expected == printable(text)


@given(text=st.text(st.characters()))
def test_nothing_else_is_left_and_nothing_happens_twice(text):
    """The result is printable, and escaping it again changes nothing."""
    escaped = printable(text)
    assert escaped.isprintable()
    assert escaped == printable(escaped)


@pytest.mark.parametrize(("text", "columns"), TABLE["width_is_in_columns"])
def test_width_is_in_columns(text, columns):
    """Wide characters take two, what is drawn over another takes none."""
    assert columns == width(text)


@pytest.mark.parametrize(("text", "shown"), TABLE["no_line_is_a_command_of_a_runner"])
def test_no_line_is_a_command_of_a_runner(text, shown):
    """GitHub's obeys :: at the start of a line, and ##[ anywhere."""
    assert shown == printable(text) == printable(printable(text))
