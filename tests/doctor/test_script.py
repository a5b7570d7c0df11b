"""What a program's text says of its configuration: parsed, never run; hostile text is a message."""

import pytest
from refusals import refusal
from tables import table

from gpumap.doctor.script import LIMIT, Late, read
from gpumap.errors import SourceError

TABLE = table(__file__)
ARTICLE_1 = TABLE["article_1"]
ARTICLE_2 = TABLE["article_2"]


def said(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path)


def test_an_option_behind_the_import(tmp_path):
    """The article's second example: Theano raises at that line. The first one sets nothing."""
    found, first = said(tmp_path, ARTICLE_2), said(tmp_path, ARTICLE_1)
    assert found.option == Late(3, "theano.config.device = 'cuda'", "theano", 1)
    trace = tmp_path / "trace"
    nothing = said(tmp_path, f"open({str(trace)!r}, 'w')\n")  # it is not run
    assert not trace.exists()
    assert {(e.option, e.variables) for e in (first, nothing)} == {(None, ())}


@pytest.mark.parametrize(("text", "late"), TABLE["late"])
def test_a_variable_behind_the_import_of_who_reads_it(tmp_path, text, late):
    """Above it, or of another library, it is right; what never runs, or may not yet, counts not."""
    assert bool(said(tmp_path, text).variables) == late


NESTED = "if 1:\n" + "".join(" " * n + "if 1:\n" for n in range(1, 200))


@pytest.mark.parametrize("text", [
    "def (", "x = (" * 5000, "(" * 200_000, "-" * 200_000 + "1", b"\xff\xfe\x00", b"x = 1\0",
    "#" * (LIMIT + 1), "x\n  y\n", NESTED, "print 'x'\n", "x = 'é'\n".encode("latin-1"),
], ids=range(11))  # fmt: skip
def test_hostile_text_ends_in_a_message(tmp_path, text):
    assert str(tmp_path / "program.py") in refusal(SourceError, said, tmp_path, text).message


@pytest.mark.parametrize("text", ["a" + ".b" * 50_000 + " = 1", "a = 1\n" * 50_000, ""])
def test_odd_text_does_no_harm(tmp_path, text):
    try:
        assert said(tmp_path, text).option is None
    except SourceError as error:
        assert "no Python 3" in str(error)  # noqa: PT017 - it need not come to that
