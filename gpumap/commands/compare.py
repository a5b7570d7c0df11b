"""`gpumap compare`: what changed from one saved report to another?"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpumap.commands.options import FileType, edited_option, output_options, setting
from gpumap.commands.terms import terms_options
from gpumap.errors import Diagnostic, QuestionError
from gpumap.escape import printable

if TYPE_CHECKING:
    from pathlib import Path

    from gpumap.commands.comparing import Judged
    from gpumap.commands.output import Output
    from gpumap.commands.program import Program
    from gpumap.commands.recording import Recording
    from gpumap.judge.compare import Terms
    from gpumap.model import Acceptance, Problem, Report

_NO_LIMIT = 1e6  # seconds: what is measured once more has a time limit of its own
_REASON = 'say why: --accept "the new BLAS is slower at small sizes"'


@click.command()
@click.argument("base", type=FileType())
@click.argument("new", type=FileType())
@click.option("--accept", metavar="REASON", help="Write NEW over BASE, with the reason inside.")
@edited_option
@terms_options
@setting("--inconclusive", type=click.Choice(["fail", "pass"]), default="fail",
         show_default=True, help="pass: what cannot be told is exit 0, and said.")  # fmt: skip
@output_options
@click.pass_obj
def compare(
    program: Program,
    *,
    base: Path,
    new: Path,
    accept: str | None,
    accept_edited: bool,
    terms: Terms,
    inconclusive: Any,
    output: Output,
) -> None:
    """Judge the saved report NEW against the saved report BASE.

    Rows are joined by id. Each time, through its anchor, and each speed-up is a regression (exit
    1), an improvement, the same or inconclusive (exit 5), by its interval against --threshold. A
    row that only one report has is exit 1, and reports that cannot be compared are exit 2.
    """
    from gpumap import saved
    from gpumap.commands.comparing import judged
    from gpumap.commands.recording import Recording
    from gpumap.judge.compare import Against

    if accept is not None and not accept.strip():
        raise QuestionError("--accept has no reason", _REASON)
    shown = {"base": str(base), "new": str(new), "inconclusive": inconclusive}
    with Recording("compare", program, output, shown, time_limit=_NO_LIMIT) as record:
        before, after = (saved.read(path, edited=accept_edited) for path in (base, new))
        record.remarks += [note for note in (*before.notes, *after.notes) if note is saved.EDITED]
        shown |= Against(str(base), before, terms).settings
        show_machine(record, after)
        found = judged(before, after, terms, program)
        record.remarks += found.notes
        if accept is not None:
            found = _accepted(record, base, before, after, found, accept)
        record.judge = partial(_concluded, found=found, inconclusive=inconclusive)


def show_machine(record: Recording, new: Report) -> None:
    """Let the report be of the machine and the map of one that was saved."""
    from gpumap.model import Resolution

    record.source, record.map = new.source, new.map
    record.devices, record.probes = new.devices, new.backends
    record.fingerprint = new.fingerprint
    if new.map is not None:
        record.resolution = Resolution(new.map, new.bindings)


def _concluded(report: Report, *, found: Judged, inconclusive: Any) -> Report:
    """Return the report with its verdicts, and the exit code that they come to."""
    from gpumap.judge.gate import Gate, concluded

    return concluded(report, Gate(inconclusive=inconclusive), found.verdicts, found.problems)


def _accepted(
    record: Recording, path: Path, base: Report, new: Report, found: Judged, reason: str
) -> Judged:
    """Write the new report over the base, with an entry that says why; then all of it may pass.

    Raises:
        QuestionError: nothing was judged, so it is of something else.
        SourceError: it cannot be written; the old file is as it was.
    """
    from gpumap.files import write_atomic
    from gpumap.report import Style, render

    if any(problem.diagnostic.code == "nothing-judged" for problem in found.problems):
        hint = "accept a report of the same command line; another one is a new base: copy it"
        raise QuestionError("the base has nothing of what would be accepted", hint)
    entry = _entry(base, new, found, reason)
    whole = replace(new, accepted=(*base.accepted, entry))
    write_atomic(path, render("json", whole, Style()))
    said = f"{printable(str(path))} is now {printable(new.started)}: {printable(reason)}"
    record.remarks.append(Diagnostic("accepted", said, severity="note"))
    return replace(found, problems=tuple(map(_let_pass, found.problems)))


def _entry(base: Report, new: Report, found: Judged, reason: str) -> Acceptance:
    from collections import Counter

    from gpumap.model import Acceptance

    return Acceptance(
        when=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        reason=reason,
        verdicts=dict(Counter(verdict.verdict for verdict in found.verdicts)),
        base_started=base.started,
        new_started=new.started,
    )


def _let_pass(problem: Problem) -> Problem:
    return replace(problem, diagnostic=replace(problem.diagnostic, severity="warning"), exit=0)
