"""The map of a request: found where it is given, parsed, and noted in the draft of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpumap import sources
from gpumap.errors import Diagnostic, MapError
from gpumap.model import MapText, replace
from gpumap.parse import parse_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gpumap.app.recording import Draft
    from gpumap.model import Binding, ContextMap

_NO_MAP = 'give one: gpumap check "dev0->cuda0;dev1->cuda1"; `gpumap devices` lists the devices'


class Where(NamedTuple):
    """Where a map is, and what drives its devices: the texts of MAP, --map and --backend."""

    argument: str | None = None
    option: str | None = None
    backend: str | None = None


def read_map(
    draft: Draft, where: Where, default: Callable[[], ContextMap] | None = None
) -> ContextMap:
    """Find the map and parse it; `default` makes one where none is given.

    Raises:
        MapError: there is none, or it does not parse.
    """
    env, cwd = draft.program.env, draft.program.cwd
    draft.source = sources.find(where.argument, where.option, env=env, cwd=cwd)
    if draft.source is not None:
        draft.map = parse_map(draft.source.text)
        return draft.map
    draft.remarks += sources.ignored(env)
    if default is None:
        raise MapError((Diagnostic("no-map", "no map is given", hint=_NO_MAP),))
    draft.map = default()
    draft.source = MapText(draft.map.text, "default")
    return draft.map


def use(draft: Draft, bindings: Iterable[Binding]) -> None:
    """Let the map be what is really used, where that is not what was given."""
    assert draft.source is not None  # it was read
    text = ";".join(f"{binding.name}->{binding.device.ref}" for binding in bindings)
    draft.source, draft.map = replace(draft.source, text=text), parse_map(text)
