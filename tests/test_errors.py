"""The tree of errors: drawn as it is, each with the exit code that it ends in."""

import inspect
import pickle
import traceback

import pytest

from gpumap import errors
from gpumap.errors import Diagnostic, GpumapError, MapError, QuestionError

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, GpumapError)]


@pytest.mark.parametrize("kind", CLASSES)
def test_a_message_becomes_a_diagnostic(kind):
    """The class gives the code, which is its own; a hint goes with it; a note may be added."""
    error = kind((Diagnostic(kind.code, "it broke", hint="fix it"),))
    error.add_note("while reading a file")
    assert (Diagnostic("question", "no", hint="do"),) == QuestionError("no", "do").diagnostics
    assert (Diagnostic(kind.code, "it broke"),) == kind("it broke").diagnostics
    assert (str(error), error.__notes__) == ("it broke", ["fix: fix it", "while reading a file"])
    assert len(CLASSES) == len({c.code for c in CLASSES})


def test_a_traceback_shows_each_fix_once():
    """Below the message, which stays as it is; without a hint there is no note."""
    twice = [Diagnostic("x", text, hint="do") for text in ("one", "two")]
    error = MapError((*twice, Diagnostic("x", "three", hint="wait"), Diagnostic("x", "four")))
    shown = "".join(traceback.format_exception(error))
    assert shown == "gpumap.errors.MapError: one; two; three; four\nfix: do\nfix: wait\n"
    assert str(error) == "one; two; three; four"
    assert not hasattr(QuestionError("no"), "__notes__")


def test_a_copy_has_the_fixes_once():
    """As one that comes from another process; several problems are one error."""
    error = QuestionError("no", "do")
    both = (Diagnostic("x", "one"), Diagnostic("y", "two"))
    joined = MapError(both, "text")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["fix: do"]  # noqa: S301 - our own
    assert (both, "one; two", "text") == (joined.diagnostics, str(joined), joined.text)
