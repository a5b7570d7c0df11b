"""What tests of PyTorch's and JAX's backends share: a broken library, products of every type."""

import os
from importlib.util import find_spec

import numpy as np
import pytest
from buffers import got, sent
from sessions import backend

from gpumap.backends import load
from gpumap.backends import probe as module
from gpumap.backends.base import Host
from gpumap.dtypes import ROUNDING, numpy_dtype, storage
from gpumap.machine import topology

BROKEN = {
    "raises": ("raise RuntimeError('half a wheel')", "cannot load: half a wheel", None),
    "lacks a file": ("raise OSError('libx.so: cannot open')", "cannot load: libx.so", None),
    "aborts": (
        "import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()",
        "its driver crashed while probed (SIGABRT)", "crashed",
    ),
    "hangs": ("import time; time.sleep(40)", "its import did not end within 1 s", "no-answer"),
    "ends": ("raise SystemExit('no licence')", "the probe failed: no licence", None),
}  # fmt: skip
MACHINE = topology.read()


def needs(name):
    """Mark a test of a backend: without its library it is skipped with the probe's reason."""
    found = backend(name)[1]
    why = f"{name}: {found.reason} ({found.fix})"
    return pytest.mark.skipif(find_spec(name) is None, reason=why)


def probe_of(name, source, tmp_path, monkeypatch):
    """Return what a backend answers whose library is a file with that source."""
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.setattr(module, "find_spec", lambda _: True)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    return load(name, Host(env, MACHINE, patience=1.0)).probe()


def assert_products(session, rng):
    """Products of every type that a session has, whole and with a long inner length, are right."""
    for arithmetic in ("float32", "float64", "float16", "bfloat16"):
        if arithmetic not in {"float32", *session.features}:
            continue
        held, rounding = numpy_dtype(storage(arithmetic)), ROUNDING[arithmetic]
        a, b = (rng.uniform(-1, 1, shape).astype(held) for shape in ((48, 700), (700, 24)))
        out = session.empty((48, 24), storage(arithmetic))
        session.gemm(sent(session, a), sent(session, b), out)
        wide = np.longdouble
        exact, terms = a.astype(wide) @ b.astype(wide), abs(a.astype(wide)) @ abs(b.astype(wide))
        room = (700 * rounding.add) * terms + rounding.write * abs(exact)
        assert (abs(got(out).astype(wide) - exact) <= room).all(), arithmetic
