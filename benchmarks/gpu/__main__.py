"""Prove gpumap on the GPUs of this machine, in one go, offline, and leave one record of it.

    make gpu
    python3 -m benchmarks.gpu [--map MAP] [--output DIR]      in the repository's root

It runs each backend that drives them, its tests and measurements, and the commands of the README,
checks what they found, and repeats measurements while there is time. One JSON file holds
everything; one Markdown file is made from it. Nothing is installed and nothing is fetched: what is
missing is said at the start, and what for.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.children import ROOT, Done, Interrupted, run
from benchmarks.gpu import judge, record, software
from benchmarks.gpu.seen import LIBRARIES
from benchmarks.gpu.steps import Driver, Setup, Step, dtypes, steps
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WHEELS = ROOT / ".wheels"
MEASURED = ROOT / "docs" / "measured"
LIMIT = 480.0  # seconds for everything, the end of the last command too
_END = 15.0  # seconds of it that are kept: a command that has to be killed, and the record
ABSENT, INTERRUPTED = 3, 130  # as gpumap's own
_LOOK = 60.0  # seconds for the first look, which loads every driver
_STAND_INS = ("GPUMAP_FAKE", "GPUMAP_STANDIN_", "GPUMAP_STUB_")  # variables
# JAX takes three quarters of a GPU's memory unless told not to; containers run mpirun as root.
_FOR_OTHERS = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip
_GRACE = 10.0  # seconds beyond a command's own limit, in which it writes its report
_SAID = 2000  # characters of stderr that a record keeps
_SHOWN = 160  # characters of a reason that stdout shows; the record has all


Entry = dict[str, Any]  # what a record holds of a step


class Nothing(Exception):
    """There is nothing to run on, and why; with an exit code."""

    def __init__(self, why: str, code: int = ABSENT) -> None:
        super().__init__(why)
        self.code = code


class Bench:
    """Runs commands of this Python with what it has and what was unpacked for it."""

    def __init__(self, unpacked: Path, scratch: Path, limit: float) -> None:
        paths = [str(ROOT), str(unpacked), os.environ.get("PYTHONPATH", "")]
        # a user's settings must not steer a record; simulated devices are no setting
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith("GPUMAP_") or k.startswith(_STAND_INS)}  # fmt: skip
        self.env = {**kept, **_FOR_OTHERS, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self._scratch = scratch
        self._limit = limit
        self._start = time.monotonic()
        self.simulated = False  # the first device: then no device has a speed that is judged

    @property
    def elapsed(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        """Return the seconds that commands may still take."""
        return self._limit - _END - self.elapsed

    def python(self, arguments: Sequence[str], limit: float, launcher: Sequence[str] = ()) -> Done:
        """Run this Python with arguments; a launcher starts it as several."""
        return run([*launcher, sys.executable, *arguments], limit, self.env)

    def gpumap(self, *arguments: str) -> Done:
        """Run gpumap, to look at something."""
        return self.python(("-m", "gpumap", *arguments), min(_LOOK, self.left))

    def step(self, step: Step, before: Mapping[str, Any], lacking: judge.Verdict | None) -> Entry:
        """Do a step, whatever becomes of it, and return what the record holds of it."""
        if without := lacking or _without(step, before, self.left):
            return self._entry(step, None, without)
        limit = min(step.limit + _GRACE, self.left)
        cut = limit < step.limit
        done = Done(None, 0.0)
        if step.arguments:
            done = self.python(step.arguments, limit, step.launcher)
        return self.entry(step, done, before, cut=cut)

    def entry(
        self, step: Step, done: Done, before: Mapping[str, Any], *, cut: bool = False
    ) -> Entry:
        """Return what the record holds of a command: also of one that was killed, what it left.

        `cut`: it had less time than its own limit, so that a kill says nothing of it.
        """
        judged = _judged(step, done, dict(before), simulated=self.simulated)
        if step.arguments and done.exit_code is None:
            said = f"it was killed after {done.elapsed:.0f} s"
            why = (f"no time was left of --limit: {said}" if cut else said, *judged.why)
            judged = judge.Verdict(judge.NOT_RUN if cut else judge.FAILED, why, judged.found)
        return self._entry(step, done, judged)

    def _entry(self, step: Step, done: Done | None, verdict: judge.Verdict) -> Entry:
        words = (*step.launcher, sys.executable, *step.arguments)
        shown = (record.python_name() if word == sys.executable else word for word in words)
        command = shlex.join(shown) if step.arguments else None
        ran = done if step.arguments else None
        said = ran.err[-_SAID:] if ran and verdict.word not in judge.GOOD else ""
        return {
            "key": step.key,
            "what": step.what,
            "command": command and command.replace(str(self._scratch), "$SCRATCH"),
            "limit_s": step.limit or None,
            "elapsed_s": round(ran.elapsed, 3) if ran else None,
            "exit_code": ran.exit_code if ran else None,
            "verdict": verdict.word,
            "spare": step.spare,
            "why": list(verdict.why),
            "said": said.replace(str(self._scratch), "$SCRATCH").replace(str(ROOT), "."),
            **verdict.found,
        }


def _without(step: Step, before: Mapping[str, Any], left: float) -> judge.Verdict | None:
    """Return why a step is not run; None where it is."""
    if step.skip:
        return judge.Verdict(judge.SKIPPED, (step.skip,))
    first = before.get(step.after)
    if first is not None and first["verdict"] != judge.PASSED:
        return judge.Verdict(judge.NOT_RUN, (f"{step.after}: {first['verdict']}",))
    if step.arguments and left < step.least:
        why = f"{max(left, 0.0):.0f} s were left of --limit, and it takes about {step.least:.0f}"
        return judge.Verdict(judge.NOT_RUN, (why,))
    return None


def main() -> int:
    """Run, and return 0 if every step passed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _options()
    with tempfile.TemporaryDirectory(prefix="gpumap-") as folder:
        unpacked, scratch = Path(folder) / "wheels", Path(folder) / "scratch"
        for path in (unpacked, scratch):
            path.mkdir()
        bench = Bench(unpacked, scratch, options.limit)
        try:
            libraries = _libraries(unpacked)
            setup, look = _look(bench, options, libraries, scratch)
            return _all(bench, options, setup, look, libraries)
        except Nothing as nothing:
            print(f"nothing was run: {printable(str(nothing))}", file=sys.stderr)
            return nothing.code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.gpu", description=main.__doc__)
    add = parser.add_argument
    add("--map", help="the devices; by default every CUDA device")
    add("--backend", help="drive them with this backend")
    add("--output", type=Path, help="the record's folder; by default $OUT, else docs/measured")
    add("--limit", type=float, default=LIMIT, help="seconds for everything (%(default)g)")
    add("--budget", type=float, default=60.0, help="most seconds for one command's measuring")
    add("--dot-sizes", default="1024,4096,8192", help="the first is the quick one (%(default)s)")
    add("--copy-sizes", default="64MiB,256MiB", help="large copies (%(default)s)")
    add("--memory-size", default="8GiB", help="of the device's memory test (%(default)s)")
    add("--only", metavar="KEYS", help="only these steps, commas between")
    return parser.parse_args()


def _libraries(unpacked: Path) -> list[software.Found]:
    """Say what is there and what is missing, after unpacking what travels along."""
    problems = software.unpack(WHEELS, unpacked)
    sys.path.append(str(unpacked))
    found = software.found(software.least_versions(ROOT / "pyproject.toml"))
    print(software.listed(found, platform.python_version()), flush=True)
    for problem in problems:
        print(f"cannot unpack {problem}", flush=True)
    return found


def _look(
    bench: Bench, options: argparse.Namespace, libraries: list[software.Found], scratch: Path
) -> tuple[Setup, dict[str, Any]]:
    """Find the devices of the map, or every CUDA device.

    Raises:
        Nothing: there is none, or gpumap itself cannot run.
    """
    if lacking := software.missing(libraries, software.CORE):
        raise Nothing(f"gpumap needs {', '.join(need.name for need in lacking)} (make gpu-wheels)")
    shows = _shows(bench)  # before anything of gpumap's
    text = options.map or _every_gpu(bench, options.backend)
    driven = ("--backend", options.backend) if options.backend else ()
    done = bench.gpumap("check", text, "--no-open", *driven, "--format", "json")
    look = done.report
    if done.exit_code or not look:
        raise Nothing(done.err.strip() or "gpumap hangs", done.exit_code or ABSENT)
    bench.simulated = bool(look["simulated"])
    tests = software.missing(libraries, software.TESTS)
    setup = Setup(
        map=text,
        devices=tuple(dict.fromkeys(device["ref"] for device in look["devices"])),
        backends=tuple(dict.fromkeys(device["backend"] for device in look["devices"])),
        asked=options.backend,
        others=tuple(_others(bench, options, look, shows)),
        hardware=frozenset(look["devices"][0]["hardware"]),
        uuids=_uuids(look),
        launcher=_launcher(len(look["bindings"]), shows),
        dtypes=dtypes(bench.gpumap("bench", "dot", "--help").out),
        dot_sizes=tuple(filter(None, options.dot_sizes.split(","))),
        copy_sizes=tuple(filter(None, options.copy_sizes.split(","))),
        memory_size=options.memory_size,
        budget=options.budget,
        scratch=scratch,
        ignored=software.ignored_tests(ROOT / "tests" / "backends", tests),
    )
    return setup, look


def _shows(bench: Bench) -> dict[str, dict[str, Any]]:
    """Return which GPUs each library shows; loaded once, no later start of one is a cold one."""
    shows = {}
    for name in LIBRARIES:
        done = bench.python(("-m", "benchmarks.gpu.seen", name), min(_LOOK, bench.left))
        nothing = {"gpus": [], "why": f"no answer; it ended with {done.exit_code}"}
        shows[name] = done.report.get(name, nothing)
        if why := shows[name]["why"]:
            print(f"  {name}: {printable(why)}", flush=True)
    return shows


def _others(
    bench: Bench, options: argparse.Namespace, look: Mapping[str, Any], shows: Mapping[str, Any]
) -> Iterator[Driver]:
    """Yield the backends that drive the first device too; of one that was asked for, none."""
    first = look["devices"][0]
    if options.backend or first["kind"] != "cuda":
        return
    for name in ("torch", "jax"):
        if name != first["backend"]:
            yield Driver(name, first["ref"], shows[name]["why"] and f"{name}: {shows[name]['why']}")
    yield _opencl(bench, first, simulated=look["simulated"])


def _opencl(bench: Bench, first: Mapping[str, Any], *, simulated: bool) -> Driver:
    """Return the OpenCL device that is the same card; a card that is simulated is none: any."""
    found = bench.gpumap("devices", "--backend", "pyopencl", "--format", "json").report
    devices = found.get("devices", ())
    same = [d for d in devices if simulated or set(d["hardware"]) & set(first["hardware"])]
    same = same or [d for d in devices if d["name"] == first["name"]]  # `check` fails then
    if same:
        return Driver("pyopencl", same[0]["ref"])
    listed = ", ".join(f"{d['ref']} ({d['name']})" for d in devices)
    reasons = "; ".join(str(b["reason"]) for b in found.get("backends", ()) if b["reason"])
    why = f"none of {listed} is {first['ref']}" if listed else reasons or "it lists no device"
    return Driver("pyopencl", "opencl0:0", f"pyopencl: {why}")


def _uuids(look: Mapping[str, Any]) -> dict[str, str]:
    """Return the UUID of each name's GPU; nothing where one has none."""
    uuids = {d["id"]: d["uuid"] for d in look["devices"] if d["kind"] == "cuda" and d["uuid"]}
    names = {each["name"]: each["device"] for each in look["bindings"]}
    whole = set(names.values()) <= set(uuids) and len(set(names.values())) == len(names)
    return {name: uuids[device] for name, device in names.items()} if whole else {}


def _launcher(ranks: int, shows: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what starts so many ranks on this machine; nothing where nothing does."""
    if shows["torch"]["why"] != "not installed":
        torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
        return (*torchrun, "--nproc-per-node", str(ranks), "--no-python")
    return ("mpirun", "-n", str(ranks)) if shutil.which("mpirun") else ()


def _every_gpu(bench: Bench, backend: str | None) -> str:
    """Return a map of every CUDA device.

    Raises:
        Nothing: there is none; says what each backend says.
    """
    driven = ("--backend", backend) if backend else ()
    done = bench.gpumap("devices", *driven, "--format", "json")
    found = done.report
    refs = [device["ref"] for device in found.get("devices", ()) if device["kind"] == "cuda"]
    if refs:
        return ";".join(f"dev{n}->{ref}" for n, ref in enumerate(dict.fromkeys(refs)))
    reasons = [f"{b['name']}: {b['reason'] or 'no device'}" for b in found.get("backends", ())
               if b["name"] in ("cupy", "torch", "jax", "pygpu")]  # fmt: skip
    why = "; ".join(reasons) or done.err.strip() or "gpumap devices gave no report"
    raise Nothing(f"no CUDA device: {why}")


def _all(
    bench: Bench,
    options: argparse.Namespace,
    setup: Setup,
    look: dict[str, Any],
    libraries: list[software.Found],
) -> int:
    """Run every step and write the record after each; return the exit code."""
    plan = _plan(setup, options.only)
    held = record.begun(look, libraries, plan, ROOT)
    folder = options.output or Path(os.environ.get("OUT") or MEASURED)
    folder.mkdir(parents=True, exist_ok=True)
    base = record.base_path(folder, held)
    record.write(held, base)  # that it can be written is known before anything is measured
    print(f"{setup.map}: {len(plan)} steps, {bench.left:.0f} s; to {base}.json, .md", flush=True)
    code = 0
    try:
        for step in plan:
            _one(bench, step, held, libraries)
            record.write(held, base)  # before it is said: what was said is in it
            print(_said(held["steps"][-1]), flush=True)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if not code:
        held["verdict"] = _whole(held["steps"])
    held.update(ended=record.stamp(), elapsed_s=round(bench.elapsed, 3))
    record.write(held, base)
    print(f"{held['verdict']}: {base}.json, .md; {bench.elapsed:.0f} s")
    return code or int(held["verdict"] != judge.PASSED)


def _whole(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the verdict of all steps; what was not run leaves it open, but for repeats."""
    found = {e["verdict"] for e in entries if not (e["spare"] and e["verdict"] == judge.NOT_RUN)}
    if judge.FAILED in found or judge.PASSED not in found:
        return judge.FAILED
    return judge.PASSED if found <= {*judge.GOOD} else record.INCOMPLETE


def _plan(setup: Setup, only: str | None) -> list[Step]:
    """Return the steps that `--only` names; all of them without it."""
    keys = {step.key: step for step in steps(setup)}
    try:
        return [keys[key.strip()] for key in only.split(",")] if only else [*keys.values()]
    except KeyError as error:
        raise Nothing(f"no step is called {error}; there are {', '.join(keys)}", 2) from None


def _one(bench: Bench, step: Step, held: Entry, libraries: list[software.Found]) -> None:
    """Do one step and put it into the record."""
    before = {entry["key"]: entry for entry in held["steps"]}
    lacking = _lacking(step, libraries)
    try:
        _noted(bench, held, bench.step(step, before, lacking))
    except Interrupted as interrupt:
        _noted(bench, held, bench.entry(step, interrupt.done, before))
        raise


def _lacking(step: Step, libraries: list[software.Found]) -> judge.Verdict | None:
    """Return that libraries are missing: what no test has proven is no skip."""
    missing = {one.need.name: one.need for one in libraries if one.version is None}
    names = [name for name in step.needs if name in missing]
    if not names:
        return None
    tests = any(missing[name].level == software.TESTS for name in names)
    why = (f"{', '.join(names)}: missing",)
    return judge.Verdict(judge.NOT_RUN if tests else judge.SKIPPED, why)


def _noted(bench: Bench, held: dict[str, Any], entry: dict[str, Any]) -> None:
    held["simulated"] = held["simulated"] or bool(entry.pop("simulated", False))
    fingerprint = entry.pop("fingerprint", None)
    held["fingerprint"] = held["fingerprint"] or fingerprint
    held["steps"].append(entry)
    held["elapsed_s"] = round(bench.elapsed, 3)


def _said(entry: Mapping[str, Any]) -> str:
    seconds, why = entry["elapsed_s"] or 0.0, " ".join("; ".join(entry["why"]).split())
    return f"  {entry['verdict']:8} {entry['key']:22} {seconds:6.1f} s  {printable(why[:_SHOWN])}"


def _judged(step: Step, done: Done, before: dict[str, Any], *, simulated: bool) -> judge.Verdict:
    """Return the step's verdict; what cannot be judged has failed, and the next one runs."""
    report = done.report if step.reports else {}
    try:
        if step.reports and not report:
            last = (done.err.strip().splitlines() or ["it said nothing"])[-1]
            why = f"it ended with {done.exit_code} and no report: {last}"
            return judge.Verdict(judge.FAILED, (why,))
        if report and (problem := _invalid(report)):
            return judge.Verdict(judge.FAILED, (f"the report breaks its schema: {problem}",))
        judged = {**report, "simulated": True} if simulated else report
        return step.judge(done, judged, before)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a no
        why = f"it cannot be judged: {type(error).__name__}: {error}"
        return judge.Verdict(judge.FAILED, (why,))


def _invalid(report: Mapping[str, Any]) -> str:
    """Return how a report breaks gpumap's schema; nothing where jsonschema is missing."""
    try:
        import jsonschema  # type: ignore[import-untyped]
    except ImportError:
        return ""
    from gpumap.model.schema import published

    validator = jsonschema.Draft202012Validator(published())
    return next((f"{e.json_path}: {e.message[:_SHOWN]}" for e in validator.iter_errors(report)), "")


if __name__ == "__main__":
    sys.exit(main())
