"""Hostile text; text that fits its room; and words that are not known: what they are names for."""

import io
import re
import shlex
from traceback import format_exception_only
from types import SimpleNamespace

import pytest
from commands.scripts import script
from hypothesis import given
from hypothesis import strategies as st
from report.made_reports import bindings, case
from tables import table

from gpumap.app.launching import tell
from gpumap.bench.dot import DTYPES
from gpumap.errors import Diagnostic, QuestionError, Span
from gpumap.escape import printable
from gpumap.report import plain
from gpumap.report.diagnostics import render
from gpumap.report.table import Table, paragraph
from gpumap.text import ALIASES, chosen, fix, label, middle, nearest, short, width

TABLE = table(__file__)


@pytest.mark.parametrize(
    ("text", "expected"), [*TABLE["escapes"], ("\ud800\udfff", r"\ud800\udfff")]
)
def test_what_a_terminal_or_a_runner_could_act_on_is_an_escape(text, expected):
    """As Python writes it; all else stays. GitHub's obeys :: at the start, and ##[ anywhere."""
    assert expected == printable(text)


@given(text=st.text(st.characters()), start=st.sampled_from(["", " ::", "##[##["]))
def test_nothing_else_is_left_and_nothing_happens_twice(text, start):
    escaped = printable(start + text)
    assert escaped.isprintable()
    assert escaped == printable(escaped)


@pytest.mark.parametrize(("text", "columns"), TABLE["width_is_in_columns"])
def test_width_is_in_columns(text, columns):
    """Wide characters take two, what is drawn over another takes none."""
    assert columns == width(text)


HOSTILE = "a \x1b[2J::error::x ##[error]x \n::error::x \u202e ::error::" + " ::error::" * 9
WRONG = Diagnostic("x", HOSTILE, span=Span(3, 9), hint=HOSTILE)
TABLE_OF_IT = Table(HOSTILE, (HOSTILE, "b"), ((HOSTILE, HOSTILE),), (HOSTILE,))


def told(text):
    program = SimpleNamespace(stderr=io.StringIO())
    tell(program, text, text)
    return program.stderr.getvalue()


WRITERS = {
    "stderr": lambda width: render([WRONG], HOSTILE, width),
    "traceback": lambda _: "".join(format_exception_only(QuestionError(HOSTILE, HOSTILE))),
    "line": lambda _: told(HOSTILE),
    "table": lambda width: plain.written(plain.table(TABLE_OF_IT, width))[:-1],
    "paragraph": lambda width: "\n".join(paragraph(HOSTILE, width)),
}


@pytest.mark.parametrize("width", [30, 80, 1000])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_of_text_lets_it_act(writer, width):
    """However its lines are broken: those of reports are in test_every_format.py."""
    assert not [line for line in WRITERS[writer](width).split("\n") if printable(line) != line]


@pytest.mark.parametrize(("text", "at_end", "in_middle"), TABLE["labels"])
def test_a_label_is_cut_at_its_end_and_a_name_in_its_middle(text, at_end, in_middle):
    """By columns, not characters."""
    assert (label(text, 12), middle(text, 12)) == (at_end, in_middle)


@given(st.lists(st.text(), min_size=1, unique=True), st.integers(3, 40))
def test_nothing_is_wider_than_its_room(names, most):
    for found in (label(names[0], most), middle(names[0], most)):
        assert found.isprintable()
        assert width(found) <= most


@pytest.mark.parametrize(("names", "shown"), TABLE["counts"])
def test_names_that_do_not_fit_become_a_count(names, shown):
    """Those of more than three too."""
    assert short(case("many", bindings(names))) == shown


KNOWN = ("solo", "one", "many", "float32", "Résumé")
MAP = "a->cuda0;b->cuda1"


@pytest.mark.parametrize(("line", "meant_"), table(__file__, "spelling").items())
def test_a_misspelled_word_of_a_closed_list_is_offered_as_it_is_spelled(gpumap, line, meant_):
    """Nothing is for a word that is like none."""
    answer = gpumap.fake(script())(*shlex.split(line), GPUMAP_CONTEXTS=MAP)
    assert answer.code == 2
    assert re.findall(r"did you mean ([^?]+)\?", answer.err) == [meant_] * bool(meant_)


@given(st.text(max_size=200))
def test_what_is_offered_is_known(word):
    """Whatever was typed; a known word is its own nearest one, in whatever case."""
    assert set(nearest(word, KNOWN, 3)) <= set(KNOWN)
    assert all(nearest(name.swapcase(), KNOWN) == (name,) for name in KNOWN)
    assert fix(word, (), "else") == "else"


@pytest.mark.parametrize(("name", "dtype"), [*ALIASES.items(), ("FP16", "float16")])
def test_a_type_has_the_names_that_others_give_it(name, dtype):
    assert chosen(name, DTYPES, "type", "--dtype") == (dtype,)
