"""Everything that gpumap raises on purpose, and the exit code that each one ends in.

GpumapError
├── QuestionError            2   the question is wrong: an option, a map, a file, too much memory
│   ├── MapError                 the map does not parse; carries every problem at once
│   ├── SourceError              a place that should hold a map or a setting cannot be read
│   ├── ContextError             a context is closed, or another one's array was given to it
│   ├── TargetError              a name that the map has not (also a LookupError)
│   ├── ShapeError               operands whose shapes do not fit (also a ValueError)
│   ├── DtypeError               elements of a type that is not there (also a TypeError)
│   └── ImplicitTransfer         an array is needed elsewhere, and the policy is strict
├── AbsentError              3   a device or backend that was requested is not there
├── BusyError                3   others use the machine, and it was to be idle
├── DeviceError              3   a device that was there failed
│   ├── DeviceLost               it no longer answers
│   ├── Diverged                 what is trained on it is no longer a number
│   └── OutOfMemory              it has no room for the buffer
│       └── NoHostMemory         host memory of a special kind is not available
├── Unsupported              2   a backend or device cannot do what was asked
├── TimedOut               124   a run that was started from Python ran out of its time limit
└── WrongDataError           4   the bytes or the product are not what they must be
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Literal, NamedTuple

from gpumap.escape import printable

Severity = Literal["error", "warning", "note"]


class Exit(IntEnum):
    """The exit codes of every command; never a count."""

    OK = 0
    NO = 1
    QUESTION = 2
    ABSENT = 3
    WRONG_DATA = 4
    INCONCLUSIVE = 5
    INTERNAL = 70
    TIMEOUT = 124
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class Span(NamedTuple):
    """A half-open range of characters in the text of a map."""

    start: int
    stop: int


class Diagnostic(NamedTuple):
    """One message to the user: what is wrong, where, and how to fix it.

    Attributes:
        code: Stable; what a script may look at.
        message: What it is, in words; these may change.
        entry: The entry of the map that it is about, from 1.
        span: Half-open range of characters in source.text.
        hint: How to fix it.
        severity: How much it matters; --strict makes a warning an error.
        name: The name in the map that it is about.
    """

    code: str
    message: str
    entry: int | None = None
    span: Span | None = None
    hint: str | None = None
    severity: Severity = "error"
    name: str | None = None


class GpumapError(Exception):
    """The root of all deliberate errors; one or more diagnostics and an exit code.

    The fix is a note of it (PEP 678), so that a traceback shows it: ``fix: ...``. A traceback is
    written by Python: so its own text and its notes are printable, and its diagnostics as they are.
    """

    exit_code: ClassVar[Exit] = Exit.INTERNAL
    code: ClassVar[str] = "internal"

    def __init__(self, problem: str | tuple[Diagnostic, ...], hint: str | None = None) -> None:
        if isinstance(problem, str):
            problem = (Diagnostic(self.code, problem, hint=hint),)
        self.diagnostics = problem
        super().__init__(printable("; ".join(d.message for d in problem)))
        for note in self.fixes:
            self.add_note(printable(note))

    @property
    def fixes(self) -> tuple[str, ...]:
        """Return its fixes, each once."""
        return tuple(dict.fromkeys(f"fix: {d.hint}" for d in self.diagnostics if d.hint))


class QuestionError(GpumapError):
    """The question is wrong."""

    exit_code = Exit.QUESTION
    code = "question"


class MapError(QuestionError):
    """The map does not parse."""

    code = "map"

    def __init__(self, problem: str | tuple[Diagnostic, ...], text: str = "") -> None:
        super().__init__(problem)
        self.text = text


class SourceError(QuestionError):
    """A file or variable that should hold a map or a setting cannot be used."""

    code = "source"


class ContextError(QuestionError):
    """A context cannot be used: it is closed, forked, or not the array's own."""

    code = "context"


class TargetError(QuestionError, LookupError):
    """A name that the map has not."""

    code = "target"


class ShapeError(QuestionError, ValueError):
    """Operands whose shapes do not fit."""

    code = "shape"


class DtypeError(QuestionError, TypeError):
    """Elements of a type that is not there, or of two types in one operation."""

    code = "dtype"


class ImplicitTransfer(QuestionError):
    """An array is not where an operation, or NumPy, needs it, and the policy is strict."""

    code = "implicit-transfer"


class AbsentError(GpumapError):
    """A device or backend that was requested is not there."""

    exit_code = Exit.ABSENT
    code = "absent"


class BusyError(GpumapError):
    """Others use the machine, and it was to be idle."""

    exit_code = Exit.ABSENT
    code = "busy"


class DeviceError(GpumapError):
    """A device that was there failed."""

    exit_code = Exit.ABSENT
    code = "device"


class DeviceLost(DeviceError):
    """A device no longer answers."""

    code = "device-lost"


class Diverged(DeviceError):
    """What is trained is no longer a number."""

    code = "diverged"


class OutOfMemory(DeviceError):
    """A device has no room for a buffer."""

    code = "out-of-memory"


class NoHostMemory(OutOfMemory):
    """Pinned memory is not available; never replaced by another kind."""

    code = "no-host-memory"


class Unsupported(GpumapError):
    """A backend or device cannot do what was asked; never a silent fall-back."""

    exit_code = Exit.QUESTION
    code = "unsupported"


class TimedOut(GpumapError):
    """A run that was started from Python ran out of its time limit."""

    exit_code = Exit.TIMEOUT
    code = "timeout"


class WrongDataError(GpumapError):
    """Bytes or a product are not what they must be."""

    exit_code = Exit.WRONG_DATA
    code = "wrong-data"


# Of a command that ran as a child process, by its exit code.
BY_EXIT: dict[int, type[GpumapError]] = {
    Exit.QUESTION: QuestionError,
    Exit.ABSENT: AbsentError,
    Exit.WRONG_DATA: WrongDataError,
    Exit.TIMEOUT: TimedOut,
}
