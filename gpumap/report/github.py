"""A report for the log of a step of GitHub Actions: plain text, then annotations.

A step has two places, and one text cannot be right for both. Its log takes lines as they are and
obeys those that are workflow commands, on stdout and stderr alike; its summary is a file that is
read as Markdown. So this format is for the log alone, and Markdown is for the summary:

    gpumap bench dot --format github --output markdown="$GITHUB_STEP_SUMMARY"

(a second command of a step adds to the summary by `--format markdown >> "$GITHUB_STEP_SUMMARY"`).

Annotations: `::error` for each error of the run, and so for each verdict that is no pass;
`::warning` for warnings, and for what was let pass; `::notice` for notes. A run with another exit
code than 0 has one, whatever else it lacks. GitHub shows ten of a type beside a step; its log has
all of them. In messages % and line breaks are escaped as GitHub's toolkit does, in properties : and
, too. The headline is the first one.

A line of text can be no command: the runner takes it for one if it begins with `::` (after blanks),
or has `##[` anywhere, and compares as people read, past marks of no width. What it would take so is
written as an escape.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from gpumap.escape import printable
from gpumap.report import Style, plain
from gpumap.report.diagnostics import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.errors import Diagnostic
    from gpumap.report.parts import Shown

    Level = Literal["error", "warning", "notice"]

_OF_SEVERITY: dict[str, Level] = {"error": "error", "warning": "warning", "note": "notice"}
_BEYOND = r"[^\x00-\x7f]*"  # marks of no width are not ASCII
_BEGIN = re.compile(rf"^([^!-~]*):({_BEYOND}):")
_INSIDE, _ESCAPED = re.compile(rf"#({_BEYOND})#({_BEYOND})\["), r"#\1\\x23\2["


def render(shown: Shown, style: Style) -> str:
    """Return the report as lines of a log."""
    plainly = plain.render(shown, style).splitlines()
    text = (_INSIDE.sub(_ESCAPED, _BEGIN.sub(r"\1:\2\\x3a", line)) for line in plainly)
    return "".join(f"{line}\n" for line in (*text, *_annotations(shown)))


def _annotations(shown: Shown) -> Iterator[str]:
    for level, code, message in _messages(shown):
        title = _data(f"gpumap {shown.report.kind}: {code}")
        title = title.replace(":", "%3A").replace(",", "%2C")
        yield f"::{level} title={title}::{_data(*message)}"


def _messages(shown: Shown) -> Iterator[tuple[Level, str, Sequence[str]]]:
    """Yield what is to be annotated: its level, its code and the lines of its message."""
    yield "notice", "headline", (shown.headline.text,)
    for problem in shown.report.errors:
        level = _OF_SEVERITY[problem.diagnostic.severity] if problem.exit == 0 else "error"
        yield level, problem.diagnostic.code, _message(problem.diagnostic)
    for note in shown.report.notes:
        yield _OF_SEVERITY[note.severity], note.code, _message(note)
    run = shown.outcome
    if run.state != "passed" and all(problem.exit == 0 for problem in shown.report.errors):
        yield "notice" if run.state == "skipped" else "error", run.word, (run.text,)


def _message(found: Diagnostic) -> tuple[str, ...]:
    """Return a message with its fix on a line of its own."""
    entry = "" if found.entry is None else f"entry {found.entry}: "
    hint = () if found.hint is None else (f"{remedy(found)}: {found.hint}",)
    return f"{entry}{found.message}", *hint


def _data(*lines: str) -> str:
    text = "\n".join(map(printable, lines))
    return _INSIDE.sub(_ESCAPED, text).replace("%", "%25").replace("\n", "%0A")
