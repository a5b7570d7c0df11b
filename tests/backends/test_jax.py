"""JAX's backend on processors, and what is true without JAX."""

import os
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from backends.frameworks import MACHINE, needs
from buffers import got, sent
from flat_report import loads
from sessions import opened

from gpumap.backends import jax as jax_backend
from gpumap.backends import load, third_party
from gpumap.backends.base import Host
from gpumap.backends.jax import JaxBackend, psum
from gpumap.backends.jax.buffers import Place
from gpumap.backends.probe import unloadable
from gpumap.backends.third_party import outcome
from gpumap.errors import OutOfMemory, QuestionError, Unsupported
from gpumap.machine.cuda import CudaDevice, CudaDriver


class Native(SimpleNamespace):
    __hash__ = object.__hash__


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
def test_a_copy_is_waited_for_by_both_its_sessions():
    """It is in the queue of the one that it was requested of; the host waits for no copy."""
    with opened("jax", "jax") as (here, there):
        if here.native == there.native:
            pytest.skip("JAX has one processor here: JAX_NUM_CPU_DEVICES=2 makes two")
        source, target = sent(here, np.ones(8, "float32")), there.empty((8,), "float32")
        here.copy(source, target)  # the first one proves the route
        here.synchronize()
        there.synchronize()
        assert here.copy(source, target) == "peer"
        arrived, target.place.array = target.place.array, Mock()
        for number, session in enumerate((here, there), 1):
            session.synchronize()
            assert target.place.array.block_until_ready.call_count == number
        target.place.array = arrived
        assert got(target).tolist() == [1.0] * 8


@needs_jax
def test_the_result_takes_the_memory_of_the_buffer():
    """It is donated: a product allocates nothing, however often it is queued."""
    with opened("jax") as (session,):
        a = sent(session, np.ones((256, 256), "float32"))
        out = session.empty((256, 256), "float32")
        session.synchronize()
        before = out.place.array
        place = before.unsafe_buffer_pointer()
        session.gemm(a, a, out, repeat=3)
        session.synchronize()
        assert before.is_deleted()
        assert out.place.array.unsafe_buffer_pointer() == place


@needs_jax
@pytest.mark.parametrize("sides", ["out, b", "a, out", "out, out"])
def test_a_result_may_take_the_place_of_a_factor(sides):
    """What is read is not donated; each product reads what the one before it left."""
    names = sides.split(", ")
    arrays = {name: np.eye(4, dtype="float32") * factor
              for name, factor in (("a", 2), ("b", 3), ("out", 5))}  # fmt: skip
    with opened("jax") as (session,):
        buffers = {name: sent(session, array) for name, array in arrays.items()}
        session.gemm(*(buffers[name] for name in names), buffers["out"], repeat=2)
        for _ in range(2):
            arrays["out"] = arrays[names[0]] @ arrays[names[1]]
        assert (got(buffers["out"]) == arrays["out"]).all()


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


def test_a_place_is_waited_for_whoever_writes_there_meanwhile(monkeypatch):
    """A program of another session has the memory of what was there; other errors are errors.

    What Ctrl-C has lost on its way there does not come.
    """
    later, lost = Mock(), RuntimeError("device lost")
    later.is_deleted.return_value, later.block_until_ready.side_effect = False, lost
    place = Place(first := Mock())

    def taken():
        place.array = later
        raise RuntimeError("BlockHostUntilReady() called on deleted or donated buffer")

    first.block_until_ready = taken
    with pytest.raises(RuntimeError, match="device lost"):
        place.wait()
    later.is_deleted.return_value = True
    monkeypatch.setattr("gpumap.backends.jax.buffers._REPLACING", 0.0)
    place.wait()


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
    assert notes["cpu0"]["other-hardware"] == "map cpu, which is all cores to each of them"
    assert "other-hardware" not in notes["cpu"]


def _accelerator(platform, version="", **more):
    client = SimpleNamespace(platform=platform, platform_version=f"PJRT C API\n{version}")
    return Native(
        client=client, platform=platform, local_hardware_id=1, id=1, device_kind="A board",
        memory_stats=lambda: {"bytes_limit": 1 << 30}, **more,
    )  # fmt: skip


def _found_of(monkeypatch, *natives, processor=True, **variables):
    """Return what the backend finds where JAX has these devices, and a processor or none."""
    own = Native(client=SimpleNamespace(platform="cpu"), local_hardware_id=0, id=0)

    def local_devices(backend=None):
        if backend and not processor:
            raise RuntimeError("Unknown backend cpu")
        return [own] if backend else [*natives]

    jax = SimpleNamespace(local_devices=local_devices, __version__="0.10")
    cards = tuple(CudaDevice("A board", f"0000:9{letter}:00.0", None) for letter in "cd")
    monkeypatch.setattr(jax_backend, "library", lambda: jax)
    monkeypatch.setattr(third_party, "driver", lambda: CudaDriver(0, 13000, cards))
    return JaxBackend(Host(variables, MACHINE)).found()


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


def test_a_device_of_no_kind_hides_no_other(monkeypatch):
    """A plugin may bring what gpumap has no word for, as METAL."""
    found = _found_of(monkeypatch, _accelerator("METAL"), _accelerator("tpu"))
    assert [str(device.ref) for device in found.devices] == ["tpu1", "cpu0", "cpu"]
    assert found.notes[0].startswith("METAL:1: ")


def test_jax_without_processors_has_its_accelerators(monkeypatch):
    """JAX_PLATFORMS=cuda leaves processors out, and no count of them is given."""
    native = _accelerator("gpu", "cuda 12080", compute_capability="9.0")
    found = _found_of(monkeypatch, native, processor=False, JAX_PLATFORMS="cuda")
    assert [str(device.ref) for device in found.devices] == ["cuda1"]
    lacking = ("cpu", "rocm", "tpu")
    assert found.notes == tuple(f"{k}: JAX_PLATFORMS=cuda leaves it out" for k in lacking)
    assert found.fix == "unset JAX_PLATFORMS"


@needs_jax
@pytest.mark.parametrize(("name", "value", "reason"), [
    ("JAX_NUM_CPU_DEVICES", "many", 'Invalid value "many"'),
    ("JAX_NUM_CPU_DEVICES", "0", "Unable to initialize backend 'cpu'"),
    ("JAX_NUM_CPU_DEVICES", "9" * 20, "Unable to initialize backend 'cpu'"),
    ("JAX_PLATFORMS", "no-such", "Unable to initialize backend 'no-such'"),
])  # fmt: skip
def test_a_variable_that_jax_refuses_is_the_fix(name, value, reason):
    """To install JAX again would change nothing; what it says is cut to a few lines."""
    bare = {k: v for k, v in os.environ.items() if k not in JaxBackend.variables}
    found = load("jax", Host(bare | {name: value}, MACHINE)).probe()
    assert found.reason.startswith(f"cannot load: {reason}")
    assert found.fix == f"unset {name}"
    assert len(found.reason) < 400


@pytest.mark.parametrize(("error", "words"), [
    (ImportError("libx.so"), "--force-reinstall"),
    (ModuleNotFoundError("No module named 'jaxlib'"), "jax>=0.5"),
])  # fmt: skip
def test_an_import_that_fails_is_not_the_variables_fault(error, words):
    """What is missing is installed, whatever is set."""
    backend = JaxBackend(Host({"JAX_PLATFORMS": "cpu"}, MACHINE))
    backend._error = error
    assert words in backend.inventory().fix


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
        assert psum([session]).exchange([buffer]).queue(3) == frozenset()
        assert got(buffer).tolist() == list(range(8))


def test_psum_is_between_devices_of_jax(gpumap):
    """Whether JAX is there or not, the first fix is one that works here."""
    done = gpumap("bench", "allreduce", "a->cpu0;b->cpu1", "--comm", "psum", "--budget", "3s")
    assert done.code in (2, 3)
    assert "psum is JAX's" in done.err
    assert "--backend jax" in done.err or "pip install" in done.err


@needs_jax
def test_psum_averages_the_gradients_of_a_training(gpumap):
    done = gpumap("bench", "train", "a->cpu0;b->cpu1", "--backend", "jax", "--comm", "psum",
                  "--batch-per-device", "8", "--budget", "5s", "--format", "json",
                  JAX_NUM_CPU_DEVICES="2", JAX_PLATFORMS="cpu")  # fmt: skip
    rows = loads(done.out)["measurements"]
    assert done.code == 0, done.err
    found = {row["check"]["passed"] for row in rows if row["params"].get("algorithm") == "native"}
    assert found == {True}
