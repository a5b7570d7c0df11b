"""Edited reports: what is done with them may fail wherever an edit is of no run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpumap.errors import GpumapError, SourceError
from gpumap.model import io
from gpumap.model.json_text import MEASURED
from gpumap.text import label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpumap.model import Report

_FAILURES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def was_edited(report: Report) -> bool:
    """Return whether a report was edited; one that compares an edited one has its note alone."""
    return any(note is io.EDITED for note in report.notes)


@contextmanager
def refused(files: Sequence[Path], reports: Sequence[Report]) -> Iterator[None]:
    """Refuse edited reports of which something cannot be shown or judged.

    Args:
        files: where the reports are from.
        reports: as they were read; of those that were not edited a failure is gpumap's own.

    Raises:
        SourceError: something of Python failed; the message names the edited files.
    """
    try:
        yield
    except GpumapError:
        raise
    except _FAILURES as error:
        pairs = zip(files, reports, strict=True)
        edited = [str(path) for path, report in pairs if was_edited(report)]
        if not edited:
            raise
        why = label(f"{type(error).__name__}: {error}")
        message = f"cannot use the report {', '.join(edited)}: an edit is of no run ({why})"
        raise SourceError(message, MEASURED) from error
