"""gpumap as a user runs it: a process of its own, with an environment that hides the machine's."""

import os
import pty
import re
import subprocess
import sys
import termios
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import opencl
from ready import Ready

BIN = Path(sys.executable).parent
SIMULATED = "note: the fake backend: every figure is scripted, none was measured\n"
LIMIT = 100.0  # seconds that anything may take, on a machine with other work
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Shell:
    folder: Path
    env: dict[str, str]
    ready: Ready | None = None

    @property
    def command(self) -> str:
        return str(BIN / "gpumap")

    def __call__(self, *arguments, **env) -> Answer:
        command = [self.command, *map(str, arguments)]
        if self.ready and self.ready.fits(command[1:], self.env | env):
            code, out, err = self.ready.run(command, self.folder, self.env | env, LIMIT)
            return Answer(code, out.decode(), err.decode())
        return self.run(command, **env)

    def run(self, command, **env) -> Answer:
        done = subprocess.run(
            command, cwd=self.folder, env=self.env | env, stdin=subprocess.DEVNULL,
            capture_output=True, check=False, timeout=LIMIT,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, command, env=None, **streams):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        every = self.env | (env or {})
        return subprocess.Popen(command, cwd=self.folder, env=every, **pipes | streams)

    def fake(self, script):
        (self.folder / "fake.toml").write_text(script)
        self.env.update(GPUMAP_FAKE=str(self.folder / "fake.toml"), GPUMAP_BACKEND="fake")
        return self


def environment(home, folder):
    """Return variables that hide the user's own: of the machine's, where programs are."""
    names = ("PATH", "LD_LIBRARY_PATH", opencl.VARIABLE)
    kept = {key: os.environ[key] for key in names if key in os.environ}
    kept["PATH"] = f"{BIN}:{kept['PATH']}"  # the programs of this environment come first
    env = {**kept, "HOME": str(home), "TMPDIR": str(folder), "LC_ALL": "C.UTF-8"}
    env["PYTHONWARNINGS"] = "error"
    # matplotlib looks at every font of the machine once, and remembers them there
    env["MPLCONFIGDIR"] = str(Path(__file__).parents[1] / ".pytest_cache" / "matplotlib")
    return env


def ended(process) -> Answer:
    """Return how a process ended, and what it wrote to streams that are pipes."""
    out, err = process.communicate(timeout=LIMIT)
    return Answer(process.returncode, (out or b"").decode(), (err or b"").decode())


def until(true, process=None):
    """Wait until something is true, and return it; a process that has ended makes nothing so."""
    end = time.monotonic() + LIMIT
    while not (value := true()):
        assert process is None or process.poll() is None, "it has ended"
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)
    return value


def on_a_terminal(gpumap, *arguments, columns=40, both=False, **env):
    """Run gpumap with stdout, or both streams, on a terminal; return its code and what that got."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))
    process = gpumap.start(
        [gpumap.command, *arguments], {"TERM": "xterm"} | env,
        stdout=follower, stderr=follower if both else subprocess.DEVNULL,
    )  # fmt: skip
    os.close(follower)
    chunks = []
    with suppress(OSError):  # EIO: its end
        while chunk := os.read(leader, 65536):
            chunks.append(chunk)
    os.close(leader)
    return process.wait(LIMIT), b"".join(chunks).decode().replace("\r\n", "\n")


def timely(rows):
    """Return the rows that a machine, however busy, had time for: one of them at least."""
    found = [row for row in rows if (row["reason"] or {}).get("code") != "budget"]
    assert found
    return found
