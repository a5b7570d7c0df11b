"""What `devices` found, as every format shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.judge import answers
from gpumap.judge.headline import Question
from gpumap.report.parts import Section, Text
from gpumap.report.table import Table
from gpumap.results import ResultSpec
from gpumap.results.mapped import DEVICE_COLUMNS, ON_THE_RIGHT, device_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpumap.model import Device, DeviceLibrary, Listed, Report

DRIVEN, _WHO = "Who drives each card", ("device", "name", "driven by")


def sections(report: Report, result: Listed, verbose: bool) -> Iterator[Section]:  # noqa: ARG001, FBT001
    """Yield each backend with its devices, who drives each card, and the line that checks all."""
    parts: list[Text | Table] = []
    for number, backend in enumerate(report.backends):
        look = "bold" if backend.usable else "unclear"
        about = tuple(_about(backend))
        parts.append(Text(about, _title(backend), look, headed=True, gap=number > 0))
        rows = tuple(device_row(one) for one in report.devices if one.backend == backend.name)
        if rows:
            parts.append(Table("", DEVICE_COLUMNS, rows, (), right=ON_THE_RIGHT).full())
    if cards := _driven(report.devices):
        parts.append(Table(DRIVEN, _WHO, cards, ()))
    if report.source is not None:
        parts.append(Text((answers.check_line(report),), look="bold", gap=True, pasted=True))
    yield Section("devices", tuple(parts))


def _driven(devices: Iterable[Device]) -> tuple[tuple[str, ...], ...]:
    """Return each card with all backends that drive it, the first by default; none: one each."""
    cards: dict[frozenset[str], dict[str, Device]] = {}
    for device in sorted(devices, key=lambda each: each.kind.row.default):
        if device.kind.row.accelerators or not (device.kind.row.cores or device.in_host_memory):
            cards.setdefault(device.hardware, {}).setdefault(device.backend, device)
    if all(len(drivers) == 1 for drivers in cards.values()):
        return ()
    return tuple(_card(list(drivers.values())) for drivers in cards.values())


def _card(drivers: list[Device]) -> tuple[str, ...]:
    """Return a card as the first of its drivers calls it; who calls it otherwise says how."""
    ref = drivers[0].ref
    who = (d.backend if d.ref == ref else f"{d.backend} (as {d.ref})" for d in drivers)
    return str(ref), drivers[0].name, ", ".join(who)


def _about(backend: DeviceLibrary) -> Iterator[str]:
    """Yield what is to be said of a backend."""
    yield from (f"note: {note}" for note in backend.notes if backend.usable)
    if backend.fix:
        yield f"fix: {backend.fix}"


def _title(backend: DeviceLibrary) -> str:
    """Return a backend's name, its version, and why it cannot be used if it cannot."""
    version = f" {backend.version}" if backend.version else ""
    reason = "" if backend.usable else f": not usable: {backend.reason or 'no reason given'}"
    return f"{backend.name}{version}{reason}"


SPEC = ResultSpec(sections, Question(answers.devices, "usable"))
