"""Benchmarks from Python: what comes back, what is raised, and what becomes of the program."""

import os
from importlib import import_module
from pathlib import Path

import pytest
from tables import table
from threadpoolctl import threadpool_info

import gpumap
from gpumap.cli import parameters
from gpumap.errors import AbsentError, GpumapError, QuestionError, Span, WrongDataError
from gpumap.model import Report
from gpumap.running import _given

TABLE = table(__file__)
CORES = "a->cpu0;b->cpu1"
SMALL = {"batch_per_device": 32, "budget": "0.3s"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("GPUMAP_")]:
        monkeypatch.delenv(name)


def train(**options):
    return gpumap.run_benchmark("train", **{"map": CORES, **SMALL, **options})


def test_a_report_comes_back():
    report = train(map="a->cuda0;b->cuda1", backend="fake", rule="bsp", budget="6s")
    assert isinstance(report, Report)
    assert (report.kind, report.status, report.exit_code) == ("bench", "ok", 0)
    rows = report.measurements
    assert [(row.case.name, row.case.names) for row in rows] == [
        ("compute", ("a",)), ("step", ("a",)), ("compute", ("a", "b")), ("step", ("a", "b"))
    ]  # fmt: skip
    assert (rows[0].status, rows[-1].case.params["rule"]) == ("ok", "bsp")


@pytest.mark.parametrize(("name", "value", "words"), TABLE["words"])
def test_an_option_is_given_as_the_command_line_has_it(name, value, words):
    """A flag, a flag with a no, and a list: item by item, or joined by commas."""
    params = parameters(("bench", "dot")) | parameters(("transfer-cost",))
    assert [*_given(name, value, params.get(name))] == words


def test_a_flag_that_is_false_takes_back_its_variable(monkeypatch):
    monkeypatch.setenv("GPUMAP_DRY_RUN", "1")
    assert any(row.samples for row in train(dry_run=False).measurements)


def test_nothing_of_the_current_folder_is_run():
    """What the program itself would not import, the command does not import either."""
    for name in ("signal", "json", "random"):
        Path(f"{name}.py").write_text("raise SystemExit('wrong')")
    assert gpumap.check("a->cpu0")[0].name == "a"


@pytest.mark.parametrize(("kind", "options", "error", "said"), [
    *TABLE["raised"], ("dot", {"size": "1" * 2**20}, "GpumapError", "gpumap cannot be started: "),
])  # fmt: skip
def test_what_cannot_be_measured_is_raised(kind, options, error, said):
    with pytest.raises(GpumapError) as raised:
        gpumap.run_benchmark(kind, **{"map": CORES, **SMALL, **options})
    assert type(raised.value).__name__ == error
    assert said in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_the_program_that_asks_is_left_alone():
    """Its threads run where they may, BLAS has its threads, no file is left, nothing is set."""
    before = state()
    train()
    assert state() == before


def state():
    tasks = Path("/proc/self/task")
    threads = [int(task.name) for task in tasks.iterdir()] if tasks.is_dir() else []
    places = {thread: os.sched_getaffinity(thread) for thread in threads}
    blas = sorted((lib["filepath"], lib["num_threads"]) for lib in threadpool_info())
    return places, blas, dict(os.environ), sorted(Path.cwd().iterdir())


def test_devices_and_bindings_come_back():
    found = gpumap.devices(backend="numpy")
    assert {"cpu:0", "cpu:1"} <= {device.id for device in found}
    assert all(isinstance(device, gpumap.Device) for device in found)
    bindings = gpumap.check(CORES)
    assert [(b.name, b.device.id) for b in bindings] == [("a", "cpu:0"), ("b", "cpu:1")]


def test_a_diagnosis_comes_back_for_each_name(monkeypatch):
    """Of a device that is not there too; importing the folder of that name hides nothing."""
    import_module("gpumap.doctor.diagnose")
    monkeypatch.setenv("GPUMAP_FAKE", str(Path(__file__).parents[1] / "examples" / "gpus.toml"))
    there, absent = gpumap.doctor("a->cuda0;b->cuda9", backend="fake")
    assert isinstance(there, gpumap.Diagnosis)
    assert (there.name, there.verdict == "not used") == ("a", False)
    assert (absent.name, absent.verdict, absent.findings[0].code) == ("b", "not used", "GM219")


def test_open_takes_its_map_and_its_backend_from_variables(monkeypatch):
    """What is given wins, and an empty map that is given is no map."""
    monkeypatch.setenv("GPUMAP_BACKEND", "fake")
    monkeypatch.setenv("GPUMAP_CONTEXTS", "x->cuda1")
    for given, name, id_ in ((None, "x", "cuda:1"), ("y->opencl0:1", "y", "opencl:0:1")):
        with gpumap.open(given) as context:
            (binding,) = context.bindings
        device = binding.device
        assert (binding.name, device.id, device.backend) == (name, id_, "fake")
    with pytest.raises(gpumap.MapError):
        gpumap.open("")


@pytest.mark.parametrize(("fault", "error"), [("flip", WrongDataError), ("lost", AbsentError)])
def test_a_device_that_fails_its_check_is_an_error(monkeypatch, fault, error):
    Path("fake.toml").write_text(f'[[device]]\nref = "cuda0"\nfault = "{fault}"')
    monkeypatch.setenv("GPUMAP_FAKE", str(Path("fake.toml").resolve()))
    with pytest.raises(error):
        gpumap.check("a->cuda0", backend="fake")


@pytest.mark.parametrize("call", [gpumap.check, gpumap.doctor])
def test_a_map_that_does_not_parse_is_an_error_of_its_place(call):
    """A device that is not there is one too; a backend that does not exist is a question."""
    with pytest.raises(gpumap.MapError) as caught:
        call("a->gpu0")
    assert caught.value.diagnostics[0].span == Span(3, 7)
    with pytest.raises(AbsentError, match="cpu4711"):
        gpumap.check("a->cpu4711")
    with pytest.raises(QuestionError, match="nope"):
        gpumap.devices(backend="nope")
