"""The tests of the backends, run by pytest, and its JUnit file read back."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from benchmarks.gpu.judge import FAILED, Verdict, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from benchmarks.gpu.process import Done

# What a device can change; what its drivers say without one, CI has tested.
FILES = tuple(f"tests/backends/test_{name}.py" for name in ("conformance", "cupy", "cupy_devices"))
NEEDS = ("pytest", "pytest-timeout")  # without the second a driver that hangs hangs them all
_LAST = 12  # lines of its output, where it did not come to its end
_LONGEST = 300  # characters of one failure's message


def arguments(junit: Path, ignored: Iterable[str], backend: str) -> tuple[str, ...]:
    """Return what Python is to run: the tests of one backend."""
    files = [file for file in FILES if not any(each.endswith(file) for each in ignored)]
    chosen = f"{backend} and not pyopencl" if backend == "cupy" else backend
    return ("-m", "pytest", *files, "-v", "--full", "-p", "no:cacheprovider", f"--junitxml={junit}",
            "-k", chosen)  # fmt: skip


def judged(done: Done, junit: Path, backend: str, ignored: Mapping[str, str]) -> Verdict:
    """Pass if no test failed, and the backend passed tests on a device."""
    try:
        tests = read(junit)
    except (OSError, ET.ParseError):  # pytest writes it at its end, which did not come
        last = "\n".join(done.out.splitlines()[-_LAST:])
        why = f"pytest left no result; it last said: {last}"
        return Verdict(FAILED, (why,), {"tests": _so_far(done.out, ignored)})
    tests["ignored"] = dict(ignored)
    problems = [f"{f['test']}: {f['message']}" for f in tests["failures"]]
    if done.exit_code and not problems:
        problems.append(f"pytest ended with {done.exit_code}")
    if not tests["on"].get(backend):
        problems.append(f"no test passed on a device of {backend}")
    on = ", ".join(f"{count} on {name}" for name, count in tests["on"].items())
    good = f"{tests['passed']} passed ({on}), {tests['skipped']} skipped"
    return verdict(problems, good, tests=tests)


def _so_far(out: str, ignored: Mapping[str, str]) -> dict[str, Any]:
    """Return what the lines of `-v` say of the tests that had ended."""
    lines = re.findall(r"^(\S+::\S+) (PASSED|FAILED|ERROR|SKIPPED)", out, re.MULTILINE)
    words = Counter(word for _, word in lines)
    on = Counter(_backend(name) for name, word in lines if word == "PASSED")
    failed = [name for name, word in lines if word in ("FAILED", "ERROR")]
    return {
        "tests": len(lines),
        "passed": words["PASSED"],
        "failed": len(failed),
        "skipped": words["SKIPPED"],
        "on": {name: on[name] for name in sorted(on) if name},
        "failures": [{"test": name, "message": "not kept"} for name in failed],
        "skip_reasons": {},
        "ignored": dict(ignored),
    }


def read(junit: Path) -> dict[str, Any]:
    """Return what a JUnit file says: counts, failures, and why tests were skipped."""
    cases = list(ET.parse(junit).iter("testcase"))  # noqa: S314 - our own child wrote it
    failures, reasons, on = [], Counter[str](), Counter[str]()
    for case in cases:
        bad = [case.find(kind) for kind in ("failure", "error")]
        skipped = case.find("skipped")
        name = str(case.get("name"))
        wrong = next((b for b in bad if b is not None), None)  # an empty element is false
        if wrong is not None:
            message = str(wrong.get("message"))[:_LONGEST]
            failures.append({"test": f"{case.get('classname')}::{name}", "message": message})
        elif skipped is not None:
            reasons[str(skipped.get("message"))] += 1
        else:
            on[_backend(name)] += 1
    skips = sum(reasons.values())
    return {
        "tests": len(cases),
        "passed": len(cases) - len(failures) - skips,
        "failed": len(failures),
        "skipped": skips,
        "on": {name: on[name] for name in sorted(on) if name},
        "failures": failures,
        "skip_reasons": dict(reasons),
    }


def _backend(name: str) -> str:
    """Return the backend of a test on a device, such as `test_x[cupy-cuda0-...]`; or nothing."""
    from gpumap.backends import REGISTRY

    place = re.search(rf"\b({'|'.join(REGISTRY)})-(cuda|opencl|cpu)", name.partition("[")[2])
    return place[1] if place else ""
