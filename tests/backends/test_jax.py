"""JAX's backend on processors, and what is true without JAX."""

import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock, patch

import numpy as np
import pytest
from backends.frameworks import MACHINE, needs
from buffers import got, sent
from flat_report import loads
from sessions import opened
from training.test_rules import RATE, alone, learned, training

from gpumap.backends import jax as jax_backend
from gpumap.backends import load, third_party
from gpumap.backends.base import Host
from gpumap.backends.jax import JaxBackend, psum
from gpumap.backends.jax.buffers import Place
from gpumap.backends.probe import unloadable
from gpumap.backends.third_party import outcome
from gpumap.bench.train_workers import LocalWorkers
from gpumap.errors import OutOfMemory, QuestionError, Unsupported
from gpumap.machine.cuda import CudaDevice, CudaDriver

needs_jax = needs("jax")


@needs_jax
@pytest.mark.parametrize("count", [1, 4])
def test_every_processor_is_all_cores(count):
    """As many as the environment says, and each shares its hardware with all others."""
    env = {**os.environ, "JAX_NUM_CPU_DEVICES": str(count)}
    found = load("jax", Host(env, MACHINE)).probe()
    assert [str(d.ref) for d in found.devices] == [*(f"cpu{n}" for n in range(count)), "cpu"]
    assert {d.hardware for d in found.devices} == {frozenset(c.hardware for c in MACHINE.cpus)}
    assert found.notes[0].startswith(f"cpu: JAX has {count}, ")


@needs_jax
def test_jax_takes_no_memory_before_it_uses_it():
    """The variable is set before JAX is imported, unless the user has set it."""
    code = (
        "import os; from gpumap.backends.jax import library\n"
        "library(); print(os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'])"
    )
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    bare = {key: value for key, value in os.environ.items() if key != name}
    for env, expected in ((bare, "false"), ({**bare, name: "true"}, "true")):
        done = subprocess.run([sys.executable, "-c", code], env=env, check=True,
                              capture_output=True, text=True)  # fmt: skip
        assert done.stdout == f"{expected}\n"


@needs_jax
def test_what_is_queued_is_waited_for_by_all_its_sessions():
    """A copy by the one that it was requested of, too; the host waits for none."""
    with opened("jax", "jax") as (here, there):
        a, b = (session.empty((3, 3), "float32") for session in (here, there))
        assert here.copy(a, b) == ("same" if here.native == there.native else "peer")
        for queue, sessions in (
            (partial(here.copy, a, b), (here, there)),
            (partial(here.gemm, a, a, a), (here,)),
            (partial(here.run, "relu", a, a, size=9), (here,)),
        ):
            here.synchronize()
            there.synchronize()
            with patch.object(Place, "wait") as wait:
                queue()
                for number, session in enumerate(sessions, 1):
                    session.synchronize()
                    assert wait.call_count == number
        here.wait(mark := Mock())  # of another library
        mark.session.synchronize.assert_called_once_with()


@needs_jax
def test_the_result_takes_the_memory_of_the_buffer():
    """It is donated: a product allocates nothing, however often it is queued."""
    with opened("jax") as (session,):
        a = sent(session, np.ones((256, 256), "float32"))
        out = session.empty((256, 256), "float32")
        session.synchronize()
        before = out.memory.array
        place = before.unsafe_buffer_pointer()
        session.gemm(a, a, out, repeat=3)
        session.synchronize()
        assert before.is_deleted()
        assert out.memory.array.unsafe_buffer_pointer() == place
        for sides in ((out, a), (a, out), (out, out)):  # each reads what the one before it left
            session.gemm(*sides, out)
        assert (got(out) == 256.0**7).all()  # 256, squared, cubed, and 256 times the square of that


@needs_jax
def test_nothing_is_compiled_twice():
    """The first product of its shapes compiles; those that are measured do not."""
    import jax

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
    )
    with opened("jax") as (session,):
        a = sent(session, np.ones((37, 37), "float32"))
        out = session.empty((37, 37), "float32")
        session.gemm(a, a, out)
        session.synchronize()
        first = len(compiled)
        session.gemm(a, a, out, repeat=5)
        session.gemm(a, a, out)
        session.synchronize()
        assert first > 0
        assert len(compiled) == first


def test_a_place_is_waited_for_whoever_writes_there_meanwhile():
    """A program of another session has the memory of what was there; other errors are errors."""
    later, lost = Mock(), RuntimeError("device lost")
    later.is_deleted.return_value, later.block_until_ready.side_effect = False, lost
    place = Place(first := Mock())

    def taken():
        place.array = later
        raise RuntimeError("BlockHostUntilReady() called on deleted or donated buffer")

    first.block_until_ready = taken
    with pytest.raises(RuntimeError, match="device lost"):
        place.wait()


@needs_jax
@pytest.mark.parametrize("error", [OutOfMemory, KeyboardInterrupt])
def test_what_a_failed_program_took_is_not_waited_for(monkeypatch, error):
    """The error is that of the call; a session that is closed behind it raises no other."""
    import jax

    def failing(array):
        array.delete()
        if error is OutOfMemory:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: full")
        raise error

    monkeypatch.setattr("gpumap.backends.jax.programs._compiled", lambda *_: (failing, (0,)))
    with pytest.raises(error), opened("jax") as (session,):
        session.run("relu", *[session.empty((4,), "float32")] * 2, size=4)


@needs_jax
def test_errors_of_jax_are_errors_of_gpumaps():
    import jax

    assert outcome(jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: full")).error is OutOfMemory
    assert outcome(jax.errors.JaxRuntimeError("UNIMPLEMENTED: no")).error is Unsupported


@needs_jax
def test_a_core_of_jax_is_more_than_one_of_numpys(gpumap):
    """Beside each other, both have all cores by the name that the hint gives."""
    notes = {}
    for device in ("cpu0", "cpu"):
        done = gpumap("bench", "dot", f"a->{device}", "--backend", "jax,numpy", "--dry-run",
                      "--format", "json", JAX_PLATFORMS="cpu")  # fmt: skip
        assert done.code == 0, done.err
        known = loads(done.out)["map"]["notes"]
        notes[device] = {note["code"]: note["hint"] for note in known}
    assert notes["cpu0"]["other-hardware"].endswith("cpu for all cores")
    assert "other-hardware" not in notes["cpu"]


def _accelerator(platform, version="", **more):
    client = SimpleNamespace(platform=platform, platform_version=f"PJRT C API\n{version}")
    return SimpleNamespace(
        client=client, platform=platform, local_hardware_id=1, id=1, device_kind="A board",
        memory_stats=lambda: {"bytes_limit": 1 << 30}, **more,
    )  # fmt: skip


def _found_of(monkeypatch, *natives, processor=True):
    """Return what the backend finds where JAX has these devices, and a processor or none."""
    own = SimpleNamespace(client=SimpleNamespace(platform="cpu"), local_hardware_id=0, id=0)

    def local_devices(backend=None):
        if backend and not processor:
            raise RuntimeError("Unknown backend cpu")
        return [own] if backend else [*natives]

    jax = SimpleNamespace(local_devices=local_devices, __version__="0.10")
    cards = tuple(CudaDevice("A board", f"0000:9{letter}:00.0", None) for letter in "cd")
    monkeypatch.setattr(jax_backend, "library", lambda: jax)
    monkeypatch.setattr(third_party, "driver", lambda: CudaDriver(0, 13000, cards))
    return JaxBackend(Host({}, MACHINE)).found()


@pytest.mark.parametrize(("native", "kind", "hardware"), [
    (_accelerator("gpu", "cuda 12080", compute_capability="9.0"), "cuda", "pci:0000:9d:00.0"),
    (_accelerator("gpu", "rocm 60300", compute_capability="gfx942"), "rocm", "rocm:1"),
    (_accelerator("tpu", "TFRT TPU v4"), "tpu", "tpu:1"),
])  # fmt: skip
def test_an_accelerator_is_known_by_its_clients_version(native, kind, hardware, monkeypatch):
    """JAX calls GPUs of two makers gpu; which card it is, the driver knows by its number."""
    device = _found_of(monkeypatch, native).devices[0]
    assert (str(device.ref), device.hardware) == (f"{kind}1", frozenset({hardware}))
    assert device.memory_total == 1 << 30
    assert device.facts.get("compute_capability") == ("9.0" if kind == "cuda" else None)
    features = JaxBackend(Host({}, MACHINE)).features(device)
    assert ("float64" in features) == (kind != "tpu")
    assert {"kernels", "operations"} <= features  # so that no chain of it is in one piece


def test_a_device_of_no_kind_hides_no_other(monkeypatch):
    """A plugin may bring what gpumap has no word for, as METAL."""
    found = _found_of(monkeypatch, _accelerator("METAL"), _accelerator("tpu"))
    assert [str(device.ref) for device in found.devices] == ["tpu1", "cpu0", "cpu"]
    assert found.notes[0].startswith("METAL:1: ")


def test_jax_without_processors_has_its_accelerators(monkeypatch):
    """JAX_PLATFORMS=cuda leaves processors out: no count of them is given."""
    native = _accelerator("gpu", "cuda 12080", compute_capability="9.0")
    found = _found_of(monkeypatch, native, processor=False)
    assert [str(device.ref) for device in found.devices] == ["cuda1"]
    assert found.notes == ()


@needs_jax
@pytest.mark.parametrize(("name", "value", "reason"), [
    ("JAX_NUM_CPU_DEVICES", "many", 'Invalid value "many"'),
    ("JAX_PLATFORMS", "no-such", "Unable to initialize backend 'no-such'"),
])  # fmt: skip
def test_a_variable_that_jax_refuses_is_said(name, value, reason):
    """In JAX's words, cut to a few lines."""
    found = load("jax", Host(os.environ | {name: value}, MACHINE)).probe()
    assert found.reason.startswith(f"cannot load: {reason}")
    assert "the variables that it reads" in found.fix
    assert len(found.reason) < 400


def test_an_error_without_words_has_its_class():
    """JAX asserts that it has a platform, and says no more."""
    assert unloadable("jax", AssertionError(), "").reason == "cannot load: AssertionError"


@needs_jax
def test_psum_sums_on_every_device_of_jax(gpumap):
    """The bits are right on each of four, at every size of the sweep."""
    env = {"JAX_NUM_CPU_DEVICES": "4", "JAX_PLATFORMS": "cpu"}
    done = gpumap("bench", "allreduce", "a->cpu0;b->cpu1;c->cpu2;d->cpu3", "--backend", "jax",
                  "--comm", "psum", "--sizes", "small", "--budget", "3s", "--format", "json",
                  **env)  # fmt: skip
    rows = loads(done.out)["measurements"]
    assert done.code == 0, done.err
    assert {row["check"]["passed"] for row in rows if row["status"] == "ok"} == {True}
    assert any(row["params"]["bytes"] == 4096 and row["status"] == "ok" for row in rows)


@needs_jax
def test_psum_takes_each_device_once_and_writes_in_place():
    with opened("jax") as (session,):
        with pytest.raises(QuestionError, match="listed twice"):
            psum([session, session])
        buffer = sent(session, np.arange(8, dtype=np.float32))
        assert psum([session])([buffer])(3) == frozenset()
        assert got(buffer).tolist() == list(range(8))


def test_psum_is_between_devices_of_jax(gpumap):
    """Whether JAX is there or not, the first fix is one that works here."""
    done = gpumap("bench", "allreduce", "a->cpu0;b->cpu1", "--comm", "psum", "--budget", "3s")
    assert done.code in (2, 3)
    assert "psum is JAX's" in done.err
    assert "--backend jax" in done.err or "pip install" in done.err


@needs_jax
def test_psum_averages_the_gradients_of_a_training(monkeypatch):
    with opened("jax", "jax") as sessions:
        if sessions[0].native == sessions[1].native:
            pytest.skip("JAX has one processor here: JAX_NUM_CPU_DEVICES=2 makes two")
        by_psum = partial(LocalWorkers, library=psum, comm="psum")
        monkeypatch.setattr("training.test_rules.LocalWorkers", by_psum)
        work, job = training(sessions, "bsp", algorithm="native")
        assert abs(learned(work, 6) - alone(job, 6, RATE)).max() <= 1e-5
