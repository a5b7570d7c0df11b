"""A report as it is in JSON: shapes of its nouns, and what JSON holds in another form than they.

`gpumap.saved` makes the published JSON Schema of it, and of the nouns. Types and sentences
are the nouns' (`of`); fields have the names that nouns have: `trees.copied` takes them over by
name, in both directions. What the schema demands and the reader tells in words of its own is
`extra_json_schema`. Keys that no class here has are passed over by the reader: within a version,
keys may be added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta, Struct, defstruct

from gpumap import model
from gpumap.model import trees
from gpumap.model.trees import (
    Code,
    Count,
    Digits,
    Natural,
    Number,
    Positive,
    Share,
    SomeId,
    Version,
    Word,
    Words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

Flag = Literal[
    "unstable", "shared-hardware", "warm-up-capped", "launch-bound", "power-capped",
    "over-ceiling", "impossible", "superlinear", "cpu",
]  # fmt: skip
Route = Literal["host-to-device", "device-to-host", "peer", "staged", "same"]
Phase = Literal["input", "transfer", "compute", "sync", "comm", "update"]
_NAME = str | None


_WORK = ["bytes", "bytes_to_device", "bytes_to_host", "operations", "products"]
Work = Annotated[dict[str, Natural], Meta(extra_json_schema={"propertyNames": {"enum": _WORK}})]


class _Names(dict[str, Any]):
    """What a noun's annotations name: a noun that loads no msgspec imports none of it."""

    def __missing__(self, name: str) -> Any:
        try:
            return getattr(model, name)
        except AttributeError:
            raise KeyError(name) from None  # a name of Python's


def of(
    definition: str, keys: str, *nouns: Any, rename: Mapping[str, str] | None = None, **differ: Any
) -> Any:
    """Return a Struct of these fields of nouns that are one object of JSON, all required.

    Args:
        definition: its name in the schema.
        keys: the fields, in the order of their keys.
        nouns: have their types and sentences, and the keys that are not named as they are.
        rename: such keys, of a noun that is no Struct.
        differ: types of what JSON holds in another form; a list: many of these.
    """
    types_: dict[str, Any] = {}
    renamed = dict(rename or {})
    for noun in nouns:
        types_ |= get_type_hints(noun, localns=_Names(vars(trees)), include_extras=True)
        fields = getattr(noun, "__struct_fields__", ())
        renamed |= zip(fields, getattr(noun, "__struct_encode_fields__", ()), strict=True)
    for key, type_ in differ.items():
        many = isinstance(type_, list)
        types_[key] = tuple.__class_getitem__((*type_, ...)) if many else type_
    made = [(key, types_[key]) for key in keys.split()]
    namespace = {"__doc__": "\n".join(noun.__doc__ for noun in nouns)}
    return defstruct(definition, made, rename=renamed, namespace=namespace)


class Tool(Struct):
    """Who wrote it.

    Attributes:
        name: The tool.
        version: Of the tool.
    """

    name: Literal["gpumap"]
    version: Version


class Note(Struct):
    """Something worth knowing.

    Attributes:
        code: Stable; what a script may look at.
        severity: How much it matters; --strict makes a warning an error.
        message: What it is, in words; these may change.
        entry: The entry of the map that it is about, from 1.
        span: Half-open range of characters in map.text.
        hint: How to fix it.
        name: The name in the map that it is about.
    """

    code: Code
    severity: Literal["error", "warning", "note"]
    message: str
    entry: Count | None
    span: tuple[Natural, Natural] | None
    hint: str | None
    name: str | None


class Problem(Note):
    """Why the exit code is not 0.

    Attributes:
        exit: The exit code that it stands for; 0: it was let pass, by --inconclusive=pass or
            --if-absent=skip.
    """

    exit: Literal[0, 1, 2, 3, 4, 5, 70, 124, 130, 141]


class Entry(Struct):
    """An entry of the map, and the device that it is.

    Attributes:
        name: The user's word.
        requested: The device as requested.
        device: The id of the device that it is; null: not found, or not looked for.
    """

    name: str
    requested: str
    device: str | None


class Map(Struct):
    """The map, and where it is from.

    Attributes:
        text: As it was written.
        source: Where it is from.
        source_path: The file, if it is from one.
        entries: Its entries; empty if it does not parse.
        notes: What is worth knowing about it.
    """

    text: str
    source: model.Origin
    source_path: str | None
    entries: tuple[Entry, ...]
    notes: tuple[Note, ...]


class Link(Struct):
    """How a device is plugged in.

    Attributes:
        max_generation: Of PCIe; idle, it drops to a lower one.
        max_width: Lanes that it can have.
        width: Lanes that it has; null: not known.
    """

    max_generation: Natural
    max_width: Natural
    width: Natural | None


Device = of(
    "Device",
    "id kind ref name backend pci uuid hardware memory_total memory_free units numa_node cores "
    "driver link",
    model.Device,
    ref=str,
    hardware=Annotated[tuple[str, ...], Meta(min_length=1)],
    link=Link | None,
)


Backend = of("Backend", "name usable version reason fix notes code", model.Probe)


class Machine(Struct):
    """The machine before and after.

    Attributes:
        before: Before.
        after: After.
    """

    before: model.State | None
    after: model.State | None


class Measuring(Struct):
    """The settings of a run that measured; others may be beside them."""

    seed: Natural
    precision: Share
    confidence: Annotated[float, Meta(ge=0.5, lt=1.0)]
    budget_s: Positive


class Spans(Struct, rename={"start": "start_s", "stop": "stop_s"}):
    """When one device worked.

    Attributes:
        start: Starts, in time order.
        stop: Ends; as many.
    """

    start: tuple[Number, ...]
    stop: tuple[Number, ...]


Row = of(
    "Row",
    "id bench name params names devices backend route status reason flags work seconds blocks "
    "iterations_per_sample clock sample_notes queue cpu empty_sync worked intervals phases around "
    "stop check metrics against then role swept ceiling explanation control claims",
    model.Measurement,
    model.Case,
    model.Samples,
    id=SomeId,
    names=Annotated[tuple[str, ...], Meta(min_length=1)],
    devices=Annotated[tuple[str, ...], Meta(extra_json_schema={"minItems": 1})],
    backend=Words,
    route=Route | None,
    flags=Annotated[tuple[Flag, ...], Meta(extra_json_schema={"uniqueItems": True})],
    work=Work,
    seconds=[Positive | None],
    iterations_per_sample=Count | None,
    clock=Literal["host", "device"] | None,
    intervals=dict[str, Spans],
    phases=Annotated[
        dict[Phase, tuple[Positive, ...]],
        Meta(extra_json_schema={"propertyNames": {"enum": list(get_args(Phase))}}),
    ],
)
_IDS, _COUNTS = tuple[str, ...], tuple[Natural, ...]
Plan = of(
    "Plan", "cases groups memory largest_buffer about", model.Plan, cases=_IDS, groups=_COUNTS
)


Fit = of(
    "Fit",
    "id fits regimes sizes residual held_back lines metrics",
    model.Fit,
    residual=Positive | None,
)


BreakEven = of(
    "BreakEven",
    "id workload against wins measured_to why_stopped reason check metrics shares",
    model.BreakEven,
    id=SomeId,
    shares=dict[Digits, model.Shares],
)


class RoundTrip(Struct):
    """Whether bytes came back.

    Attributes:
        device: Its id.
        backend: The library that drives it.
        name: The first name of the map for it; null: it has none.
        passed: Whether every byte came back as it was sent.
        reason: Why not.
        ref: As a map writes it.
    """

    device: str
    ref: str
    backend: Word
    name: str | None
    passed: bool
    reason: model.Reason | None


class SelfTest(Struct):
    """Round trips, and false alarms.

    Attributes:
        round_trips: 4 KiB to a device and back: each device of the map, and one of each other
            usable backend.
        alarms: The same work as A and as B on each device, judged in consecutive runs: an alarm is
            false.
    """

    round_trips: tuple[RoundTrip, ...]
    alarms: tuple[model.Alarms, ...]


class TraceEntry(Struct):
    """A name of a context's map, and the device that it is.

    Attributes:
        name: The user's word.
        device: The id of the device that it is.
        backend: The library that drives it.
    """

    name: str
    device: str
    backend: Word


Trace = of(
    "Trace",
    "number policy opened closed entries summary events",
    model.Trace,
    entries=tuple[TraceEntry, ...],
    summary=model.TraceSummary,
)


Rank = of("Rank", "number local host process name device", model.Rank, name=_NAME, device=_NAME)


Headline = of("Headline", "level text row metric value low high cause", model.Headline)


Report = of(
    "Report",
    "schema_version kind tool argv started ended elapsed status exit_code headline simulated "
    "settings map devices backends fingerprint environment machine measurements plans fits "
    "break_evens verdicts selftest errors notes accepted traces diagnoses ranks utilisation "
    "scaling prediction published digest",
    model.Report,
    rename={"elapsed": "elapsed_s"},
    schema_version=Literal[2],
    tool=Tool,
    headline=Headline,
    map=Map | None,
    devices=[Device],
    backends=[Backend],
    machine=Machine,
    measurements=[Row],
    plans=[Plan],
    fits=[Fit],
    break_evens=[BreakEven],
    selftest=SelfTest | None,
    errors=[Problem],
    notes=[Note],
    traces=[Trace],
    ranks=[Rank],
    digest=Annotated[str, Meta(extra_json_schema={"pattern": "^sha256:[0-9a-f]{64}$"})],
)
