"""Scripted devices without a command line: bindings, sessions and the clock they share."""

import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from gpumap.backends.fake import FakeSession
from gpumap.backends.fake.script import Engine, FakeClock, FakeDevice, device_of
from gpumap.bench.dot import Dot, Params
from gpumap.bench.transfer import CASES, Transfer
from gpumap.bench.transfer import Params as TransferParams
from gpumap.engine.base import Settings
from gpumap.engine.control import Controlled, controlled
from gpumap.engine.runner import Runner
from gpumap.engine.verify import HOLDS, is_hollow, lighten
from gpumap.model import Binding

RATE = 2.0**31
SETTINGS = Settings(budget=1000.0, timeout=1e4, blocks=6)
TOL = 1e-12


@dataclass
class World:
    bindings: tuple
    sessions: dict
    clock: FakeClock
    again: Callable | None = None
    cpus: int = 1


def world(*scripts, kind=FakeSession, host=None, light=False):
    """Open a device for each script, under the names a, b, c ...; a script may come twice.

    Light ones hold no data to speak of, as those of a command.
    """
    clock = FakeClock(host) if host else FakeClock()
    engines, bindings, sessions = {}, [], {}
    for name, script in zip("abcdefghij", scripts, strict=False):
        device = device_of(script)
        engine = engines.setdefault(script.engine or device.id, Engine())
        bindings.append(Binding(name, device))
        sessions[name] = kind(device, script, clock, engine)
        if light:
            lighten(sessions[name])
    return World(tuple(bindings), sessions, clock)


def counting():
    """Return a kind of session that counts the bytes of its device, and the most that lived."""
    live, highest = Counter(), {}

    def count(id_, nbytes):
        live[id_] += nbytes
        highest[id_] = max(highest.get(id_, 0), live[id_])

    def empty(session, shape, dtype):
        buffer = FakeSession.empty(session, shape, dtype)
        count(session.device.id, buffer.nbytes)
        weakref.finalize(buffer.memory, count, session.device.id, -buffer.nbytes)
        return buffer

    return type("Counting", (FakeSession,), {"empty": empty}), highest


def gpu(number=0, **script):
    return FakeDevice(f"cuda{number}", **{"rate": RATE, "latency": 2.0**-10} | script)


def noting(*names):
    """Return a kind of session that writes down its calls of these methods, and where it does."""
    heard = []

    def noted(name):
        def call(session, *arguments, **others):
            heard.append((name, session.device.id))
            return getattr(FakeSession, name)(session, *arguments, **others)

        return call

    return type("Noting", (FakeSession,), {name: noted(name) for name in names}), heard


def hooked(work, name, before):
    """Return an iteration of which something else happens before each call of a method."""
    call = getattr(work, name)

    def noted(*arguments, **others):
        before()
        return call(*arguments, **others)

    setattr(work, name, noted)
    return work


def hooking(kind, name, before):
    """Return a kind of benchmark; its iterations are `hooked`, by what is given it and the case."""

    def iteration(benchmark, case):
        work = super(made, benchmark).iteration(case)
        return hooked(work, name, lambda: before(benchmark, case))

    made = type("Hooking", (kind,), {"iteration": iteration})
    return made


def dot_on(here, params=None, kind=Dot):
    params = params or Params((64,))
    return kind(here, params, here.bindings[0])


def controlled_on(here, benchmark, kind=Controlled):
    benchmark.plan = controlled(benchmark.plan, here.bindings)
    return kind(benchmark, here.sessions)


def rows_on(here, benchmark, settings=SETTINGS, **others):
    return list(Runner(benchmark, here.clock, settings, **others).run())


def copies_on(here, *sizes, cases=CASES[:4], sweep=()):
    def again(name):
        first = here.sessions[name]
        made = type(first)(first.device, first.script, here.clock, first.engine)
        if is_hollow(first, HOLDS + 1):
            lighten(made)
        return made

    params = TransferParams(sizes, cases, sweep=sweep)
    return Transfer(replace(here, again=again), params)


def case_of(benchmark, name):
    return next(case for case in benchmark.plan.cases if case.name == name)
