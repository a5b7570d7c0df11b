"""What a run collects for its report: every error, the first library, and no fork's word."""

import io
from types import SimpleNamespace

import pytest
from cases import planned_case
from tables import table

from gpumap import model
from gpumap.app import recording
from gpumap.app.output import Output
from gpumap.app.program import Ended, Program
from gpumap.app.recording import Draft, Measuring, Recording
from gpumap.errors import AbsentError, Diagnostic, Exit, SourceError
from gpumap.model import replace


def recorded(*rows):
    program = Program(("bench",), {}, "/", io.StringIO(), io.StringIO())
    draft = Draft("bench", model.Measured(), program, {})
    record = Recording(draft, Output("json", quiet=True))
    measured = Measuring(None, model.Plan(()))
    measured.rows += rows
    record.draft.measured = [measured]
    return record


def row(backend):
    device = model.Device(
        "cuda:0", model.Kind.CUDA, model.DeviceRef(model.Kind.CUDA, 0), "", backend
    )
    case = planned_case("dot", "solo", {"size": 64}, (model.Binding("a", device),), model.Work())
    return model.Measurement(case, "skipped", model.Reason("stopped", ""))


def test_a_device_that_several_libraries_drive_is_listed_once_by_the_first():
    """In the order of measuring: that is what its rows are read back with."""
    report = recorded(row("cupy"), row("pygpu")).draft.report()
    assert [(device.id, device.backend) for device in report.devices] == [("cuda:0", "cupy")]


@pytest.mark.parametrize(("before", "error", "code"), [
    (Exit.WRONG_DATA, AbsentError("gone"), Exit.WRONG_DATA),
    (Exit.NO, AbsentError("gone"), Exit.ABSENT), (Exit.NO, RuntimeError("broken"), Exit.INTERNAL),
])  # fmt: skip
def test_an_error_takes_nothing_back_of_what_was_wrong_before(before, error, code):
    """All of it is in the report, and the first in the order of exit codes ends the run."""
    draft = recorded().draft
    draft.refuse(Diagnostic("first", "first"), before)
    draft.account(error, stopped=False)
    report = draft.report()
    assert report.errors[0].diagnostic.code == "first"
    assert (len(report.errors), report.exit_code) == (2, code)


@pytest.mark.parametrize(("reason", "code"), table(__file__)["failed"])
def test_a_row_that_failed_ends_in_the_code_of_its_reason(reason, code):
    """A figure that no device can have is wrong data."""
    failed = replace(row("cupy"), status="failed", reason=model.Reason(reason, "x"))
    draft = recorded(failed).draft
    draft.stop("error")
    assert draft.report().exit_code == code


def test_a_run_ends_once_with_the_code_of_its_report(monkeypatch):
    """What a fork of the process leaves is not the end of the run: it reports nothing."""
    monkeypatch.setattr(recording, "ignore_signals", lambda: None)
    record, reports = recorded(), []
    record.judge = lambda report: reports.append(report) or report
    record.process += 1
    record.__exit__(None, None, None)
    assert reports == []
    record.process -= 1
    record.draft.refuse(Diagnostic("no", "no"))
    with pytest.raises(Ended) as ended:
        record.__exit__(None, None, None)
    assert (ended.value.exit_code, [report.exit_code for report in reports]) == (1, [1])


@pytest.mark.parametrize(("code", "status", "ended"), [
    (Exit.OK, "ok", 2), (Exit.WRONG_DATA, "wrong-data", 4), (Exit.NO, "no", 1),
    (Exit.INCONCLUSIVE, "inconclusive", 2), (Exit.OK, "inconclusive", 2),
])  # fmt: skip
def test_a_lost_report_is_outranked_by_failures_but_not_by_inconclusive(
    monkeypatch, code, status, ended
):
    def full(*_):
        raise SourceError("the disk is full")

    monkeypatch.setattr(recording, "emit", full)
    assert recorded()._emit(SimpleNamespace(exit_code=code, status=status)) == ended
