"""The probes in a child process, name by name: one that hangs or crashes costs no other name.

The child is ``python -m gpumap.doctor.measuring FD``; it reads the names and their devices from
stdin, and writes a line for each name that it begins, each that it ends, and one for all together.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpumap.backends import load
from gpumap.backends.base import Host
from gpumap.backends.probe import device_fields, device_of, end_with_parent, in_child
from gpumap.doctor.evidence import Measured, Together
from gpumap.model import Binding, Estimate, Example, Explanation, Reason, Shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpumap.backends.base import Backend, Clock, Session

    Tree = dict[str, Any]

BUDGET = 6.0  # seconds for the probes of all names, and as much again for what they take to start
_LEAST = 0.25  # seconds of a name, however many there are
_TOGETHER = 0.3  # of the budget, where there are several names
_OTHERS = 5.0  # seconds kept for the other names, should one hang


def measured(
    bindings: Sequence[Binding], env: Mapping[str, str], end: float
) -> tuple[dict[str, Measured], Together | None]:
    """Return what the probes found on each name, and on several at once.

    Args:
        bindings: names and devices.
        env: the environment of the program.
        end: the moment (`time.monotonic`) at which to be done.
    """
    found: dict[str, Measured] = {}
    together = None
    left = list(bindings)
    while left:
        limit = end - time.monotonic() - (_OTHERS if len(left) > 1 else 0.0)
        if limit <= 0.0:
            break
        rows, together = _asked(left, env, limit)
        found |= rows
        left = [binding for binding in left if binding.name not in found]
    missing = Reason("no-time", "no time was left for its probes")
    return found | {b.name: Measured(failure=missing) for b in left}, together


def _asked(
    bindings: Sequence[Binding], env: Mapping[str, str], limit: float
) -> tuple[dict[str, Measured], Together | None]:
    """Return what one child found: at least of one name, be it that the child ended with it."""
    child = in_child("gpumap.doctor.measuring", (), env, limit, _job(bindings))
    doing, rows, together = _read(child.answer)
    if doing is None and not rows:
        doing = bindings[0].name
    if doing is not None:
        rows[doing] = Measured(failure=_ended(child.code, limit, child.errors))
    return rows, together


def _ended(code: int | None, limit: float, errors: str) -> Reason:
    """Return why a child ended in the middle of a name."""
    if code is None:
        return Reason("hangs", f"no answer within {limit:.0f} s")
    if code < 0:
        return Reason("crashes", f"the process that used it ended with signal {-code}")
    last = errors.strip().rpartition("\n")[2]
    return Reason("probe-failed", last or f"the process that used it ended with {code}")


def _job(bindings: Sequence[Binding]) -> str:
    names = [{"name": b.name, "device": device_fields(b.device)} for b in bindings]
    return json.dumps({"names": names})


def _read(text: str) -> tuple[str | None, dict[str, Measured], Together | None]:
    """Return the name that was begun and not ended, what ended, and all together."""
    doing, rows, together = None, {}, None
    for line in text.splitlines():
        with suppress(ValueError):  # the last one may be cut
            tree = json.loads(line)
            if "begin" in tree:
                doing = tree["begin"]
            elif "together" in tree:
                together = _together_of(tree["together"])
            else:
                rows[tree["name"]], doing = _measured_of(tree), None
    return doing, rows, together


# --- as plain values, and back


def _measured_of(tree: Tree) -> Measured:
    return Measured(
        _figures_of(tree["figures"]),
        tuple(map(_example_of, tree["examples"])),
        _reason_of(tree["failure"]),
        tree["missing"],
    )


def _reason_of(tree: Tree | None) -> Reason | None:
    if tree is None:
        return None
    code, text = tree["code"], tree["text"]
    return Reason(code, text)


def _example_of(tree: Tree) -> Example:
    shares = tree["shares"]
    return Example(
        tree["workload"],
        tree["words"],
        tree["calls"],
        Estimate(**tree["device"]),
        Estimate(**tree["host"]),
        Shares(**shares) if shares else None,
    )


def _together_of(tree: Tree) -> Together | None:
    said = tree["explanation"]
    figures = _figures_of(said["figures"]) if said else {}
    return Together(
        Estimate(**tree["speedup"]),
        Estimate(**tree["ideal"]),
        Explanation(said["cause"], said["text"], figures) if said else None,
    )


def _figures_of(tree: Tree) -> dict[str, Estimate]:
    return {name: Estimate(**figure) for name, figure in tree.items()}


# --- the child


def _main(descriptor: int) -> None:
    """Be the child; end when the parent ends."""
    end_with_parent()
    job = json.load(sys.stdin)
    bindings = [Binding(one["name"], device_of(one["device"])) for one in job["names"]]
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:

        def say(tree: Tree) -> None:
            file.write(json.dumps(tree) + "\n")
            file.flush()

        for tree in _work(bindings, dict(os.environ)):
            say(tree)


def _work(bindings: Sequence[Binding], env: Mapping[str, str]) -> Iterator[Tree]:
    import numpy as np  # noqa: F401 - before any thread is pinned: OpenBLAS sizes itself now

    from gpumap.doctor.probes import Probes
    from gpumap.machine.blas import Cores
    from gpumap.machine.topology import read

    topology = read()
    host, cores = Host(env, topology), Cores(len(topology.cpus))
    backends = {name: load(name, host) for name in {b.device.backend for b in bindings}}
    several = len({b.device.id for b in bindings}) > 1
    share = max(BUDGET * (1.0 - _TOGETHER * several) / len(bindings), _LEAST)
    opened: dict[str, Session] = {}
    for binding in bindings:
        yield {"begin": binding.name}
        backend = backends[binding.device.backend]
        clock = backend.clock()
        probes = Probes(binding, _opener(backend, binding, clock), clock, cores, share)
        found = probes.run()
        if found.failure is None:
            opened[binding.name] = probes.session
        yield {"name": binding.name, **asdict(found)}
    usable = [binding for binding in bindings if binding.name in opened]
    if several and len(backends) == 1 and len(usable) == len(bindings):
        yield from _several(usable, opened, backends.popitem()[1].clock())


def _opener(backend: Backend, binding: Binding, clock: Clock) -> Callable[[], Session]:
    return lambda: backend.open(binding.device, clock)


def _several(
    bindings: Sequence[Binding], sessions: Mapping[str, Session], clock: Clock
) -> Iterator[Tree]:
    from gpumap.doctor.together import together

    found = together(bindings, sessions, clock, BUDGET * _TOGETHER)
    if found is not None and math.isfinite(found.speedup.value):
        yield {"together": asdict(found)}


if __name__ == "__main__":
    _main(int(sys.argv[1]))
