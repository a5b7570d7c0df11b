"""Diagnostics as HTML: what is wrong, where it stands in the map, and how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.report.diagnostics import SHOWN, place
from gpumap.report.page.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.errors import Diagnostic

_TONES = {"error": "bad", "warning": "unclear"}


def told(diagnostics: Sequence[Diagnostic], text: str | None) -> Iterator[str]:
    """Yield the diagnostics as a list, as many as on a terminal; `text` is what was parsed."""
    if not diagnostics:
        return
    yield '<ul class="told">'
    for found in diagnostics[:SHOWN]:
        yield f"<li>{''.join(_parts(found, text))}</li>"
    if len(diagnostics) > SHOWN:
        yield f"<li>and {len(diagnostics) - SHOWN} more; --format json lists them all</li>"
    yield "</ul>"


def _parts(found: Diagnostic, text: str | None) -> Iterator[str]:
    entry = "" if found.entry is None else f" in entry {found.entry}"
    severity = f'<span class="label {_TONES.get(found.severity, "")}">{found.severity}</span>'
    yield f"<p>{severity}{entry}: {shown(found.message)}</p>"
    if text and found.span is not None:
        yield f"<pre>{'&#10;'.join(map(shown, place(text, found.span)))}</pre>"
    if found.hint is not None:
        label = "fix" if found.severity == "error" else "hint"
        yield f'<p><span class="label">{label}</span>: {shown(found.hint)}</p>'
