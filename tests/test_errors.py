"""The tree of errors: drawn as it is, each with the exit code that it ends in."""

import inspect
import pickle
import re
import traceback

import pytest

from gpumap import errors
from gpumap.errors import (
    Diagnostic,
    Exit,
    GpumapError,
    MapError,
    OutOfMemory,
    QuestionError,
)

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, GpumapError)]


def drawn():
    """Yield (name, parent, exit code) of each line of the docstring's tree; a code is inherited."""
    above = []
    for line in errors.__doc__.splitlines():
        match = re.match(r"([│├└─ ]*)([A-Z]\w+)(?: +(\d+))?(?: |$)", line)
        if match is None or (not match[1] and match[2] != "GpumapError"):
            continue
        depth = len(match[1]) // 4
        name, _, code = parent = above[depth - 1] if depth else (None, None, Exit.INTERNAL)
        code = int(match[3] or code)
        above[depth:] = [(match[2], parent[0], code)]
        yield match[2], name, code


@pytest.mark.parametrize("error", CLASSES)
def test_a_note_may_be_added(error):
    """Whoever lets an error pass on may say where it came from."""
    raised = error((Diagnostic("x", "wrong", hint="mend it"),))
    raised.add_note("while reading a file")

    assert raised.__notes__ == ["fix: mend it", "while reading a file"]
    assert (str(raised), raised.diagnostics[0].message) == ("wrong", "wrong")


def test_the_tree_in_the_docstring_is_the_tree():
    """Every class stands there once, under its base, with its exit code."""
    actual = {(c.__name__, c.__base__.__name__, int(c.exit_code)) for c in CLASSES}
    actual = {(n, None if n == "GpumapError" else b, code) for n, b, code in actual}

    assert actual == set(drawn())
    assert len(CLASSES) == len(list(drawn()))


def test_each_class_has_a_code_of_its_own():
    """A report names the class of an error by it."""
    assert len(CLASSES) == len({c.code for c in CLASSES})


@pytest.mark.parametrize("kind", CLASSES)
def test_a_message_becomes_a_diagnostic(kind):
    """Text alone is enough; the class gives the code, and no entry of a map is named."""
    error = kind("it broke")

    assert (Diagnostic(kind.code, "it broke"),) == error.diagnostics
    assert str(error) == "it broke"


def test_a_hint_goes_with_it():
    """What would mend it is part of the diagnostic."""
    assert (Diagnostic("question", "no", hint="do"),) == QuestionError("no", "do").diagnostics


def test_a_traceback_shows_each_fix_once():
    """Below the message, which stays as it is; without a hint there is no note."""
    twice = [Diagnostic("x", text, hint="do") for text in ("one", "two")]
    error = MapError((*twice, Diagnostic("x", "three", hint="wait"), Diagnostic("x", "four")))

    shown = "".join(traceback.format_exception(error))
    assert shown == "gpumap.errors.MapError: one; two; three; four\nfix: do\nfix: wait\n"
    assert str(error) == "one; two; three; four"
    assert not hasattr(QuestionError("no"), "__notes__")


def test_a_copy_has_the_fixes_once():
    """As one that comes from another process."""
    error = QuestionError("no", "do")

    assert pickle.loads(pickle.dumps(error)).__notes__ == ["fix: do"]  # noqa: S301 - our own


def test_diagnostics_are_kept_as_they_are():
    """Several problems are one error, and its text holds every message."""
    both = (Diagnostic("x", "one"), Diagnostic("y", "two"))
    error = MapError(both, "text")

    assert (both, "one; two", "text") == (error.diagnostics, str(error), error.text)


def test_exit_codes():
    """They are stable: scripts compare with these numbers."""
    assert {e.name: e.value for e in Exit} == {
        "OK": 0, "NO": 1, "QUESTION": 2, "ABSENT": 3, "WRONG_DATA": 4, "INCONCLUSIVE": 5,
        "INTERNAL": 70, "TIMEOUT": 124, "INTERRUPTED": 130, "CLOSED_PIPE": 141,
    }  # fmt: skip


def test_running_out_of_memory_is_a_failing_device():
    """Who handles a device's failure handles this one too."""
    assert issubclass(OutOfMemory, errors.DeviceError)
