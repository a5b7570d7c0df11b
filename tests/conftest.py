"""What tests of every folder are given."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import opencl
import pytest
from combinations import chosen
from ready import Ready
from shell import Shell, environment
from stubs import Stubs, build

with suppress(ImportError):  # the tests that `make gpu` runs do without it
    from hypothesis import settings

    # no test depends on how fast a machine is, nor on chance
    settings.register_profile("any machine", deadline=None, derandomize=True)
    settings.load_profile("any machine")

# A shell starts what is to run in the background with SIGINT ignored, which children inherit: then
# no test could interrupt what it has started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Two processes that build one kernel at once can meet in PoCL's cache, and one of them fails.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    cache = Path(__file__).parents[1] / ".pytest_cache" / f"pocl-{worker}"
    cache.mkdir(parents=True, exist_ok=True)
    os.environ["POCL_CACHE_DIR"] = str(cache)

opencl.choose()


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run every combination of parameters")
    parser.addoption("--renew", action="store_true", help="write tests/expected anew")


@pytest.hookimpl(trylast=True)  # of what -k leaves
def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        kept = set(chosen(items))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


@pytest.fixture
def renew(request):
    return request.config.getoption("renew")


@pytest.fixture(scope="session")
def ready(tmp_path_factory):
    """Return what has loaded gpumap already, for runs on scripted devices."""
    folder = tmp_path_factory.mktemp("ready")
    process = Ready.start(environment(folder, folder))
    yield process
    process.close()


@pytest.fixture(scope="session")
def another(tmp_path_factory, ready):
    """Return what makes a `gpumap` of its own, for runs that many tests look at."""

    def made() -> Shell:
        folder = tmp_path_factory.mktemp("run")
        return Shell(folder, environment(folder, folder), ready)

    return made


@pytest.fixture
def gpumap(tmp_path, ready) -> Shell:
    """Gpumap in an empty folder, with nothing of the user's environment but where programs are."""
    home = tmp_path / "home"
    folder = tmp_path / "folder"
    for path in (home, folder):
        path.mkdir()
    return Shell(folder, environment(home, tmp_path), ready)


@pytest.fixture(scope="session")
def standin(tmp_path_factory):
    """Return where the stand-in for CuPy keeps its drivers and kernels."""
    return tmp_path_factory.mktemp("standin")


@pytest.fixture(scope="session")
def built_stubs(tmp_path_factory):
    return build(tmp_path_factory.mktemp("drivers"))


@pytest.fixture
def stubs(built_stubs, tmp_path) -> Stubs:
    """Stub drivers, to be put before the machine's own: ``stubs("libcuda.so.1")``."""
    return Stubs(built_stubs, tmp_path / "drivers")
