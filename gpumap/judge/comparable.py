"""Can two reports be compared at all? What stands against it, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpumap.model import Fingerprint, Report

_WHOLE = ("ok", "no", "inconclusive")  # statuses of a run that came to its end
_NOTHING = "nothing"  # where one side has no value


def broken(report: Report) -> str | None:
    """Return why nothing can be concluded from a report; None if something can."""
    if report.plans:
        return "it is a dry run, which measures nothing"
    if report.status not in _WHOLE:
        why = f" ({printable(report.errors[0].diagnostic.message)})" if report.errors else ""
        return f"its run did not end well: its status is {printable(report.status)}{why}"
    if report.kind == "selftest":
        return "it is a self-test, which judges itself: nothing in it has a control"
    if not any(row.status == "ok" for row in report.measurements):
        return f"nothing is measured in it: it is of `{printable(report.kind)}`"
    if report.fingerprint is None:
        return "it does not say which machine it is of"
    return None


def mixed(base: Report, new: Report) -> str | None:
    """Return why two reports are not of one kind: a script is never held against hardware."""
    return unlike(base, simulated=new.simulated)


def unlike(base: Report, *, simulated: bool) -> str | None:
    """Return why a run cannot be held against a base, as only one of them is a script's."""
    if base.simulated == simulated:
        return None
    return "one is simulated and the other is real"


def machines(base: Report, new: Report) -> tuple[str, ...]:
    """Return what tells that two reports are of different machines; nothing if they are of one.

    That is the processor, its cores, and the device that each name is. Versions of libraries,
    drivers, Python and the system may differ: whether a new one is slower is what users ask.
    """
    found = fingerprints(base.fingerprint, new.fingerprint)
    return found + tuple(_differences(*_shared(_devices(base), _devices(new))))


def fingerprints(base: Fingerprint | None, new: Fingerprint | None) -> tuple[str, ...]:
    """Return what tells two machines apart by their fingerprints alone."""
    return tuple(_differences(_machine(base), _machine(new)))


def surroundings(base: Report, new: Report) -> tuple[str, ...]:
    """Return which versions, links and variables differ that steer placement or speed."""
    before, after = (
        {name: value for name, value in report.environment.items() if value is not None}
        for report in (base, new)
    )
    versions = _differences(_versions(base.fingerprint), _versions(new.fingerprint))
    return (*versions, *_differences(before, after))


def _machine(found: Fingerprint | None) -> dict[str, str]:
    if found is None:
        return {}
    cores, devices = str(found.cores), " ".join(found.devices)
    return {"processor": found.cpu, "cores": cores, "devices": devices}


def _versions(found: Fingerprint | None) -> dict[str, str]:
    if found is None:
        return {}
    return {
        "system": found.os,
        "Python": found.python,
        **dict(found.libraries),
        **{f"driver of {device}": driver for device, driver in found.drivers.items()},
        "links": " ".join(found.links),
    }


def _devices(report: Report) -> dict[str, str]:
    """Return which device each name is, for each backend that drives it."""
    bindings = (binding for row in report.measurements for binding in row.case.bindings)
    return {f"{b.name} ({b.device.backend})": b.device.id for b in bindings}


def _shared(a: dict[str, str], b: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return both without what only one of them has: rows tell of names that are missing."""
    return {k: v for k, v in a.items() if k in b}, {k: v for k, v in b.items() if k in a}


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield f"{printable(key)}: {_value(old)} in base, {_value(new)} in new"


def _value(value: str | None) -> str:
    return printable(value) if value else _NOTHING
