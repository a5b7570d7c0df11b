"""The tests of a backend on a device, as a step: which they are, and what came of them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from benchmarks.gpu.judge import FAILED, Verdict, few, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from benchmarks.children import Done

# What a device can change; what its drivers say without one, CI has tested.
CONFORMANCE = tuple(
    f"tests/backends/conformance/{name}.py"
    for name in ("test_conformance", "test_conformance_products")
)
FILES = (*CONFORMANCE, "tests/backends/test_cupy.py", "tests/backends/test_cupy_devices.py")
NEEDS = ("pytest", "pytest-timeout")  # without the second a driver that hangs hangs them all
_LAST = 12  # lines of its output, where it did not come to its end
_LONGEST = 300  # characters of one failure's message


def chosen(backend: str, device: str = "") -> str:
    """Return which tests are a backend's, on one device of it: of no other library beside it."""
    others = [name for name in ("cupy", "torch", "jax", "pyopencl") if name != backend]
    if device:
        return " and not ".join((f"{backend}-{device}", *others))
    return " and not ".join((backend, *others)) if backend == "cupy" else backend


def tests_of(
    junit: Path, ignored: Iterable[str], files: Iterable[str], chosen: str, *more: str
) -> tuple[str, ...]:
    """Return what Python is to run: those tests of the files that `-k` chooses."""
    known = [file for file in files if not any(each.endswith(file) for each in ignored)]
    return ("-m", "pytest", *known, "-v", *more, "-p", "no:cacheprovider", f"--junitxml={junit}",
            "-k", chosen)  # fmt: skip


def tested(junit: Path, backend: str, ignored: Mapping[str, str], done: Done, *_: Any) -> Verdict:
    """Pass if no test failed, and the backend passed tests on a device."""
    try:
        tests = _read(junit)
    except (OSError, ET.ParseError):  # pytest writes it at its end, which did not come
        last = "\n".join(done.out.splitlines()[-_LAST:])
        why = f"pytest left no result; it last said: {last}"
        return Verdict(FAILED, (why,), {"tests": _so_far(done.out, ignored)})
    tests["ignored"] = dict(ignored)
    problems = few([f"{f['test']}: {f['message']}" for f in tests["failures"]], "failed")
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


def _read(junit: Path) -> dict[str, Any]:
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
