"""Whether two reports can be compared, and what differs between their machines and versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from gpumap.model import Binding, Fingerprint, Report

_WHOLE = ("ok", "no", "inconclusive")  # statuses of a complete run
_NOTHING = "nothing"  # where one side has no value
SIDES = ("base", "new")
Sides = tuple[str, str]


def broken(report: Report) -> str | None:
    """Return why nothing can be concluded from a report; None if something can."""
    if report.plans:
        return "it is a dry run, which measures nothing"
    if report.status not in _WHOLE:
        why = f" ({report.errors[0].diagnostic.message})" if report.errors else ""
        failed = "it was skipped" if report.status == "skipped" else "its run failed"
        return f"{failed}: its status is {report.status}{why}"
    if report.kind == "selftest":
        return "it is a self-test, which judges itself: nothing in it has a control"
    if not any(row.status == "ok" for row in report.measurements):
        return f"nothing is measured in it: it is of `{report.kind}`"
    if report.fingerprint is None:
        return "it does not say which machine it is of"
    return None


def machines(base: Report, new: Report, sides: Sides = SIDES) -> tuple[str, ...]:
    """Return the differences between the machines of two reports; none if they are the same.

    That is the processor, its cores, and the device that each name is. Versions of libraries,
    drivers, Python and the system may differ: whether a new one is slower is what users compare.
    """
    bindings = [binding for row in new.measurements for binding in row.case.bindings]
    return machine_of(base, new.fingerprint, bindings, sides)


def machine_of(
    base: Report, new: Fingerprint | None, bindings: Iterable[Binding], sides: Sides = SIDES
) -> tuple[str, ...]:
    """Return the differences between the machine of a report and that of a run: see `machines`."""
    changes = _differences(_machine(base.fingerprint), _machine(new), sides)
    rows = (binding for row in base.measurements for binding in row.case.bindings)
    before, after = _devices(rows), _devices(bindings)
    known = {key: after.get(key, id_) for key, id_ in before.items()}  # rows show what is missing
    return (*changes, *_differences(before, known, sides))


def surroundings(base: Report, new: Report, sides: Sides = SIDES) -> tuple[str, ...]:
    """Return which versions and variables differ that steer placement or speed."""
    versions = _differences(_versions(base.fingerprint), _versions(new.fingerprint), sides)
    return (*versions, *_differences(base.environment, new.environment, sides))


def _machine(fingerprint: Fingerprint | None) -> dict[str, str]:
    if fingerprint is None:
        return {}
    cores, devices = str(fingerprint.cores), " ".join(fingerprint.devices)
    return {"processor": fingerprint.cpu, "cores": cores, "devices": devices}


def _versions(fingerprint: Fingerprint | None) -> dict[str, str]:
    if fingerprint is None:
        return {}
    return {
        "system": fingerprint.os,
        "Python": fingerprint.python,
        **dict(fingerprint.libraries),
        **{f"driver of {device}": driver for device, driver in fingerprint.drivers.items()},
    }


def _devices(bindings: Iterable[Binding]) -> dict[str, str]:
    """Return which device each name is, for each backend that drives it."""
    return {f"{b.name} ({b.device.backend})": b.device.id for b in bindings}


def _differences(
    before: Mapping[str, str | None], after: Mapping[str, str | None], sides: Sides
) -> Iterator[str]:
    """Yield each key whose values differ, with both of them."""
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old != new:
            yield f"{key}: {old or _NOTHING} in {sides[0]}, {new or _NOTHING} in {sides[1]}"
