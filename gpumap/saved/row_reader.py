"""Rows as they were measured; a row that was edited, or contradicts itself, is refused."""

from __future__ import annotations

import math
import re
from itertools import product
from typing import TYPE_CHECKING, Any, get_args

from gpumap.bench.cost_models import fit_id
from gpumap.bench.registry import find
from gpumap.model import (
    Binding,
    BreakEven,
    Case,
    Check,
    Fit,
    Measurement,
    Reason,
    Samples,
    Work,
    replace,
)
from gpumap.model.maps import UNITS
from gpumap.model.shape import Phase
from gpumap.model.trees import Refused, copied

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized

    from gpumap.model import Device, Estimate

_DECIDED = re.compile(  # the id of a break-even
    r"(?P<bench>[a-z]+)\.(?P<case>[a-z]+)"
    r"\[backend=(?P<backend>[a-z0-9_]+),names=[^,=\[\]]*,resident=(?P<resident>false|true)\]"
)
_PHASES = {*get_args(Phase)}  # of a step: they follow without a gap
_BY_ITS_CASE = ("host-to-device", "device-to-host")  # routes that are known without a look
_NO_SKIP = ("stopped", "budget")  # reasons for which a case that could be measured was not
_BY_BYTES = ("bytes", "scripted")  # methods of checks that tell a place, and no error


def measurements(
    rows: Sequence[Any],
    devices: Mapping[str, Device],
    names: Collection[str],
) -> tuple[Measurement, ...]:
    """Return the rows of a report, whose ids are their own and unique.

    Raises:
        Refused: a row is not what a run could have written.
    """
    found: dict[str, Measurement] = {}
    for number, row in enumerate(rows):
        path = f"$.measurements[{number}]"
        if row.id in found:
            raise Refused(f'duplicate id "{row.id}"', f"{path}.id")
        found[row.id] = _measurement(row, devices, names, path)
    for number, row in enumerate(rows):
        if row.against is not None and row.against not in found:
            path = f"$.measurements[{number}].against"
            raise Refused(f'no row has the id "{row.against}"', path)
    return tuple(found.values())


def _measurement(
    row: Any, devices: Mapping[str, Device], names: Collection[str], path: str
) -> Measurement:
    for key, fault in _faults(row):
        raise Refused(fault, f"{path}.{key}")
    case = _case(row, devices, names, path)
    _refuse_units(row.metrics, path)
    route = None if row.route in _BY_ITS_CASE else row.route
    differ = {"samples": _samples(row), "route": route}
    return copied(Measurement, row, case=case, **differ)


def _refuse_units(found: Mapping[str, Estimate], path: str) -> None:
    """Check the units of the metrics of a row, a fit or a break-even.

    Raises:
        Refused: one is in another unit than its metric.
    """
    for name, figure in found.items():
        if figure.unit != UNITS.get(name, figure.unit):
            raise Refused(f"it is in {UNITS[name]}", f"{path}.metrics.{name}.unit")


# --- the case


def known(id_: str, devices: Mapping[str, Device], path: str) -> Device:
    """Return the device of an id.

    Raises:
        Refused: the report has none.
    """
    if id_ not in devices:
        raise Refused(f'no device of the report is "{id_}"', path)
    return devices[id_]


def _case(row: Any, devices: Mapping[str, Device], names: Collection[str], path: str) -> Case:
    """Return a case that has the id of its row, and no other."""
    case = copied(
        Case,
        row,
        bindings=_bindings(row, devices, names, path),
        work=Work(
            row.work.get("products", 0),
            row.work.get("operations", 0),
            row.work.get("bytes_to_device", row.work.get("bytes", 0)),
            row.work.get("bytes_to_host", 0),
        ),
        skip=_skip(row),
        route=row.route if row.route in _BY_ITS_CASE else None,
    )
    if case.id != row.id and len(row.names) > 1:
        case = replace(case, ordered=True)
    if case.id != row.id:
        raise Refused(f'it is not that of its row, "{case.id}"', f"{path}.id")
    return case


def _bindings(
    row: Any, devices: Mapping[str, Device], names: Collection[str], path: str
) -> tuple[Binding, ...]:
    if len(row.devices) != len(row.names):
        raise Refused("there is one device for each name", f"{path}.devices")
    for number, name in enumerate(row.names):
        if name not in names:
            raise Refused(f'the map has no name "{name}"', f"{path}.names[{number}]")
    found = [known(id_, devices, f"{path}.devices[{n}]") for n, id_ in enumerate(row.devices)]
    return tuple(map(Binding, row.names, _driven(found, row.backend)))


def _driven(devices: Sequence[Device], joined: str) -> Sequence[Device]:
    """Return the devices as the backends of a row drove them.

    With `--backend all` several drive a device, one after the other, and the report lists it once.
    In one row, each kind has one backend.
    """
    if _joined(device.backend for device in devices) == joined:
        return devices
    kinds = list(dict.fromkeys(device.kind for device in devices))
    for chosen in product(joined.split("+"), repeat=len(kinds)):
        by_kind = dict(zip(kinds, chosen, strict=True))
        if _joined(by_kind[device.kind] for device in devices) == joined:
            return [replace(device, backend=by_kind[device.kind]) for device in devices]
    return devices


def _joined(backends: Iterator[str]) -> str:
    return "+".join(dict.fromkeys(backends))


def _skip(row: Any) -> Reason | None:
    """Return why a case could not be measured, if that was known before."""
    if row.status != "skipped" or row.reason is None or row.role == "control":
        return None
    return None if row.reason.code in _NO_SKIP else row.reason


# --- what was measured


def _samples(row: Any) -> Samples | None:
    if row.clock is None:
        return None
    return copied(
        Samples,
        row,
        seconds=tuple(math.nan if seconds is None else seconds for seconds in row.seconds),
        intervals={
            name: tuple(zip(spans.start, spans.stop, strict=True))
            for name, spans in row.intervals.items()
        },
    )


# --- what follows from many rows: models of copies, and from which size on a device breaks even


def fits(shapes: Sequence[Any], rows: Iterable[Measurement]) -> Iterator[Fit]:
    """Yield each model, with the smallest of the copies that it was fitted to.

    Raises:
        Refused: no copies of the report have its id.
    """
    fitted: dict[str, Case] = {}
    for row in rows:
        if row.case.swept and row.status == "ok":
            fitted.setdefault(fit_id(row.case), row.case)
    for number, found in enumerate(shapes):
        path = f"$.fits[{number}]"
        if found.id not in fitted:
            raise Refused("no fitted row has this id, or the id is a duplicate", f"{path}.id")
        case, residual = fitted.pop(found.id), found.residual
        _refuse_units(found.metrics, path)
        yield copied(Fit, found, case=case, residual=math.inf if residual is None else residual)


def break_evens(shapes: Sequence[Any], bindings: Sequence[Binding]) -> Iterator[BreakEven]:
    """Yield from which size on each device pays.

    Raises:
        Refused: an id is a duplicate, or is not one of a name of the map.
    """
    seen: set[str] = set()
    for number, found in enumerate(shapes):
        path = f"$.break_evens[{number}]"
        if found.id in seen:
            raise Refused(f'duplicate id "{found.id}"', f"{path}.id")
        seen.add(found.id)
        case = _decided(found.id, bindings, f"{path}.id")
        _refuse_units(found.metrics, path)
        shares = {int(nbytes): each for nbytes, each in found.shares.items()}
        yield copied(BreakEven, found, case=case, shares=shares)


def _decided(id_: str, bindings: Sequence[Binding], path: str) -> Case:
    """Return the case of an id: all that is known of it stands there."""
    match = _DECIDED.fullmatch(id_)
    for binding in bindings if match else ():
        assert match is not None
        (device,) = _driven([binding.device], match["backend"])
        params = {"resident": match["resident"]}
        case = Case(match["bench"], match["case"], params, (Binding(binding.name, device),), Work())
        if case.id == id_:
            return case
    raise Refused("no name of the map has given it", path)


# --- what contradicts itself: the key, and the rule that it breaks


def _faults(row: Any) -> Iterator[tuple[str, str]]:
    spec = find(row.bench)
    if spec is not None and spec.row_key is not None:
        yield from ((f"params.{name}", why) for name, why in spec.row_key.faults(row))
    if len(set(row.flags)) < len(row.flags):
        yield "flags", "duplicate flag"
    yield from _lengths(row)
    if row.check is not None:
        yield from _unchecked(row.check)
    yield from _ok(row) if row.status == "ok" else _not_ok(row)


def _lengths(row: Any) -> Iterator[tuple[str, str]]:
    """Yield each list that does not tell of every sample, or of every phase."""
    n = len(row.seconds)
    taken = row.clock is not None
    if (row.iterations_per_sample is not None) != taken or (n and not taken):
        yield "clock", "clock and iterations_per_sample are there if there are samples"
    lists: dict[str, Iterable[Sized]] = {
        "blocks": [row.blocks],
        "intervals": [
            ends for spans in row.intervals.values() for ends in (spans.start, spans.stop)
        ],
        "worked_s": row.worked.values(),
        "phases_s": row.phases.values(),
        "queue_s": [row.queue] if row.queue else [],
        "cpu_s": [row.cpu] if row.cpu else [],
        "control_s": [row.control] if row.control else [],
    }
    for key, each in lists.items():
        if any(len(one) != n for one in each):
            yield key, f"it must be as long as samples, {n}"
    for key, figures in (("metrics", row.metrics), ("phases_s", row.phases)):
        if 0 < len(_PHASES & figures.keys()) < len(_PHASES):
            yield key, "it has all phases of a step, or none"
    if any(mark.sample >= n for mark in row.sample_notes):
        yield "sample_notes", f"there are {n} samples"
    if list(row.blocks) != sorted(row.blocks):
        yield "blocks", "they are not in the order of time"
    if not {*row.intervals, *row.worked} <= set(row.names):
        yield "intervals", "one is of a name that the row does not have"


def _unchecked(check: Check) -> Iterator[tuple[str, str]]:
    if check.method in _BY_BYTES:
        if check.nbytes is None:
            yield "check.bytes", "it says how many were compared"
        if check.passed and check.first_bad_offset is not None:
            yield "check.passed", "a byte was wrong"
    elif check.passed and (check.max_error is None or check.bound is None):
        yield "check", "max_error and bound say what passed"
    elif check.bound != 1.0:  # an error is counted in what rounding allows (engine/verify.py)
        yield "check.bound", "it is always 1"
    elif check.passed and check.max_error > check.bound:  # type: ignore[operator]
        yield "check.passed", "the error is above the bound"


def _ok(row: Any) -> Iterator[tuple[str, str]]:
    if row.reason is not None:
        yield "reason", "a row that is ok has none"
    if not row.seconds:
        yield "samples", "a row that is ok has some"
    for number, seconds in enumerate(row.seconds):
        if seconds is None or seconds <= 0:
            yield f"samples[{number}]", "in a row that is ok it is a time above 0"
    if row.stop is None:
        yield "stop", "a row that is ok has one"
    if row.check is None or not row.check.passed:
        yield "check", "a row that is ok has passed one"
    if not {"time", "issue_interval"} & row.metrics.keys():
        yield "metrics", "a row that is ok has a time or an issue interval"


def _not_ok(row: Any) -> Iterator[tuple[str, str]]:
    if row.reason is None:
        yield "reason", "a row that is not ok says why"
