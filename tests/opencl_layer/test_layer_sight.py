"""Whether a program is counted: real ones that hide, and why each of them does."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from layered import DRIVERS, compiled

from gpumap.opencl_layer import MEANING, UNUSED, Sight, sight

DIRECT = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    for (int at = 1; at < count; at++)
        if (!dlopen(words[at], RTLD_NOW)) return 1;
    printf("ready\\n"), fflush(stdout);
    return pause();
}
"""


@contextmanager
def started(command, env):
    """Yield a process that has said its first line, and end it."""
    words = [str(word) for word in command]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline()
            yield process.pid
        finally:
            process.send_signal(signal.SIGKILL)


def seen(counting, command, env):
    """Return the sight of a program, when it has become it: a shell says its line before."""
    end = time.monotonic() + 20
    with started(command, env) as pid:
        while (found := sight(pid, counting.folder)) == "gone" and time.monotonic() < end:
            time.sleep(0.01)
        return found


@pytest.fixture(scope="module")
def opener(tmp_path_factory):
    """Return a program that opens libraries and waits."""
    source = tmp_path_factory.mktemp("opener") / "opener.c"
    source.write_text(DIRECT)
    return compiled(source.parent, source, "-ldl")


NOTHING = ["sh", "-c", "echo ready; exec sleep 60"]  # it has no OpenCL
BARE = dict.fromkeys(("OPENCL_LAYERS", "GPUMAP_LAYER_FOLDER", "GPUMAP_LAYER_TIMES"))


@pytest.mark.parametrize(("command", "changed", "found"), [
    ("wait", {}, "counted"), (NOTHING, {}, "no-opencl"),
    ("nothing", {}, "no-call"),  # it is linked to the loader: it has used no device
    *((each, BARE, "environment") for each in ("wait", "nothing", NOTHING)),
    ("wait", {"GPUMAP_LAYER_FOLDER": "inner"}, "environment"),  # a run inside of a run
    # the library is gone: the loader goes on without it, in silence
    ("wait", {"OPENCL_LAYERS": "/nowhere/layer.so"}, "not-loaded"),
])  # fmt: skip
def test_why_a_program_is_not_counted(counting, program, tmp_path, command, changed, found):
    (tmp_path / "inner").mkdir()
    inner = {"inner": str(tmp_path / "inner")}
    env = {**counting.env("system"), **{key: inner.get(to, to) for key, to in changed.items()}}
    words = command if command is NOTHING else [program, command]
    assert seen(counting, words, {k: v for k, v in env.items() if v is not None}) == found
    assert (counting.read() != ()) == (found == "counted")


def test_a_loader_that_knows_no_layers(counting, opener, tmp_path):
    """Whatever else is loaded: what goes through it is not counted."""
    source = tmp_path / "old.c"
    source.write_text("int clFinish(void *queue) { return queue != 0; }\n")
    old = compiled(tmp_path, source, "-shared", "-fPIC").rename(tmp_path / "libOpenCL.so.1.0")
    assert seen(counting, [opener, old], counting.env("system")) == "old-loader"


def test_a_driver_without_a_loader(counting, opener):
    """As of a static loader, or one of another name."""
    env = counting.env("system")
    assert seen(counting, [opener, DRIVERS["system"]], env) == "no-loader"


def test_more_rights_than_the_user(counting, program):
    """The layer stays out, and writes nothing with another user's rights."""
    if os.geteuid():
        pytest.skip("only root can make a set-user-ID program of another user")
    with tempfile.TemporaryDirectory() as name:  # below a folder that every user may enter
        copy = Path(shutil.copy(program, name))
        os.chown(copy, 65534, 65534)
        copy.chmod(0o4755)
        for folder in (Path(name), Path(name, "pocl")):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o777)
        env = counting.env("system", POCL_CACHE_DIR=str(Path(name, "pocl")))
        assert seen(counting, [copy, "wait"], env) == "privileges"
    assert counting.read() == ()


def test_another_container(counting, program):
    """It has another root: the layer is not at its path there."""
    tried = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip("no mount of one's own: unshare -Urm fails")
    env = counting.env("system")
    hidden = Path(env["OPENCL_LAYERS"]).parent
    script = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
    command = ["unshare", "-Urm", "sh", "-c", script, hidden, program, "wait"]
    assert seen(counting, command, env) == "container"


def test_a_process_that_ended_is_gone(counting):
    """Waited for or not: it has no variables any more, and may have been started with them."""
    with started(["sh", "-c", "echo ready"], counting.env()) as pid:
        pass
    assert sight(pid, counting.folder) == "gone"
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert sight(process.pid, counting.folder) == "gone"


def test_a_process_that_is_becoming_another_is_looked_at_again(counting, tmp_path):
    """The kernel shows the new program's libraries before its variables."""
    place = tmp_path / "7"
    place.mkdir()
    (place / "maps").write_text("00400000-00452000 r-xp 00000000 08:02 1 /bin/x\n")
    (place / "environ").write_bytes(b"")
    (place / "auxv").write_bytes(bytes(16))
    assert sight(7, counting.folder, tmp_path) == "gone"


def test_a_process_that_is_not_shown(counting, tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "maps").mkdir()  # as good as unreadable: the read fails
    assert sight(7, counting.folder, tmp_path) == "gone"
    if os.geteuid() == 0:
        pytest.skip("root may read what others run")
    assert sight(1, counting.folder) == "privileges"


def test_every_code_has_a_meaning():
    assert set(MEANING) == set(Sight.__args__)
    assert set(MEANING) > UNUSED
