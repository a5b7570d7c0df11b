"""The nouns of gpumap: what flows between parsing, resolving, measuring, judging and reporting.

Everything is frozen. Quantities are in SI base units (seconds, bytes, hertz); unknown is None.

A file is imported when one of its nouns is first asked for: all together take longer than click.
To complete a word loads no msgspec: what completion imports writes `model.Check`, looked up later.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpumap.model.cases import SHORTEST, Case, Group, Plan, Reason, Work
    from gpumap.model.devices import Binding, Device, Lack, Param, Probe, ProbeCode, Resolution
    from gpumap.model.figures import Estimate, Limit, LimitOrigin, Unit
    from gpumap.model.fitting import BreakEven, Fit, HeldBack, Line, Shares
    from gpumap.model.judging import (
        EQUAL_WITHIN,
        Acceptance,
        Alarms,
        Diagnosis,
        DoctorVerdict,
        Example,
        ExampleOutcome,
        Finding,
        RoundTrip,
        SelfTest,
        Verdict,
        VerdictReason,
        VerdictWord,
    )
    from gpumap.model.machine import Fingerprint, GpuState, LinkState, Others, Process, Rank, State
    from gpumap.model.maps import ContextMap, DeviceRef, Entry, Kind, MapText, Origin
    from gpumap.model.measuring import (
        Around,
        Cause,
        Ceiling,
        Check,
        Explanation,
        Measurement,
        SampleMark,
        Samples,
        Stop,
        Why,
    )
    from gpumap.model.publishing import (
        Algorithm,
        Cell,
        Exchanged,
        Forecast,
        LeftOut,
        LinkCost,
        OtherLink,
        Payoff,
        Prediction,
        Published,
    )
    from gpumap.model.report import Headline, Level, Problem, Report
    from gpumap.model.traces import Busy, Moved, Ran, Trace, TraceEvent, TraceSummary

__all__ = [
    "EQUAL_WITHIN",
    "SHORTEST",
    "Acceptance",
    "Alarms",
    "Algorithm",
    "Around",
    "Binding",
    "BreakEven",
    "Busy",
    "Case",
    "Cause",
    "Ceiling",
    "Cell",
    "Check",
    "ContextMap",
    "Device",
    "DeviceRef",
    "Diagnosis",
    "DoctorVerdict",
    "Entry",
    "Estimate",
    "Example",
    "ExampleOutcome",
    "Exchanged",
    "Explanation",
    "Finding",
    "Fingerprint",
    "Fit",
    "Forecast",
    "GpuState",
    "Group",
    "Headline",
    "HeldBack",
    "Kind",
    "Lack",
    "LeftOut",
    "Level",
    "Limit",
    "LimitOrigin",
    "Line",
    "LinkCost",
    "LinkState",
    "MapText",
    "Measurement",
    "Moved",
    "Origin",
    "OtherLink",
    "Others",
    "Param",
    "Payoff",
    "Plan",
    "Prediction",
    "Probe",
    "ProbeCode",
    "Problem",
    "Process",
    "Published",
    "Ran",
    "Rank",
    "Reason",
    "Report",
    "Resolution",
    "RoundTrip",
    "SampleMark",
    "Samples",
    "SelfTest",
    "Shares",
    "State",
    "Stop",
    "Trace",
    "TraceEvent",
    "TraceSummary",
    "Unit",
    "Verdict",
    "VerdictReason",
    "VerdictWord",
    "Why",
    "Work",
]  # fmt: skip

_FILES = {
    "cases": "Case Group Plan Reason SHORTEST Work",
    "devices": "Binding Device Lack Param Probe ProbeCode Resolution",
    "figures": "Estimate Limit LimitOrigin Unit",
    "fitting": "BreakEven Fit HeldBack Line Shares",
    "judging": "Acceptance Alarms Diagnosis DoctorVerdict EQUAL_WITHIN Example "
    "ExampleOutcome Finding RoundTrip SelfTest Verdict VerdictReason "
    "VerdictWord",
    "machine": "Fingerprint GpuState LinkState Others Process Rank State",
    "maps": "ContextMap DeviceRef Entry Kind MapText Origin",
    "measuring": "Around Cause Ceiling Check Explanation Measurement SampleMark Samples Stop Why",
    "publishing": "Algorithm Cell Exchanged Forecast LeftOut LinkCost OtherLink Payoff "
    "Prediction Published",
    "report": "Headline Level Problem Report",
    "traces": "Busy Moved Ran Trace TraceEvent TraceSummary",
}
_PLACES = {name: file for file, names in _FILES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'gpumap.model' has no attribute {name!r}")
    found = getattr(import_module(f"gpumap.model.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
