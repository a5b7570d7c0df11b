"""Records of results, which CSV, JUnit and trackers write: `kind` is one of these words.

headline       the answer: its `status` is the level, its `reason` the text; the test of the run
warning        what the figures must not be read without; the `reason` says it
name           a name of a map that is true
measurement    a row of the report; without a figure it has one line, that says why
fit            a model of copies; `status` is "fits" or "does not fit"
forecast       what so many devices would give by the algorithm in `case`: computed
published      a cell of a table, with what follows from it; `flags` are its labels
ran            what a program did by the context in `id`: events of one sort at one place
busy           how long a device of that context worked; its `share` is of the trace's time
use            how busy a device was, seen from outside; `status` is whether it was used
scale          a program on the names of the map in `names`; `n` is how many runs it had
round-trip     whether bytes came back from a device as they were sent
diagnosis      whether the device of a name is used; then each cause as its `reason`
fitness        an item of preflight, in `case`: `status` is what it says, `reason` what was seen
example        calls of a workload on it: `status` is faster, equal, slower (than the host) or
               unclear, `reason` the code of what they suffer from
verdict        `status` is the verdict, `reason` the question, the figure what was judged
error          `status` is the exit code that it stands for, `reason` its code and message
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpumap.model import Estimate
from gpumap.report.csv import PARAMS
from gpumap.report.parts import Record
from gpumap.results import outcomes

if TYPE_CHECKING:
    from gpumap.model import Case, Check, Fit, Measurement


def of_row(row: Measurement) -> Record:
    """Return the record of a measured row; without a figure it says why."""
    cells = {
        **_case(row.case),
        "route": row.route,
        "status": row.status,
        "flags": " ".join(row.flags),
        "reason": f"{row.reason.code}: {row.reason.text}" if row.reason else None,
        "n": len(row.samples.seconds) if row.samples else 0,
        "check": _checked(row.check),
    }
    why = row.explanation
    about = (("explanation", f"{why.cause}: {why.text}"),) if why else ()
    return Record("measurement", row.case.id, cells, row.metrics, outcomes.of_row(row),
                  about=about)  # fmt: skip


def of_fit(fit: Fit) -> Record:
    """Return the record of a model of copies."""
    status = {"status": "fits" if fit.fits else "does not fit"}
    cells = {**_case(fit.case), **status, "n": len(fit.sizes)}
    return Record("fit", fit.id, cells, fit.metrics)


def known(value: float | None, unit: str) -> Estimate:
    """Return a figure that has no interval; without a value if that is not known."""
    return Estimate.refused(unit) if value is None else Estimate.without_interval(value, unit)


def _case(case: Case) -> dict[str, Any]:
    return {
        PARAMS: case.params,
        "bench": case.bench,
        "case": case.name,
        "names": (">" if case.ordered else "+").join(case.names),
        "devices": "+".join(binding.device.id for binding in case.bindings),
        "backend": case.backend,
    }


def _checked(check: Check | None) -> str:
    return "" if check is None else "passed" if check.passed else "failed"
