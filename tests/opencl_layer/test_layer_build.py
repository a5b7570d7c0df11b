"""The layer is built once, into a folder of the user's alone; without it a reason is given."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpumap.opencl_layer.layer import NoLayer, environment

FOLDER = Path("/tmp/counts")  # noqa: S108 - nothing is written there
COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no cc: apt-get install gcc libc6-dev")


@pytest.fixture
def env(tmp_path):
    return {"PATH": os.environ["PATH"], "GPUMAP_CACHE_DIR": str(tmp_path / "cache")}


def built(env):
    found = environment(FOLDER, env)
    assert not isinstance(found, NoLayer), found
    return Path(found["OPENCL_LAYERS"])


def refused(env):
    found = environment(FOLDER, env)
    assert isinstance(found, NoLayer)
    assert found.message.startswith("OpenCL programs are not counted: ")
    assert found.hint
    return found


def test_it_is_built_once_and_is_the_users_alone(env):
    first = built(env)
    made = first.stat()
    assert built(env).stat().st_mtime_ns == made.st_mtime_ns
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    assert list(first.parent.iterdir()) == [first]  # nothing half-made is left


def test_the_variables(env):
    found = environment(FOLDER, env | {"OPENCL_LAYERS": ":/a.so::/b.so"}, times=True)
    assert found["OPENCL_LAYERS"] == f"{built(env)}:/a.so:/b.so"
    assert (found["GPUMAP_LAYER_FOLDER"], found["GPUMAP_LAYER_TIMES"]) == (str(FOLDER), "1")
    again = environment(FOLDER, env | found)  # a run inside of a run
    assert again["OPENCL_LAYERS"] == found["OPENCL_LAYERS"]
    assert again["GPUMAP_LAYER_TIMES"] == "0"


def test_a_damaged_library_is_built_anew(env):
    """A loader would go on without it, in silence."""
    library = built(env)
    whole = library.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"x" * len(whole), whole[:-1]):
        library.write_bytes(damaged)
        library.chmod(0o700)
        assert built(env).read_bytes()[:18] == whole[:18]
        assert len(library.read_bytes()) == len(whole)


def test_its_place_is_the_same_wherever_the_program_goes(env, tmp_path, monkeypatch):
    """And the compiler needs no other folder than that of the library."""
    monkeypatch.chdir(tmp_path)
    env |= {"GPUMAP_CACHE_DIR": "cache", "TMPDIR": "/nowhere"}
    assert built(env).parent == tmp_path / "cache" / "opencl-layer"


def test_two_processes_build_at_once(env):
    code = "import os, sys; from pathlib import Path;"
    code += "from gpumap.opencl_layer.layer import environment;"
    code += "print(environment(Path('/x'), os.environ)['OPENCL_LAYERS'])"
    start = [subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE)
             for _ in range(3)]  # fmt: skip
    paths = {process.communicate()[0] for process in start}
    assert len(paths) == 1
    library = Path(paths.pop().decode().strip())
    assert list(library.parent.iterdir()) == [library]


def test_no_compiler(env, tmp_path, monkeypatch):
    """Nor has any other system layers."""
    found = refused(env | {"PATH": str(tmp_path)})
    assert found.why == "no-compiler"
    assert "gcc" in found.hint
    monkeypatch.setattr(sys, "platform", "darwin")
    assert refused(env).why == "system"


OUT = 'while [ "$1" != -o ]; do shift; done; '
OTHER = 'printf "\\377" | dd of="$2" bs=1 seek=18 conv=notrunc 2>/dev/null'  # of no machine


@pytest.mark.parametrize("text", [
    "#!/bin/sh\necho '\033[2Jno stdlib.h' >&2; exit 1", "#!/bin/sh\nexit 0", "#!/bin/sh\nexit 3",
    "#!/bin/sh\nkill -9 $$", "#!/nowhere/sh\n", f'#!/bin/sh\n{OUT} echo x > "$2"',
    f'#!/bin/sh\n{COMPILER} "$@"\n{OUT} {OTHER}',
])  # fmt: skip
def test_a_compiler_that_fails(env, tmp_path, text):
    broken = tmp_path / "cc"
    broken.write_text(text)
    broken.chmod(0o755)
    assert refused(env | {"CC": str(broken)}).why == "compiler"
    assert list((tmp_path / "cache" / "opencl-layer").iterdir()) == []


def link(path):
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


def others_file(path):
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, 12345)


MEDDLE = {
    "a library that others can write": lambda file: file.chmod(0o777),
    "a library of another user": others_file,
    "a link for a library": link,
    "a dangling link": lambda file: (link(file), file.with_name("moved").unlink()),
    "a folder for a library": lambda file: (file.unlink(), file.mkdir()),
    "a folder that others can write": lambda file: file.parent.chmod(0o777),
    "a folder of another user": lambda file: others_file(file.parent),
    "a link for the folder": lambda file: link(file.parent),
    "a cache that others can write": lambda file: file.parents[1].chmod(0o777),
    "a cache of another user": lambda file: others_file(file.parents[1]),
}


@pytest.mark.parametrize("what", MEDDLE)
def test_what_another_user_can_have_written_is_not_loaded(env, what):
    MEDDLE[what](built(env))
    assert refused(env).why == "cache"


@pytest.mark.parametrize("place", ["a:b", "file", "file/below", ""])
def test_no_place_for_it(env, tmp_path, place):
    (tmp_path / "file").touch()
    cache = {"GPUMAP_CACHE_DIR": str(tmp_path / place)} if place else {"GPUMAP_CACHE_DIR": ""}
    assert refused(env | cache).why == "cache"
