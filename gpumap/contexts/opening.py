"""`gpumap.open` and `gpumap.dot`: what a program begins with."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpumap import sources
from gpumap.backends import REGISTRY
from gpumap.backends.base import Host
from gpumap.backends.opencl_vendors import register
from gpumap.contexts.array import Array
from gpumap.contexts.context import Context, Policy
from gpumap.errors import ContextError, QuestionError
from gpumap.machine.topology import read
from gpumap.parse import parse_map
from gpumap.resolve import Inventory, default_map, resolve

if TYPE_CHECKING:
    from gpumap.backends.base import Session
    from gpumap.model import ContextMap


BACKEND = "GPUMAP_BACKEND"
recorded: list[Context] | None = None  # a list, while the contexts of a program are recorded
defaults: list[str] | None = None  # likewise, the maps that were chosen because none was given


def open_(
    map_: str | None = None, *, backend: str | None = None, policy: Policy = "visible"
) -> Context:
    """Open the devices of a map and return their context.

    Args:
        map_: such as ``"dev0->cuda0;dev1->cuda1"``; without one that of GPUMAP_CONTEXTS,
            gpumap.toml, THEANO_FLAGS or .theanorc, else the default of `gpumap bench`.
        backend: the library that drives the devices; without one that of GPUMAP_BACKEND, else the
            default one of each kind.
        policy: "visible" moves operands that are not where an operation runs, and what NumPy
            copies implicitly (`numpy.exp(array)`), and the trace says so; "strict" raises
            ImplicitTransfer instead. `.numpy()` and `.transfer("cpu")` are asked for.

    Raises:
        MapError: the map does not parse.
        AbsentError: a device of the map is not there; no device is opened then.
        QuestionError: there is no such backend, or it does not drive a device of the map.
    """
    _check(policy, backend)
    asked = backend or os.environ.get(BACKEND) or None  # an empty variable is not set
    variables, notes = register(os.environ)
    os.environ.update(variables)  # drivers read that of their own process
    inventory = Inventory(Host(dict(os.environ), read(), notes=notes), asked)
    resolution = resolve(_map(map_, inventory), inventory)
    clock = inventory.backend(resolution.bindings[0].device.backend).clock()
    by_device: dict[str, Session] = {}
    with ExitStack() as stack:
        for binding in resolution.bindings:
            device = binding.device
            if device.id not in by_device:
                opened = inventory.backend(device.backend).open(device, clock)
                by_device[device.id] = stack.enter_context(opened)
        sessions = {b.name: by_device[b.device.id] for b in resolution.bindings}
        context = Context(resolution.bindings, sessions, clock, stack.pop_all(), policy)
    if recorded is not None:
        recorded.append(context)
    return context


def dot(a: Any, b: Any) -> Array:
    """Return the product of two matrices, queued where most bytes of them are.

    At least one of them is an array of a context; the other may be host data, which is moved.

    Raises:
        ShapeError: they are no matrices, or do not fit.
        ContextError: neither belongs to a context, or they belong to two.
    """
    owner = next((x.context for x in (a, b) if isinstance(x, Array)), None)
    if owner is None:
        fix = "make one by context.shared(array, target=...)"
        raise ContextError("dot needs an array of a context", fix)
    product: Array = owner.dot(a, b)
    return product


def _check(policy: Any, backend: Any) -> None:
    if not isinstance(policy, str) or policy not in ("visible", "strict"):
        raise QuestionError(f"there is no policy {policy!r}", "choose visible or strict")
    if not isinstance(backend, str | None):
        kind, known = type(backend).__name__, ", ".join(REGISTRY)
        raise QuestionError(f"the backend is {kind}, not a name", f"choose one of {known}")


def _map(text: str | None, inventory: Inventory) -> ContextMap:
    if text is not None:
        return parse_map(text)
    try:
        cwd = Path.cwd()
    except FileNotFoundError:  # the folder was deleted under the program
        cwd = Path("/")
    found = sources.find(argument=None, option=None, map_file=None, env=inventory.host.env, cwd=cwd)
    if found is not None:
        return parse_map(found.text)
    chosen = default_map(inventory)
    if defaults is not None:
        defaults.append(chosen.text)
    return chosen
