"""What tests of PyTorch's and JAX's backends share: a broken library, products of every type."""

import os
from importlib.util import find_spec

import pytest
from sessions import backend

from gpumap.backends import load
from gpumap.backends import probe as module
from gpumap.backends.base import Host
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
