"""What follows from many rows: models of copies, and from which size on a device pays."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from gpumap.bench.model import fit_id
from gpumap.model import Binding, BreakEven, Case, Fit, Work
from gpumap.model.trees import copied
from gpumap.saved.device_reader import reason
from gpumap.saved.row_reader import driven, refuse_units
from gpumap.saved.tree import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.model import Measurement, shape

_ID = re.compile(
    r"(?P<bench>[a-z]+)\.(?P<case>[a-z]+)"
    r"\[backend=(?P<backend>[a-z0-9_]+),names=[^,=\[\]]*,resident=(?P<resident>false|true)\]"
)


def fits(shapes: Sequence[shape.Fit], rows: Iterable[Measurement]) -> Iterator[Fit]:
    """Yield each model, with the smallest of the copies that it was fitted to.

    Raises:
        Refused: no copies of the report have its id.
    """
    fitted: dict[str, Case] = {}
    for row in rows:
        if row.case.params.get("pattern") == "ladder" and row.status == "ok":
            fitted.setdefault(fit_id(row.case), row.case)
    for number, found in enumerate(shapes):
        path = f"$.fits[{number}]"
        if found.id not in fitted:
            raise Refused("no row was fitted to give it, or it stands twice", f"{path}.id")
        case, residual = fitted.pop(found.id), found.residual
        refuse_units(found.metrics, path)
        yield copied(Fit, found, case=case, residual=math.inf if residual is None else residual)


def break_evens(
    shapes: Sequence[shape.BreakEven], bindings: Sequence[Binding]
) -> Iterator[BreakEven]:
    """Yield from which size on each device pays.

    Raises:
        Refused: an id stands twice, or is not one of a name of the map.
    """
    seen: set[str] = set()
    for number, found in enumerate(shapes):
        path = f"$.break_evens[{number}]"
        if found.id in seen:
            raise Refused(f'the id "{found.id}" stands twice', f"{path}.id")
        seen.add(found.id)
        case = _decided(found.id, bindings, f"{path}.id")
        refuse_units(found.metrics, path)
        shares = {int(nbytes): each for nbytes, each in found.shares.items()}
        yield copied(BreakEven, found, case=case, shares=shares, reason=reason(found.reason))


def _decided(id_: str, bindings: Sequence[Binding], path: str) -> Case:
    """Return the case of an id: all that is known of it stands there."""
    match = _ID.fullmatch(id_)
    for binding in bindings if match else ():
        assert match is not None
        (device,) = driven([binding.device], match["backend"])
        params = {"resident": match["resident"]}
        case = Case(match["bench"], match["case"], params, (Binding(binding.name, device),), Work())
        if case.id == id_:
            return case
    raise Refused("no name of the map has given it", path)
