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

FOLDER = "tests/backends"
NEEDS = ("pytest", "pytest-timeout")  # without the second a driver that hangs hangs them all
_LAST = 12  # lines of its output, where it did not come to its end
_LONGEST = 300  # characters of one failure's message


def arguments(junit: Path, ignored: Iterable[str]) -> tuple[str, ...]:
    """Return what Python is to run."""
    ignores = (f"--ignore={file}" for file in ignored)
    return ("-m", "pytest", FOLDER, "-v", "-p", "no:cacheprovider", f"--junitxml={junit}", *ignores)


def judged(done: Done, junit: Path, backends: Iterable[str], ignored: Mapping[str, str]) -> Verdict:
    """Pass if no test failed, and each backend of the map passed tests on a device."""
    try:
        tests = read(junit)
    except (OSError, ET.ParseError):
        last = "\n".join(done.out.splitlines()[-_LAST:])
        return Verdict(FAILED, (f"pytest left no result; it last said: {last}",))
    tests["ignored"] = dict(ignored)
    problems = [f"{f['test']}: {f['message']}" for f in tests["failures"]]
    if done.exit_code and not problems:
        problems.append(f"pytest ended with {done.exit_code}")
    problems += [
        f"no test passed on a device of {name}" for name in backends if not tests["on"].get(name)
    ]
    on = ", ".join(f"{count} on {name}" for name, count in tests["on"].items())
    good = f"{tests['passed']} passed ({on}), {tests['skipped']} skipped"
    return verdict(problems, good, tests=tests)


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
