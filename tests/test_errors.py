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
    """Below the message, which stays as it is; of a copy from another process, too."""
    twice = [Diagnostic("x", text, hint="do") for text in ("one", "two")]
    found = (*twice, Diagnostic("x", "three", hint="wait"), Diagnostic("x", "four"))
    error = MapError(found, "text")
    copy = pickle.loads(pickle.dumps(QuestionError("no", "do")))  # noqa: S301 - our own
    shown = "".join(traceback.format_exception(error))
    assert shown == "gpumap.errors.MapError: one; two; three; four\nfix: do\nfix: wait\n"
    assert (error.diagnostics, str(error), error.text) == (found, "one; two; three; four", "text")
    assert copy.__notes__ == ["fix: do"]
    assert not hasattr(QuestionError("no"), "__notes__")
