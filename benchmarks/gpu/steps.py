"""What is run, in order, as a table: key, what, command, how long, and who judges it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import judge, proofs, suites

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.children import Done
    from benchmarks.gpu.judge import Verdict

Steps = dict[str, Any]  # by key, what the record holds of the steps before
Judge = Callable[["Done", "Mapping[str, Any]", Steps], "Verdict"]

DOT, COPY = ("bench", "dot", "--size"), ("transfer-cost", "--sizes")
DTYPES = ("float16", "bfloat16", "tf32")  # beside float32: what a GPU has units of its own for
_TELL = ("cupy", "torch")  # libraries that tell a GPU's UUID
_CHECK = 60.0  # seconds that `check` may take, as it says itself
_WITHIN = 60  # seconds that `preflight` is given: from there on it moves large blocks too
_SUITE = 120.0  # seconds for the tests of a backend,
_SUITE_TAKES, _SOME_TAKE = 30.0, 20.0  # and what all of them took on an H200; fewer combinations
_DOT, _SIZES, _COPY, _LARGE, _WORK = 6.0, 10.0, 20.0, 12.0, 6.0  # budgets in seconds
_BRIEF = 4.0  # budget of products of types that contests have measured
_PAIRS = 120.0  # seconds for the pairs of GPUs, all together
_CONTEST = 60.0  # seconds after which contests have hung,
_CONTEST_TAKES = 12.0  # and what they took on an H200
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
    skip: str = ""  # why this machine cannot show it
    after: str = ""  # the step that must have passed
    launcher: tuple[str, ...] = ()  # words before Python's
    spare: bool = False  # a repeat: a record without it is whole

    @property
    def reports(self) -> bool:
        """Return whether it prints a report of gpumap: `exec` becomes another program."""
        return self.arguments[1:2] == ("gpumap",) and self.arguments[2] != "exec"


@dataclass(frozen=True, slots=True)
class Driver:
    """A second backend of the first GPU: the device as it is written for it, or why it has none."""

    name: str
    device: str
    lacks: str = ""

    @property
    def map(self) -> str:
        """Return a map of the one device."""
        return f"dev0->{self.device}"


@dataclass(frozen=True, slots=True)
class Setup:
    """On which devices, by which backends, at which sizes and for how long."""

    map: str
    devices: tuple[str, ...]  # as in a map, each once
    backends: tuple[str, ...]  # that drive them
    asked: str | None  # the backend that was asked for
    others: tuple[Driver, ...]  # second backends of the first device,
    hardware: frozenset[str]  # and what that is
    uuids: Mapping[str, str]  # of each name's GPU; empty where a device has none
    launcher: tuple[str, ...]  # what starts a rank for each name; empty: nothing does
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

    @property
    def middle(self) -> str:
        """Return the size of the products that are compared between backends: 4096."""
        return self.dot_sizes[:2][-1]


def steps(setup: Setup) -> list[Step]:
    """Return every step, the most valuable first: each is in the record as soon as it has ended."""
    first, later = _contests(setup), _more_contests(setup)
    dots, large = _small(setup), _large(setup)
    raced = [step for step in first if step.key in ("peers", "copies")]
    again = [_again(step) for step in (*raced, *dots, *large)]
    return [*_firsts(setup), *first, *dots, *_suite(setup), *_others(setup), *_shared(setup),
            *later, *large, *_measured(setup), *_judged(), *_pairs(setup), *again]  # fmt: skip


def _firsts(setup: Setup) -> Iterator[Step]:
    yield _check(setup, "check", "every name is a device that works", judge.accepted, setup.map)
    preflight = ("-m", "gpumap", "preflight", setup.map, *setup.driven, "--within", f"{_WITHIN}s",
                 "--format", "json")  # fmt: skip
    yield Step("preflight", f"every byte and product is right, in {_WITHIN} s", preflight,
               2 * _STARTS, _WITHIN,
               lambda done, report, _: proofs.screened(done, report, _WITHIN))  # fmt: skip
    yield from _exec(setup)


def _exec(setup: Setup) -> Iterator[Step]:
    """Yield `exec --verify`: of one name, and by a launcher a rank for each of several."""
    name = next(iter(setup.uuids), "")
    no_gpu = "" if name else "not every name is a GPU of its own with a UUID"
    if setup.backends[0] not in _TELL:
        no_gpu = f"{setup.backends[0]} tells no UUID"
    wanted = {name: setup.uuids[name]} if name else {}
    yield Step("exec", "exec shows a command its own device alone", _shown(setup, "--name", name),
               _STARTS, _CHECK, partial(proofs.alone, wanted), skip=no_gpu)  # fmt: skip
    if len(setup.uuids) > 1:
        nothing = no_gpu if setup.launcher else "neither torchrun nor mpirun is there"
        yield Step("exec-ranks", "exec gives each rank of a launcher its own device",
                   _shown(setup), 2 * _STARTS, _CHECK, partial(proofs.alone, setup.uuids),
                   skip=nothing, launcher=setup.launcher)  # fmt: skip


def _shown(setup: Setup, *more: str) -> tuple[str, ...]:
    """Return the arguments of exec with a command that shows what it sees."""
    command = (sys.executable, "-m", "benchmarks.gpu.seen", setup.backends[0])
    return ("-m", "gpumap", "exec", setup.map, *setup.driven, *more, "--verify", "--", *command)


def _shared(setup: Setup) -> Iterator[Step]:
    twice = f"a->{setup.devices[0]};b->{setup.devices[0]}"
    yield _check(setup, "shared", "two names on one device are told as shared hardware",
                 partial(judge.noted, code="shared-hardware"), twice)  # fmt: skip
    yield _check(setup, "distinct", "--distinct refuses two names on one device",
                 partial(judge.refused, code="distinct"), twice, "--distinct")  # fmt: skip
    step = _measuring(setup, "dot-shared", "two names on one device are flagged as shared hardware",
                      (*DOT, setup.dot_sizes[0]), _BRIEF, twice)  # fmt: skip
    yield replace(step, judge=_reported(partial(judge.flagged, flag="shared-hardware")))


def _suite(setup: Setup) -> Iterator[Step]:
    for name in setup.backends:
        key = "tests" if name == setup.backends[0] else f"tests:{name}"
        yield _tests(setup, key, name, suites.FILES, suites.chosen(name), "--full")


def _tests(
    setup: Setup, key: str, name: str, files: tuple[str, ...], chosen: str, *more: str
) -> Step:
    junit = setup.scratch / f"backends-{name}.xml"
    arguments = suites.tests_of(junit, setup.ignored, files, chosen, *more)
    return Step(key, f"the conformance suite on {name}", arguments, _SUITE_TAKES, _SUITE,
                partial(suites.tested, junit, name, setup.ignored), suites.NEEDS)  # fmt: skip


def _others(setup: Setup) -> Iterator[Step]:
    """Yield what a second backend does on the first device: all of them, then their tests."""
    last = list[Step]()
    for other in setup.others:
        only = replace(setup, asked=other.name, map=other.map)
        key, name = f"check:{other.name}", other.name
        card = partial(judge.same_card, hardware=setup.hardware)
        first = _check(only, key, f"{name} opens the same card", card, other.map)
        dot = _measuring(only, f"dot:{name}", f"products by {name}", (*DOT, setup.middle), _DOT)
        copies = _measuring(only, f"transfer:{name}", f"small copies by {name}",
                            (*COPY, "small", "--cases", "h2d,d2h", "--no-model"), _DOT)  # fmt: skip
        suite = _tests(only, f"tests:{name}", name, suites.CONFORMANCE,
                       suites.chosen(name, other.device))  # fmt: skip
        yield replace(first, skip=other.lacks)
        yield from (replace(step, skip=other.lacks, after=key) for step in (dot, copies))
        last.append(replace(suite, skip=other.lacks, after=key, least=_SOME_TAKE))
    yield from last


def _contests(setup: Setup) -> list[Step]:
    """Return what is timed in turns on one device; without CuPy there is nothing."""
    if "cupy" not in setup.backends:
        return []
    few, first = ",".join(setup.copy_sizes), setup.devices[0]
    opencl = next((each for each in setup.others if each.name == "pyopencl"), None)
    found = [
        _products(setup, "float32"),
        _contest(setup, "launches", "what a call costs, beside CuPy's own", ("launches",), first),
        _contest(setup, "copies", "copies by the copy engine and bare",
                 ("copies", "--sizes", f"4KiB,64KiB,1MiB,{few}".strip(",")), first),
    ]  # fmt: skip
    if opencl is not None:
        part = ("opencl", "--sizes", setup.middle, "--opencl", opencl.device)
        step = _contest(setup, "opencl", "OpenCL's product beside cuBLAS's", part, first)
        found.insert(2, replace(step, skip=opencl.lacks))
    return [*found, *_side_by_side(setup)]


def _side_by_side(setup: Setup) -> Iterator[Step]:
    """Yield the step that measures CuPy and PyTorch in one run, if both may drive the device."""
    torch = next((each for each in setup.others if each.name == "torch"), None)
    if torch is not None:
        both = replace(setup, asked="cupy,torch")
        command = (*DOT, setup.middle, "--cases", "one")
        step = _measuring(both, "torch-cupy", "products of torch and cupy take the same time",
                          command, _SIZES, torch.map)  # fmt: skip
        yield replace(step, judge=_reported(judge.agree), skip=torch.lacks)


def _more_contests(setup: Setup) -> Iterator[Step]:
    """Yield the contests without which the first ones are still an answer."""
    if "cupy" not in setup.backends:
        return
    first, every = setup.devices[0], ",".join(setup.devices)
    yield from (_products(setup, dtype) for dtype in setup.dtypes if dtype in DTYPES)
    yield _contest(setup, "memory", "the device's own memory",
                   ("memory", "--sizes", setup.memory_size), first)  # fmt: skip
    yield _contest(setup, "nccl", "NCCL loads, connects and sums", ("nccl", "--sizes", "4KiB,1MiB"),
                   first)  # fmt: skip
    if len(setup.devices) > 1:
        sizes = ",".join(("1MiB", *setup.copy_sizes))
        yield _contest(setup, "fan", "one to all, and all to one", ("fan", "--sizes", sizes), every)


def _products(setup: Setup, dtype: str) -> Step:
    key = "peers" if dtype == "float32" else f"peers-{dtype}"
    part = ("products", "--dtype", dtype, "--sizes", ",".join(setup.dot_sizes))
    what = f"products of {dtype}: gpumap, cuBLAS, a graph, PyTorch"
    step = _contest(setup, key, what, part, setup.devices[0])
    return replace(step, needs=("ml-dtypes",) if dtype == "bfloat16" else ())


def _contest(setup: Setup, key: str, what: str, part: tuple[str, ...], devices: str) -> Step:
    pace = ("--devices", devices, "--seconds", f"{min(0.05, setup.budget / 100):g}")
    arguments = ("-m", "benchmarks.gpu.contests", *part, *pace)
    return Step(key, what, arguments, _CONTEST_TAKES, _CONTEST,
                lambda done, *_: judge.raced(done))  # fmt: skip


def _small(setup: Setup) -> list[Step]:
    return [
        _measuring(setup, "dot", "a product for each name", (*DOT, setup.dot_sizes[0]), _DOT),
        _measuring(setup, "transfer", "small copies, pinned beside pageable",
                   (*COPY, "small,large"), _COPY),
    ]  # fmt: skip


def _large(setup: Setup) -> list[Step]:
    return [
        _measuring(setup, key, what, (*command, ",".join(sizes), *more), budget)
        for key, what, command, sizes, more, budget in (
            ("dot-large", "large products", DOT, setup.dot_sizes[1:], (), _SIZES),
            ("transfer-large", "large copies, pinned beside pageable", COPY, setup.copy_sizes,
             ("--no-model",), _LARGE),
        ) if sizes
    ]  # fmt: skip


def _measured(setup: Setup) -> Iterator[Step]:
    for dtype in setup.dtypes:
        product = (*DOT, setup.dot_sizes[-1], "--dtype", dtype)
        step = _measuring(setup, f"dot-{dtype}", f"products of {dtype}", product, _BRIEF)
        yield replace(step, needs=("ml-dtypes",) if dtype == "bfloat16" else ())
    twice = f"a->{setup.devices[0]};b->{setup.devices[0]}"
    if setup.backends == ("fake",):
        return
    for key, what, command, budget, text in (
        ("chain", "a fused kernel beside five", ("bench", "chain"), _WORK, None),
        ("train", "a network is trained", ("bench", "train"), _WORK, None),
        ("train-shared", "a network on one device under two names", ("bench", "train"), _BRIEF,
         twice),
    ):  # fmt: skip
        yield _measuring(setup, key, what, command, budget, text)
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
    return replace(step, key=f"{step.key}-again", what=what, judge=judged, spare=True)


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
    judged = judge.steady if command[0] == COPY[0] else judge.measured
    return Step(key, what, arguments, budget + _STARTS, limit, _reported(judged))


def dtypes(help_text: str) -> tuple[str, ...]:
    """Return which of DTYPES `gpumap bench dot --help` names."""
    return tuple(d for d in DTYPES if re.search(rf"\b{d}\b", help_text))


def _looked_back(of: Callable[..., Verdict]) -> Judge:
    """Return the judge that looks at the steps before."""
    return lambda _done, _report, before: of([*before.values()])


def _reported(of: Callable[..., Verdict]) -> Judge:
    """Return the judge that looks at the report alone."""
    return lambda _done, report, _before: of(report)
