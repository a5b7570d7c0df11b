"""Plant each fault of `mutants/` in a copy of the tree, and run the tests that must find it.

These are faults that a refactoring could make. A table has those of one folder of gpumap, and
`top.toml` those beside the folders. `old` is in `file` exactly once. A fault that no test can
find has `equivalent`, the argument for that, in place of `tests`. Those of `frameworks.toml` are
planted where PyTorch and JAX are installed, as in the environment of `make frameworks`.

Each job has a copy of the tree, and an environment whose Python imports gpumap from there: tests
start processes with environments of their own, so that no variable would reach all of them.
Everything else comes from the environment that this file runs in. A fault is found if its tests
fail, or come to no end; those that survive are printed, and make the exit code 1.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
LISTED = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
FRAMEWORKS = ("torch", "jax")
LIMIT = 120.0  # seconds for the tests of a fault: none of them takes as long without it
NO_TESTS = 5  # pytest's exit code


@dataclass(frozen=True)
class Mutant:
    """A fault: the text that it replaces, why it matters, and the tests that must find it."""

    id: str
    file: str
    function: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...] = ()
    equivalent: str | None = None  # why no test can find it

    @property
    def can_be_found(self) -> bool:
        """Whether its tests can run: they need the framework that its id begins with."""
        name = self.id.partition("-")[0]
        return name not in FRAMEWORKS or find_spec(name) is not None


def table() -> list[Mutant]:
    files = sorted((ROOT / "tests" / "mutants").glob("*.toml"))
    texts = (file.read_text(encoding="utf-8") for file in files)
    return [Mutant(**row) for text in texts for row in tomllib.loads(text)["mutant"]]


class Copy:
    """A copy of the tree, and a Python that imports gpumap from it."""

    def __init__(self, folder: Path):
        self.tree, environment = folder / "tree", folder / "venv"
        files = subprocess.run(LISTED, cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, files.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name)
        venv.create(environment, symlinks=True)
        self.python = environment / "bin" / "python"
        (packages,) = environment.glob("lib/python*/site-packages")
        # what is a line of this file is not looked through for an editable install
        (packages / "tree.pth").write_text(f"{self.tree}\n{sysconfig.get_path('purelib')}\n")
        script = Path(sys.executable).parent.joinpath("gpumap").read_text(encoding="utf-8")
        own = environment / "bin" / "gpumap"
        own.write_text(f"#!{self.python}\n{script.partition(chr(10))[2]}", encoding="utf-8")
        own.chmod(0o755)
        self._moments = count(1_000_000_000)

    def passes(self, tests, limit=LIMIT, output=subprocess.DEVNULL) -> bool:
        env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        env.setdefault("JAX_NUM_CPU_DEVICES", "4")  # as `make frameworks` has it
        env.pop("PYTHONPATH", None)
        process = subprocess.Popen(
            [self.python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
            cwd=self.tree, env=env, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(limit) in (0, NO_TESTS)
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def survives(self, mutant) -> bool:
        path = self.tree / mutant.file
        text = path.read_text(encoding="utf-8")
        try:
            self._write(path, text.replace(mutant.old, mutant.new, 1))
            return self.passes(mutant.tests)
        finally:
            self._write(path, text)

    def _write(self, path, text):
        """Write a file at a moment of its own: bytecode is matched by the second alone."""
        path.write_text(text, encoding="utf-8")
        moment = next(self._moments)
        os.utime(path, (moment, moment))


def tried(mutant, free, *, verbose) -> bool:
    """Plant a fault in a copy that is free; return, and say, whether it survives."""
    copy, start = free.get(), time.monotonic()
    survives = copy.survives(mutant)
    free.put(copy)
    if survives or verbose:
        word, passed = "survived" if survives else "found", time.monotonic() - start
        print(f"{word} in {passed:.0f} s: {mutant.id}, {mutant.file}: {mutant.why}", flush=True)  # noqa: T201
    return survives


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", metavar="WORD", default="", help="in their id, file or function")
    parser.add_argument("--jobs", metavar="N", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="a line for each")
    given, start = parser.parse_args(), time.monotonic()
    chosen = [m for m in table() if given.only in f"{m.id} {m.file} {m.function}"]
    planted = [m for m in chosen if m.equivalent is None and m.can_be_found]
    tests = sorted({test for m in planted for test in m.tests})
    free: SimpleQueue[Copy] = SimpleQueue()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        copies = list(pool.map(Copy, (Path(folder, str(n)) for n in range(given.jobs))))
        shares = [tests[n :: given.jobs] for n in range(given.jobs)]
        if not all(
            pool.map(lambda c, share: not share or c.passes(share, None, None), copies, shares)
        ):
            raise SystemExit("the tests fail on the tree as it is: nothing was planted")
        for copy in copies:
            free.put(copy)
        left = sum(pool.map(lambda m: tried(m, free, verbose=given.verbose), planted))
    passed = divmod(round(time.monotonic() - start), 60)
    print(  # noqa: T201
        f"{len(chosen)} planted, {len(planted) - left} found, {len(chosen) - len(planted)} "
        f"equivalent, {left} survived in {passed[0]}:{passed[1]:02d}"
    )
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main())
