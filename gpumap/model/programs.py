"""What programs did on devices: by their contexts, and as far as it is seen from outside."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from gpumap.model.devices import Binding
from gpumap.model.field_types import Count, Natural, Number, Positive, Share
from gpumap.model.maps import Estimate

# PROCESS:FILE, for a child of that process: where it is to write its contexts when it ends
TRACE = "GPUMAP_TRACE"
Policy = Literal["visible", "strict"]
Unseen = Literal[
    "host-threads", "no-driver", "hidden-processes", "opened-idle", "compute-driver", "short-lived",
]  # fmt: skip
UseVerdict = Literal["used", "not-used", "unknown"]
ScaleCause = Literal[
    "scales", "busy-no-faster", "start-up", "one-at-a-time", "idle-names", "uneven-work", "waits",
    "communication", "few-looks", "not-seen", "cpu-contention", "few-samples", "wide-interval",
]  # fmt: skip


class TraceEvent(Struct, frozen=True):
    """What a program did on a device, or moved: seconds since its context was opened.

    A device that cannot tell when its queue came to a place leaves both times None.

    Attributes:
        name: The operation; or upload, download, copy.
        device: A name of the map; cpu for host memory; two names with -> between for a copy from
            one to the other.
        kind: What it is.
        nbytes: Of what it made or moved.
        shape: Of the same.
        implicit: Whether the program did not request it: an operand was elsewhere.
        start: Since the context was opened, when the device's queue came to it; null: the device
            cannot tell.
        stop: The same, of its end.
        line: The line of the program that caused it, as script.py:12; null: not known.
    """

    name: str
    device: str
    kind: Literal["operation", "transfer"]
    nbytes: Natural = field(name="bytes")
    shape: tuple[Natural, ...]
    implicit: bool
    start: Number | None = field(name="start_s")
    stop: Number | None = field(name="stop_s")
    line: str | None = None


class Trace(Struct, frozen=True):
    """What a program did by one context.

    Attributes:
        number: Its number, in the order of opening.
        bindings: Its map: the names, with their devices.
        policy: What it does with operands that are elsewhere: moves them, or refuses.
        closed: Whether the program closed it.
        events: Everything, in the order of queueing.
    """

    number: Count = field(name="context")
    bindings: tuple[Binding, ...]
    policy: Policy
    closed: bool
    events: tuple[TraceEvent, ...] = ()


class Use(Struct, frozen=True):
    """What a program did with the device of a name; null: not seen.

    Attributes:
        name: The user's word.
        device: The id of its device.
        verdict: Whether the program used it; what could not be seen is unknown, never not-used.
        why: Of unknown: why it could not be seen.
        busy: Share of the run in which it worked for the program.
        idle: The longest time in which it did not.
    """

    name: str
    device: str
    verdict: UseVerdict
    why: Unseen | None = None
    busy: Share | None = None
    idle: Positive | None = field(default=None, name="longest_idle_s")


class Utilisation(Struct, frozen=True):
    """What a program did with the devices of a map.

    Attributes:
        command: The program and its arguments.
        code: What it ended with; minus the number of a signal; null: gpumap ended it.
        elapsed: From its start to its end.
        looks: How often devices and processes were looked at.
        cpu: CPU time of all its processes.
        uses: What it did with each name's device.
    """

    command: tuple[str, ...]
    code: Annotated[int, Meta(ge=-64, le=255)] | None
    elapsed: Positive = field(name="elapsed_s")
    looks: Natural
    cpu: Positive = field(name="cpu_s")
    uses: tuple[Use, ...]


class TimedRun(Struct, frozen=True):
    """A run of a program from its start to its end.

    Attributes:
        turn: In which turn, from 0 on: a turn has one run on each number of names.
        elapsed: From its start to its end.
        busy: Seconds that its cores or devices worked for it, added up; null: not seen.
        start: Seconds at its start in which not more than one of them worked.
        serial: Seconds after that in which one worked alone, and then others again.
        uneven: The same, where at its end one works alone.
        idle: Seconds after the start in which none worked.
        worked: Seconds that each name's cores worked, added up, or its device.
        looks: How often it was looked at.
        foreign: Seconds that its cores worked for other programs, added up; null: not known.
    """

    turn: Natural
    elapsed: Positive = field(name="elapsed_s")
    busy: Positive | None = field(name="busy_s")
    start: Positive = field(name="start_s")
    serial: Positive = field(name="serial_s")
    uneven: Positive = field(name="uneven_s")
    idle: Positive = field(name="idle_s")
    worked: tuple[Positive, ...] = field(name="worked_s")
    looks: Natural
    foreign: Positive | None = field(name="foreign_s")


class ScaleStep(Struct, frozen=True):
    """A program on a number of names of a map.

    Attributes:
        names: The names that it had: one process all of them, or each process one.
        units: How many cores they have; of devices how many those are.
        runs: Each run that ended well.
        code: What a run ended with that failed, after which there was none; null: none failed.
        time: Of a run; null: there is none.
        speedup: Against one name, of the same turns; null: one of both has no runs.
        uses: What its last run did with each name's device.
    """

    names: tuple[str, ...]
    units: Count
    runs: tuple[TimedRun, ...]
    code: Annotated[int, Meta(ge=-64, le=255)] | None = None
    time: Estimate | None = None
    speedup: Estimate | None = None
    uses: tuple[Use, ...] = ()


class Scaling(Struct, frozen=True):
    """A program on one name of a map, on two, and so on.

    Attributes:
        command: The program and its arguments.
        steps: Each number of names.
        cause: What limits the speed-up on the most names; null: a run failed that it is about.
        busy: Share of the time in which the cores or devices of the most names worked; null: not
            seen.
        growth: Their time for the same work, as a multiple of what one name takes; null as above.
        ranks: Whether there is a process for each name.
        weak: Whether the work grows with the names, so that equal times are a speed-up.
    """

    command: tuple[str, ...]
    steps: Annotated[tuple[ScaleStep, ...], Meta(min_length=1)]
    cause: ScaleCause | None = None
    busy: Positive | None = None
    growth: Positive | None = None
    ranks: bool = False
    weak: bool = False
