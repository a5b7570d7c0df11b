"""Sizes as a user writes them; checks of options, memory and other processes before a run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap import units
from gpumap.errors import BusyError, Diagnostic, QuestionError, Unsupported
from gpumap.model import Kind, Reason
from gpumap.text import fix as fix_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpumap.backends.base import Session
    from gpumap.bench.registry import BenchmarkSpec
    from gpumap.dtypes import Arithmetic
    from gpumap.machine.nvml import GpuUse
    from gpumap.machine.topology import Topology
    from gpumap.model import Binding, Device, Others, Param, Plan

# As keys of rows.
KEYS = ("bytes", "size_name")
NAMED = {"small": 10 * 10 * 4, "large": 10000 * 10 * 4}  # bytes: Theano users' float32 matrices
MOST = 10**9 - 1  # rows, or a side: no machine has room for more
_DEVICES = 1_000_000
_KEPT = 0.9  # the share of free memory that a run may take: the rest is the system's
_SHOWN = 40  # characters of what is wrong


def check_names(
    spec: BenchmarkSpec, bindings: Sequence[Binding], requested: Sequence[str] | None
) -> None:
    """Refuse a requested case that needs more names than the map has.

    Raises:
        QuestionError: one does; a case that was not requested is skipped instead.
    """
    for case in requested or ():
        if _several(spec, case) and len(bindings) == 1:
            fix = "map a second name, or omit the case"
            raise QuestionError(f"the case {case} needs two names, and the map has one", fix)


def named(bindings: Sequence[Binding], name: str | None) -> Binding | None:
    """Return the binding that --reference names; None where it is not given.

    Raises:
        QuestionError: the map does not have the name.
    """
    found = next((binding for binding in bindings if binding.name == name), None)
    if name is not None and found is None:
        fix = f"use one of the map's names: {', '.join(b.name for b in bindings)}"
        raise QuestionError(f"--reference: the map has no name {name}", fix)
    return found


def check_features(
    bindings: Iterable[Binding], sessions: Mapping[str, Session], dtype: Arithmetic
) -> None:
    """Raise Unsupported if a device has no products of this type."""
    for binding in bindings:
        features: Any = sessions[binding.name].features
        if dtype != "float32" and dtype not in features:
            device = binding.device
            raise Unsupported(
                f"{device.ref} ({device.backend}) has no {dtype} products",
                f"use --dtype float32, or map {binding.name} to a device that has them",
            )


def one_device(spec: BenchmarkSpec, case: str, bindings: Sequence[Binding]) -> Reason | None:
    """Return why a case of several devices that was not requested is skipped; None if it is not."""
    if _several(spec, case) and len(bindings) == 1:
        return Reason("one-device", "the map has one name: a speed-up needs two")
    return None


def _several(spec: BenchmarkSpec, case: str) -> bool:
    return any(one.several for one in spec.cases if one.name == case)


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes, and the user's word for it."""

    nbytes: int
    name: str | None = None


def size_text(params: Mapping[str, Param]) -> str:
    """Return the bytes of a row, with the user's word for them: ``small = 400 bytes``."""
    word = f"{params['size_name']} = " if "size_name" in params else ""
    return f"{word}{params['bytes']} {'byte' if params['bytes'] == 1 else 'bytes'}"


def squares(text: str, option: str = "--size", key: str = "") -> tuple[int, ...]:
    """Parse ``1024``, ``256,1024`` or ``256:4096:x2``; messages name `option`, a fix also `key`.

    Raises:
        QuestionError: it is none of them, with the fix.
    """
    read = partial(_whole, MOST, f"write {option} {key}1024")
    return _series(option, text, read, "256:4096:x2")


def counts(text: str) -> tuple[int, ...]:
    """Parse ``2``, ``2,4,8`` or ``2:1024:x2`` into numbers of devices, ascending.

    Raises:
        QuestionError: it is none of them, with the fix.
    """
    read = partial(_whole, _DEVICES, "write 2, or 2,4,8, or 2:1024:x2")
    return tuple(sorted(_series("--devices", text, read, "2:1024:x2")))


def transfers(text: str, named: Mapping[str, int] = NAMED) -> tuple[Size, ...]:
    """Parse ``small,large``, ``4KiB`` or ``64B:1GiB:x2``; `named` are bytes that have a word.

    Raises:
        QuestionError: it is none of them, with the fix.
    """
    words = {named[part]: part for part in map(str.strip, text.split(",")) if part in named}
    found = _series("--sizes", text, partial(_bytes, named), "64B:1GiB:x2")
    return tuple(Size(nbytes, words.get(nbytes)) for nbytes in found)


def _series(option: str, text: str, read: Callable[[str], int], example: str) -> tuple[int, ...]:
    """Parse numbers and ranges ``first:last:xfactor``; `read` parses one number."""
    found: list[int] = []
    try:
        for part in map(str.strip, text.split(",")):
            found += _range(part, read, example) if ":" in part else [read(part)]
    except QuestionError as error:
        (wrong,) = error.diagnostics
        raise QuestionError(f"{option}: {wrong.message}", wrong.hint) from None
    if len(set(found)) < len(found):
        raise QuestionError(f"{option}: {text!r} has a number twice", "name each once")
    return tuple(found)


def _range(part: str, read: Callable[[str], int], example: str) -> Iterator[int]:
    ends = part.split(":")
    if len(ends) != 3 or not re.fullmatch("x[0-9]{1,9}", ends[2]):  # noqa: PLR2004 - three parts
        fix = f"write first:last:xfactor, such as {example}"
        raise QuestionError(f"{part[:_SHOWN]!r} is not a range", fix)
    size, last, factor = read(ends[0]), read(ends[1]), int(ends[2][1:])
    if size > last or factor < 2:  # noqa: PLR2004 - a factor of 1 never ends
        fix = "first <= last, and a factor of 2 or more"
        raise QuestionError(f"{part[:_SHOWN]!r} goes nowhere", fix)
    while size <= last:
        yield size
        size *= factor


def _whole(most: int, fix: str, text: str) -> int:
    digits = text.lstrip("0") if text.isascii() and text.isdigit() else ""
    if not digits or len(digits) > len(str(most)) or int(digits) > most:
        problem = f"{text[:_SHOWN]!r} is not a whole number from 1 to {most:,}"
        raise QuestionError(problem, fix)
    return int(digits)


def _bytes(named: Mapping[str, int], text: str) -> int:
    try:
        return named.get(text) or units.nbytes(text)
    except units.UnitError as error:
        known = f"write 4KiB, or one of {', '.join(named)}"
        fix = fix_word(text, named, known) if text[:1].isalpha() else error.fix
        raise QuestionError(error.problem, fix) from None


def check_memory(plan: Plan, bindings: Sequence[Binding], topology: Topology) -> None:
    """Compare what a plan takes with what is free.

    Raises:
        QuestionError: a device or the host has not enough; one diagnostic for each.
    """
    devices = {binding.device.id: binding.device for binding in bindings}
    problems = list(_short_devices(plan, devices.values()))
    scripted = all(device.backend == "fake" for device in devices.values())
    host = 0 if scripted else plan.memory.get("host", 0)  # what is large has no data there
    host += sum(plan.memory.get(d.id, 0) for d in devices.values() if _on_host(d))
    if host > _KEPT * topology.memory_available:
        problems.append(_short("the host", host, topology.memory_available))
    if problems:
        raise QuestionError(tuple(problems))


def _short_devices(plan: Plan, devices: Iterable[Device]) -> Iterable[Diagnostic]:
    for device in devices:
        needed = plan.memory.get(device.id, 0)
        free = device.memory_total if device.memory_free is None else device.memory_free
        largest = device.facts.get("largest_buffer")
        if device.kind is Kind.CPU and _on_host(device):
            continue  # its memory is the host's, and counted there
        if free is not None and needed > _KEPT * free:
            yield _short(str(device.ref), needed, free)
        elif largest is not None and plan.largest_buffer > int(largest):
            yield _short(f"one buffer of {device.ref}", plan.largest_buffer, int(largest))


def _on_host(device: Device) -> bool:
    """A CPU's memory is the host's own, whatever drives it."""
    return device.backend != "fake" and bool(device.cores) and device.pci is None


def _short(where: str, needed: int, free: int) -> Diagnostic:
    message = f"{where} would need {units.memory(needed)}, and has {units.memory(free)} free"
    return Diagnostic("too-much-memory", message, hint="choose a smaller size")


# --- `--require-idle`: figures of a machine that someone else uses are not worth their time

_CORES = 0.1  # of one core, by all other processes together
_OF_OURS = 0.1  # of the cores that a run uses, above which others disturb it
_SHARE = 0.1  # of a GPU's time
_HINT = "wait for it to end, or measure without --require-idle"
_UNSEEN = "processes that are not visible from here"


def require_idle(devices: Sequence[Device]) -> None:
    """Look at the cores and at the CUDA devices among these; nothing of ours is open yet.

    Raises:
        BusyError: others are at work; one diagnostic for the cores and one for each device.
    """
    from gpumap.machine.nvml import Gpus
    from gpumap.machine.state import name_of, others

    with Gpus(devices) as gpus:
        check_idle(others(), gpus.uses(), name_of)


def disturbing(seen: Others, bindings: Sequence[Binding], cores: int) -> Diagnostic | None:
    """Return the warning that others use the cores that a run on a map needs, if they do.

    Those are the cores of its devices; where a device has none, any of the `cores` that there are.
    """
    places = [set(binding.device.cores) for binding in bindings]
    used = len(set().union(*places)) if places and all(places) else cores
    if seen.cores <= _OF_OURS * used:
        return None
    who = ", ".join(dict.fromkeys(one.name for one in seen.processes)) or _UNSEEN
    message = f"other processes keep {seen.cores:.1f} of {seen.of} cores busy: {who}"
    hint = "figures suffer; wait for them to end, or let --require-idle refuse to measure"
    return Diagnostic("cpu-contention", message, hint=hint, severity="warning")


def check_idle(cores: Others, uses: Iterable[GpuUse], name: Callable[[int], str]) -> None:
    """Judge what was seen; `name` is what to call a process.

    Raises:
        BusyError: others are at work.
    """
    problems = (*_cores(cores), *(d for use in uses for d in _gpu(use, name)))
    if problems:
        raise BusyError(problems)


def _cores(seen: Others) -> Iterator[Diagnostic]:
    if seen.cores > _CORES:
        who = ", ".join(_process(one.pid, one.name) for one in seen.processes)
        message = f"the machine is busy: {seen.cores:.2f} of {seen.of} cores by {who or _UNSEEN}"
        yield Diagnostic("busy", message, hint=_HINT)


def _gpu(use: GpuUse, name: Callable[[int], str]) -> Iterator[Diagnostic]:
    """Say who is on a device, also if they rest just now: they may start at any moment."""
    if use.busy is None and use.processes is None:
        from gpumap.machine.nvml import INSTALL

        message = f"cannot tell whether {use.device.ref} is busy: NVML did not respond"
        yield Diagnostic("busy", message, hint=f"{INSTALL}; or measure without --require-idle")
    elif use.processes or (use.busy or 0.0) > _SHARE:
        who = ", ".join(
            _process(one.pid, name(one.pid), *([units.memory(one.memory)] if one.memory else []))
            for one in use.processes or ()
        )
        share = "" if use.busy is None else f" {use.busy:.0%} of the time"
        message = f"{use.device.ref} is busy{share}: {who or _UNSEEN}"
        yield Diagnostic("busy", message, hint=_HINT)


def _process(pid: int | None, *facts: str) -> str:
    known = ", ".join(filter(None, facts))
    return f"pid {pid} ({known})" if known else f"pid {pid}"
