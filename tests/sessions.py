"""Real sessions for tests of training: as many as are asked for, of each backend with kernels."""

from contextlib import ExitStack, contextmanager
from functools import cache

import here
import pytest

from gpumap.backends import REGISTRY, load

REAL = tuple(name for name in REGISTRY if name not in ("fake", "pygpu"))  # which has no kernels


@cache
def backend(name):
    made = load(name, here.HOST)
    return made, made.probe()


def usable(name):
    """Return a backend and its devices; without any the test is skipped with the reason."""
    made, probe = backend(name)
    if not probe.usable:
        pytest.skip(f"{name}: {probe.reason}")
    return made, probe.devices


def places():
    probes = [(name, backend(name)[1]) for name in REAL]
    skipped = {n: [pytest.mark.skip(f"{n}: {p.reason}")] for n, p in probes if not p.usable}
    return [pytest.param(name, marks=skipped.get(name, ())) for name in REAL]


@contextmanager
def opened(*names):
    """Open a device for each backend's name: the next one of its devices, then the first again."""
    used = {}
    with ExitStack() as stack:
        found = []
        for name in names:
            made, probe = backend(name)
            alike = [d for d in probe.devices if d.kind is probe.devices[0].kind]
            parts = [d for d in alike if d.ref.part is not None]
            devices = parts or [d for d in alike if d.ref.index is not None] or alike
            number = used[name] = used.get(name, -1) + 1
            device = devices[number % len(devices)]
            found.append(stack.enter_context(made.open(device, made.clock())))
        yield found
