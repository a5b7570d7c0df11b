"""What a program did with the devices of a map, as far as it could be seen from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from gpumap.model.figures import Estimate
from gpumap.model.types import Count, Natural, Positive, Share

if TYPE_CHECKING:
    from collections.abc import Mapping

Seeing = Literal["proc", "nvml", "fdinfo", "opencl-layer"]
Unseen = Literal[
    "host-threads", "no-address", "no-driver", "no-permission", "hidden-processes", "opened-idle",
    "compute-driver", "short-lived", "too-short",
]  # fmt: skip
_COUNTS = ("kernels", "bytes_to_device", "bytes_to_host", "waits")
_OPENCL = "opencl:"  # how ids of its devices begin
UseVerdict = Literal["used", "not-used", "unknown"]
ScaleCause = Literal[
    "scales", "busy-no-faster", "start-up", "one-at-a-time", "idle-names", "uneven-work", "waits",
    "not-seen", "cpu-contention", "few-samples", "wide-interval",
]  # fmt: skip


class Use(
    Struct,
    frozen=True,
    rename={
        "memory": "memory_bytes",
        "power": "power_w",
        "first": "first_use_s",
        "idle": "longest_idle_s",
        "computing": "kernel_s",
        "copying": "copy_s",
    },
):
    """What a program did with the device of a name; null: not seen.

    Attributes:
        name: The user's word.
        device: The id of its device.
        verdict: Whether the program used it; what could not be seen is unknown, never not-used.
        why: Of unknown: why it could not be seen.
        sources: Who was asked.
        busy: Share of the run in which it worked for the program.
        peak: The largest share between two looks.
        memory: What the program took of its memory, at most.
        bytes_to_device: What was copied to it.
        bytes_to_host: What was copied from it.
        power: Watts at most, of the whole device.
        throttle: What held it back at any look.
        first: When it first worked, in seconds since the start.
        idle: The longest time in which it did not.
        foreign: Share of the run in which it worked for other programs.
        kernels: Kernels that ran on it.
        waits: How often the program waited for it.
        computing: Seconds in which its kernels ran, by its own clock.
        copying: Seconds of its copies, by its own clock.
    """

    name: str
    device: str
    verdict: UseVerdict
    why: Unseen | None = None
    sources: tuple[Seeing, ...] = ()
    busy: Share | None = None
    peak: Share | None = None
    memory: Natural | None = None
    bytes_to_device: Natural | None = None
    bytes_to_host: Natural | None = None
    power: Positive | None = None
    throttle: tuple[str, ...] = ()
    first: Positive | None = None
    idle: Positive | None = None
    foreign: Share | None = None
    kernels: Natural | None = None
    waits: Natural | None = None
    computing: Positive | None = None
    copying: Positive | None = None


class Utilisation(
    Struct,
    frozen=True,
    rename={
        "elapsed": "elapsed_s",
        "cpu": "cpu_s",
        "unseen": "unseen_cpu_s",
        "memory": "memory_bytes",
    },
):
    """What a program did with the devices of a map.

    Attributes:
        command: The program and its arguments.
        code: What it ended with; minus the number of a signal; null: gpumap ended it, or it is
            one of several processes.
        elapsed: From its start to its end.
        looks: How often devices and processes were looked at.
        cpu: CPU time of all its processes.
        unseen: Of it what cannot be told to be of one core: of processes that lived between looks.
        memory: Resident memory of all its processes together, at most.
        uses: What it did with each name's device.
    """

    command: tuple[str, ...]
    code: Annotated[int, Meta(ge=-64, le=255)] | None
    elapsed: Positive
    looks: Natural
    cpu: Positive
    unseen: Positive
    memory: Natural
    uses: tuple[Use, ...]

    def counted(self, counts: Mapping[str, Mapping[str, Any]], *, complete: bool) -> Utilisation:
        """Return it with what a layer inside the program counted on OpenCL devices.

        Args:
            counts: by the device's id, as far as known: `kernels`, `bytes_to_device`,
                `bytes_to_host`, `waits`, `computing` and `copying`.
            complete: no process of the program ran without the layer, so what it did not count
                there was not.
        """
        every = ((use, counts.get(use.device, {})) for use in self.uses)
        uses = tuple(
            _counted(use, found, complete=complete)
            if found or (complete and use.device.startswith(_OPENCL))
            else use
            for use, found in every
        )
        return structs.replace(self, uses=uses)


_RUN = {"elapsed": "elapsed_s", "busy": "busy_s", "start": "start_s", "foreign": "foreign_s",
        "memory": "memory_bytes"}  # fmt: skip


class TimedRun(Struct, frozen=True, rename=_RUN):
    """A run of a program from its start to its end.

    Attributes:
        turn: In which turn, from 0 on: a turn has one run on each number of names.
        elapsed: From its start to its end.
        busy: Seconds that its cores or devices worked for it, added up; null: not seen.
        start: Seconds until more than one of them worked; null: no look saw it.
        foreign: Seconds that its cores worked for other programs, added up; null: not known.
        memory: Resident memory of all its processes together, at most.
    """

    turn: Natural
    elapsed: Positive
    busy: Positive | None
    start: Positive | None
    foreign: Positive | None
    memory: Natural


class Scaled(Struct, frozen=True):
    """A program on a number of names of a map.

    Attributes:
        names: The names that one process of it had.
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
    """

    command: tuple[str, ...]
    steps: Annotated[tuple[Scaled, ...], Meta(min_length=1)]
    cause: ScaleCause | None = None
    busy: Positive | None = None
    growth: Positive | None = None


def _counted(use: Use, counts: Mapping[str, Any], *, complete: bool) -> Use:
    known = {key: counts.get(key, 0 if complete else None) for key in _COUNTS}
    verdict, why = use.verdict, use.why
    if known["kernels"]:
        verdict, why = "used", None
    elif complete and verdict == "unknown":
        verdict, why = "not-used", None
    sources: tuple[Seeing, ...] = (*use.sources, "opencl-layer")
    times = {key: counts.get(key) for key in ("computing", "copying")}
    return structs.replace(use, verdict=verdict, why=why, sources=sources, **known, **times)
