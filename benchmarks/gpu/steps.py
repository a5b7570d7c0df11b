"""What is run, in order, as a table: key, what, command, how long, and who judges it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.children import Done
    from benchmarks.gpu.judge import Verdict

Steps = dict[str, Any]  # by key, what the record holds of the steps before
Judge = Callable[["Done", "Mapping[str, Any]", Steps], "Verdict"]

DOT, COPY = ("bench", "dot", "--size"), ("transfer-cost", "--sizes")
DTYPES = ("float16", "bfloat16", "tf32")  # beside float32: what a GPU has units of its own for
_CHECK = 60.0  # seconds that `check` may take, as it says itself
_SUITE = 120.0  # seconds for the tests of the backends
_DOT, _SIZES, _COPY, _WORK = 8.0, 15.0, 25.0, 12.0  # budgets in seconds
_PAIRS = 120.0  # seconds for the pairs of GPUs, all together
_CONTEST = 60.0  # seconds after which contests have hung
_STARTS = 4.0  # seconds that a command takes beside its budget, to start and to end
_LEAST = 2.0  # seconds of budget under which a pair is not worth its start


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. Without arguments for Python it is judged from the steps before."""

    key: str
    what: str
    arguments: tuple[str, ...]
    least: float  # seconds under which it is not worth to begin
    limit: float  # seconds after which it has hung
    judge: Judge
    needs: tuple[str, ...] = ()  # libraries without which it is not run


@dataclass(frozen=True, slots=True)
class Setup:
    """On which devices, by which backend, at which sizes and for how long."""

    map: str
    devices: tuple[str, ...]  # as in a map, each once
    backends: tuple[str, ...]  # that drive them
    asked: str | None  # the backend that was asked for
    dtypes: tuple[str, ...]
    dot_sizes: tuple[str, ...]
    copy_sizes: tuple[str, ...]
    memory_size: str
    budget: float  # seconds; no command gets more
    scratch: Path
    ignored: Mapping[str, str]  # tests that lack a library, each with the reason

    @property
    def driven(self) -> tuple[str, ...]:
        """Return the options that choose the backend."""
        return ("--backend", self.asked) if self.asked else ()


def steps(setup: Setup) -> list[Step]:
    """Return every step, the most valuable first: each is in the record as soon as it has ended."""
    contests = list(_contests(setup))
    dots = list(_dot_and_copies(setup))
    raced = [step for step in contests if step.key in ("peers", "copies")]
    again = [_again(step) for step in (*raced, *dots)]
    return [*_checks(setup), *_tests(setup), *contests, *dots, *_measured(setup), *_judged(),
            *again, *_pairs(setup)]  # fmt: skip


def _checks(setup: Setup) -> Iterator[Step]:
    twice = f"a->{setup.devices[0]};b->{setup.devices[0]}"
    yield _check(setup, "check", "every name is a device that works", judge.accepted, setup.map)
    yield _check(setup, "shared", "two names on one device are told as shared hardware",
                 partial(judge.noted, code="shared-hardware"), twice)  # fmt: skip
    yield _check(setup, "distinct", "--distinct refuses two names on one device",
                 partial(judge.refused, code="distinct"), twice, "--distinct")  # fmt: skip


def _tests(setup: Setup) -> Iterator[Step]:
    for name in setup.backends:
        junit = setup.scratch / f"backends-{name}.xml"
        judged = partial(judge.tested, junit, name, setup.ignored)
        arguments = judge.tests_of(junit, setup.ignored, name)
        key = "tests" if name == setup.backends[0] else f"tests:{name}"
        what = f"the conformance suite and the tests of {name}"
        yield Step(key, what, arguments, _STARTS, _SUITE, judged, judge.NEEDS)


def _contests(setup: Setup) -> Iterator[Step]:
    """Yield what is timed in turns on the same memory; without CuPy there is none."""
    if "cupy" not in setup.backends:
        return
    sizes, few = ",".join(setup.dot_sizes), ",".join(setup.copy_sizes)
    first, every = setup.devices[0], ",".join(setup.devices)
    for dtype in ("float32", *(d for d in setup.dtypes if d in DTYPES)):
        key = "peers" if dtype == "float32" else f"peers-{dtype}"
        step = _contest(setup, key, f"products of {dtype}: gpumap, cuBLAS, a graph, PyTorch",
                        ("products", "--dtype", dtype, "--sizes", sizes), first)  # fmt: skip
        yield replace(step, needs=("ml-dtypes",) if dtype == "bfloat16" else ())
    yield _contest(setup, "copies", "copies by the copy engine and bare",
                   ("copies", "--sizes", f"4KiB,64KiB,1MiB,{few}".strip(",")), first)  # fmt: skip
    yield _contest(setup, "launches", "what a call costs", ("launches",), first)
    yield _contest(setup, "memory", "the device's own memory",
                   ("memory", "--sizes", setup.memory_size), first)  # fmt: skip
    yield _contest(setup, "nccl", "NCCL loads, connects and sums", ("nccl", "--sizes", "4KiB,1MiB"),
                   first)  # fmt: skip
    if len(setup.devices) > 1:
        yield _contest(setup, "fan", "one to all, and all to one",
                       ("fan", "--sizes", f"1MiB,{few}".strip(",")), every)  # fmt: skip


def _contest(setup: Setup, key: str, what: str, part: tuple[str, ...], devices: str) -> Step:
    pace = ("--devices", devices, "--seconds", f"{min(0.05, setup.budget / 100):g}")
    arguments = ("-m", "benchmarks.gpu.contests", *part, *pace)
    return Step(key, what, arguments, _STARTS, _CONTEST, lambda done, *_: judge.raced(done))


def _dot_and_copies(setup: Setup) -> Iterator[Step]:
    first, rest = setup.dot_sizes[0], ",".join(setup.dot_sizes[1:])
    for key, what, command, sizes, budget in (
        ("dot", "a product for each name", DOT, first, _DOT),
        ("transfer", "small copies, pinned beside pageable", COPY, "small,large", _COPY),
        ("dot-large", "large products", DOT, rest, _SIZES),
        ("transfer-large", "large copies, pinned beside pageable", COPY,
         ",".join(setup.copy_sizes), _COPY),
    ):  # fmt: skip
        if sizes:
            yield _measuring(setup, key, what, (*command, sizes), budget)


def _measured(setup: Setup) -> Iterator[Step]:
    for dtype in setup.dtypes:
        command = (*DOT, setup.dot_sizes[-1], "--dtype", dtype)
        step = _measuring(setup, f"dot-{dtype}", f"products of {dtype}", command, _DOT)
        yield replace(step, needs=("ml-dtypes",) if dtype == "bfloat16" else ())
    twice = f"a->{setup.devices[0]};b->{setup.devices[0]}"
    step = _measuring(setup, "dot-shared", "two names on one device are flagged as shared hardware",
                      (*DOT, setup.dot_sizes[0]), _DOT, twice)  # fmt: skip
    yield replace(step, judge=_reported(partial(judge.flagged, flag="shared-hardware")))
    if setup.backends == ("fake",):
        return
    for key, what, command, text in (
        ("chain", "a fused kernel beside five", ("bench", "chain"), None),
        ("train", "a network is trained", ("bench", "train"), None),
        ("train-shared", "a network on one device under two names", ("bench", "train"), twice),
    ):
        yield _measuring(setup, key, what, command, _WORK, text)
    doctor = ("-m", "gpumap", "doctor", setup.map, *setup.driven, "--format", "json")
    yield Step("doctor", "every name is used", doctor, _STARTS, _CONTEST,
               _reported(judge.diagnosed))  # fmt: skip


def _again(step: Step) -> Step:
    """Return a measurement of float32 once more: it must agree with the first one."""
    raced = "benchmarks.gpu.contests" in step.arguments

    def judged(done: Done, report: Mapping[str, Any], before: Steps) -> Verdict:
        first = before.get(step.key, {})
        if raced:
            return judge.raced_again(done, first.get("contests", ()))
        return judge.repeated(report, first.get("rows", ()))

    what = f"{step.what}, once more{'' if raced else ': the figures agree'}"
    return replace(step, key=f"{step.key}-again", what=what, judge=judged)


def _judged() -> Iterator[Step]:
    for key, what, of in (
        ("float64", "products are compared with float64", judge.against_float64),
        ("pinned", "pinned memory beside pageable memory", judge.pinned),
    ):
        yield Step(key, what, (), 0.0, 0.0, _looked_back(of))


def _pairs(setup: Setup) -> Iterator[Step]:
    """Yield products and copies on every ordered pair of devices, in what time there is."""
    pairs = list(permutations(setup.devices, 2))
    share = _PAIRS / max(2 * len(pairs), 1) - _STARTS
    for one, two in pairs:
        text, name = f"a->{one};b->{two}", f"{one},{two}"
        sizes = ",".join(("large", *setup.copy_sizes[:1]))
        for key, what, command, most in (
            ("dot", "products on", (*DOT, setup.dot_sizes[0]), _DOT),
            ("transfer", "copies to", (*COPY, sizes), _COPY),
        ):
            budget, said = max(min(share, most), _LEAST), f"{what} {one} and {two}"
            yield _measuring(setup, f"{key}:{name}", said, command, budget, text)


def _check(
    setup: Setup, key: str, what: str, judged: Callable[..., Verdict], text: str, *more: str
) -> Step:
    options = (*more, *setup.driven, "--timeout", f"{_CHECK:g}s", "--format", "json")
    arguments = ("-m", "gpumap", "check", text, *options)
    return Step(key, what, arguments, _STARTS, _CHECK, _reported(judged))


def _measuring(
    setup: Setup,
    key: str,
    what: str,
    command: tuple[str, ...],
    budget: float,
    text: str | None = None,
) -> Step:
    budget = min(budget, setup.budget)
    limit = 3 * budget + 10 * _STARTS  # a budget is kept but for one block, and for the drivers
    options = ("--map", text or setup.map, *setup.driven, "--budget", f"{budget:.3g}s",
               "--timeout", f"{limit:.3g}s", "--format", "json")  # fmt: skip
    arguments = ("-m", "gpumap", *command, *options)
    return Step(key, what, arguments, budget + _STARTS, limit, _reported(judge.measured))


def dtypes(help_text: str) -> tuple[str, ...]:
    """Return which of DTYPES `gpumap bench dot --help` names."""
    return tuple(d for d in DTYPES if re.search(rf"\b{d}\b", help_text))


def _looked_back(of: Callable[..., Verdict]) -> Judge:
    """Return the judge that looks at the steps before."""
    return lambda _done, _report, before: of(before.values())


def _reported(of: Callable[..., Verdict]) -> Judge:
    """Return the judge that looks at the report alone."""
    return lambda _done, report, _before: of(report)
