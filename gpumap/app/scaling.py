"""`gpumap scale`: the user's program on one name of a map, on two, and so on, in turns.

A turn has one run on each number of names, up and down in turn: so a slow change of the machine is
in all numbers alike. A speed-up is the median of one ratio for each turn. One run on all names
comes first, and does not count.
"""

from __future__ import annotations

import math
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpumap import units
from gpumap.app.launching import Job, Launching, found_program, tell
from gpumap.app.program import Ended
from gpumap.app.recording import Recording
from gpumap.app.watching import resolved
from gpumap.bench.figures import located, ratio
from gpumap.bench.stopping import EARLY_LOOKS
from gpumap.distributed.launch import without_ranks
from gpumap.errors import Diagnostic, Exit, QuestionError
from gpumap.judge.gate import Gate, concluded
from gpumap.judge.limits import word
from gpumap.judge.scaling import INCONCLUSIVE, judged, sentences
from gpumap.launch.child import Order, Shared, environment_of_all
from gpumap.launch.places import joined, places
from gpumap.launch.watching import Watch
from gpumap.machine import usage
from gpumap.machine.numa import with_memory
from gpumap.machine.topology import read
from gpumap.machine.tree import Tree
from gpumap.model import FEWEST, Kind, Problem, Scaled, TimedRun, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.launch.places import Place
    from gpumap.launch.processes import Ending
    from gpumap.model import Binding, Estimate, Scaling, Use

_NO_COMMAND = 'write it behind "--": gpumap scale [MAP] -- COMMAND ARG...'
_ONE_NAME = 'name two devices or more: gpumap scale "a->cpu0;b->cpu1" -- COMMAND'
_LONGER = "raise --budget, and keep the machine idle"
_ASK_LESS = "see the cause, or ask for less"
_CONFIDENCE = 0.95
_GRACE = 5.0
_SEVERAL = 1.5  # cores or devices at work: more than one
_SPARE = 1.2  # times what six turns take


class ScaleRequest(NamedTuple):
    """On which map a program is measured, how long and how well, and what it is to reach."""

    argument: str | None
    option: str | None
    map_file: Path | None
    backend: str | None
    counts: tuple[int, ...]  # none: every number of names
    weak: bool
    budget: float
    precision: float
    timeout: float | None
    expect: float | None
    inconclusive: str
    output: Output


def scale(program: Program, asked: ScaleRequest) -> None:
    """Measure a program on numbers of names, and report the speed-up and what limits it.

    Raises:
        Ended: with the program's own exit code, where a run failed.
    """
    if not program.command:
        raise QuestionError("no command is given", _NO_COMMAND)
    path, own = found_program(program.command[0], program), 0
    settings = {
        "budget_s": asked.budget,
        "timeout_s": asked.timeout,
        "confidence": _CONFIDENCE,
        **{key: getattr(asked, key) for key in ("weak", "precision", "expect", "inconclusive")},
    }
    try:
        with Recording("scale", program, asked.output, settings, time_limit=None) as record:
            record.draft.resolution = resolved(program, record, asked)
            runs = _Runs(program, path, asked, record.draft.resolution.bindings)
            try:
                runs.take()
            finally:
                found = judged(program.command, runs.steps(), weak=asked.weak)
                record.draft.scaling = found
            _conclude(record, runs, found, asked)
            own = next((ending.code for ending in runs.failed.values()), 0)
    except Ended as ended:
        raise Ended(own if own and ended.exit_code in (0, Exit.NO) else ended.exit_code) from ended


class _Runs:
    """The runs of a program on so many names of a map."""

    def __init__(
        self, program: Program, path: str, asked: ScaleRequest, bindings: Sequence[Binding]
    ) -> None:
        self.failed: dict[int, Ending] = {}  # by the number of names
        self.stopped = False  # by Ctrl-C
        self.each = math.inf  # seconds of a turn
        self._program, self._path, self._asked = program, path, asked
        self._bindings = bindings
        self._places = places(bindings, read(), with_memory(Tree(Path("/"))))
        self._taken: dict[int, list[TimedRun]] = {n: [] for n in _counts(asked, len(bindings))}
        self._uses: dict[int, tuple[Use, ...]] = {}

    def take(self) -> None:
        """Take turns until the speed-ups are known well enough, or the budget is spent."""
        asked, began = self._asked, time.monotonic()
        looks = [share * asked.budget for share in EARLY_LOOKS]
        order, turn = [*self._taken], 0
        self._run(-1, order[-1])
        first = time.monotonic()
        while not self.stopped and 1 in order and (len(order) > 1 or not turn):
            for count in order:
                self._run(turn, count)
            order, turn = [count for count in order[::-1] if count not in self.failed], turn + 1
            now = time.monotonic()
            self.each = (now - first) / turn
            if turn == 1 and not asked.output.quiet:
                took, budget = (units.together((x,), "s")[0] for x in (self.each, asked.budget))
                tell(self._program, f"note: a turn takes {took}, and --budget is {budget}\n")
            due = [look for look in looks if began + look <= now]
            looks = looks[len(due) :]
            if now + self.each > began + asked.budget or (due and self._precise()):
                return

    def steps(self) -> list[Scaled]:
        """Return each number of names with its time and speed-up."""
        return [self._step(count, runs) for count, runs in self._taken.items()]

    def _step(self, count: int, runs: Sequence[TimedRun]) -> Scaled:
        ending, work = self.failed.get(count), count if self._asked.weak else 1
        code = None if ending is None else ending.code
        if ending and ending.process:
            code = ending.process.code
        one = {run.turn: run.elapsed for run in self._taken[1]}
        own = {run.turn: run.elapsed / work for run in runs}
        return Scaled(
            tuple(binding.name for binding in self._bindings[:count]),
            _units(self._places[:count]),
            tuple(runs),
            code,
            located([run.elapsed for run in runs], "s", _CONFIDENCE) if runs else None,
            ratio(one, own, _CONFIDENCE) if count > 1 else None,
            self._uses.get(count, ()),
        )

    def _precise(self) -> bool:
        gains = [step.speedup for step in self.steps() if step.speedup is not None]
        return all(g.high - g.low <= 2 * self._asked.precision * g.value for g in gains)

    def _run(self, turn: int, count: int) -> None:
        """Run the program once; turn -1 does not count."""
        if self.stopped or count in self.failed:
            return
        chosen, program = self._places[:count], self._program
        place, token = joined(chosen), os.urandom(16).hex()
        shared = Shared(token, 0, backend=self._asked.backend)
        env = without_ranks(program.env) | environment_of_all(chosen, shared, program.env)
        order = Order(self._path, program.command or (), env, place.cores, place.memory)
        launching = Launching(program, [Job(place.name, "", order, place)], quiet=True)
        launching.to_nothing()
        watch = Watch(self._bindings[:count])
        start = _Start(watch, chosen)
        before = _worked(place)
        ending = launching.run(token, _GRACE, self._asked.timeout, watch)
        others = _worked(place) - before - watch.cpu
        self.stopped = ending.why == "interrupted"
        if ending.why != "done":
            self.failed |= {} if self.stopped else {count: ending}
        elif turn >= 0:
            uses, known = watch.uses(), _on_cores(chosen)
            shares = [use.busy for use in uses if use.busy is not None]
            seen = sum(shares) * watch.elapsed if len(shares) == count else None
            worked = watch.cpu if known else seen
            foreign = max(others, 0.0) if known and place.cores else None
            self._taken[count].append(
                TimedRun(
                    turn,
                    round(watch.elapsed, 6),
                    round(watch.cpu, 6),
                    _rounded(worked),
                    _rounded(start.at),
                    _rounded(foreign),
                    watch.memory,
                )
            )
            self._uses[count] = uses


class _Start:
    """When a second core or device of a run began to work, as far as looks show it."""

    def __init__(self, watch: Watch, chosen: Sequence[Place]) -> None:
        self.at: float | None = None
        self._watch, self._last = watch, 0.0
        cores = _on_cores(chosen)
        self._widths = {p.name: len(p.cores) if cores else 1 for p in chosen}
        watch.show = self._look

    def _look(self) -> None:
        latest, now = self._watch.latest, self._watch.elapsed
        working = sum((s.share or 0.0) * self._widths[name] for name, s in latest.items())
        if self.at is None and working >= _SEVERAL:
            self.at = self._last
        self._last = now


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _counts(asked: ScaleRequest, names: int) -> list[int]:
    if names == 1:
        raise QuestionError("the map has one name", _ONE_NAME)
    if wrong := [count for count in asked.counts if count > names]:
        raise QuestionError(f"--counts: the map has {names} names, not {wrong[0]}", "name more")
    return sorted({1, *(asked.counts or range(1, names + 1))})


def _on_cores(chosen: Sequence[Place]) -> bool:
    return all(place.device.kind is Kind.CPU and place.device.cores for place in chosen)


def _units(chosen: Sequence[Place]) -> int:
    """Return how many cores some names have; of devices how many those are."""
    cores = {core for place in chosen for core in place.device.cores}
    return len(cores) if _on_cores(chosen) else len(chosen)


def _worked(place: Place) -> float:
    """Return for how many seconds its cores have worked."""
    found = usage.processors("")
    return sum(found.get(core, 0) for core in place.cores) / usage.TICKS


# --- what is concluded


def _conclude(record: Recording, runs: _Runs, found: Scaling, asked: ScaleRequest) -> None:
    """Say in the report which runs failed, and what is uncertain, or less than was expected."""
    if runs.stopped:
        record.draft.refuse(Diagnostic("interrupted", "interrupted"), Exit.INTERRUPTED)
    for count, ending in runs.failed.items():
        late = ending.why == "timeout"
        record.draft.refuse(_failure(count, ending, asked), Exit.TIMEOUT if late else Exit.NO)
    if found.cause is None or (gain := found.steps[-1].speedup) is None:
        return
    hint, verdicts, wrong = _LONGER, [], []
    if found.cause == "few-samples":
        seconds = math.ceil(_SPARE * (FEWEST + 1) * runs.each)
        hint = f"raise --budget: six turns take about {seconds}s"
    if asked.expect is not None:
        verdicts = [_verdict(gain, asked.expect)]
        wrong = [_problem(verdicts[0], hint)] if verdicts[0].verdict != "pass" else []
    elif found.cause in INCONCLUSIVE:
        unclear = Diagnostic("inconclusive", sentences(found)[0].rstrip("."), hint=hint)
        wrong = [Problem(unclear, Exit.INCONCLUSIVE)]
    gate = Gate(inconclusive="pass" if asked.inconclusive == "pass" else "fail")
    record.judge = partial(concluded, gate=gate, found=verdicts, wrong=wrong)


def _failure(count: int, ending: Ending, asked: ScaleRequest) -> Diagnostic:
    code = ending.process.code or 0 if ending.process else 0
    end = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    if ending.why == "timeout":
        end = f"took longer than {asked.timeout:g} s (--timeout)"
    last = ending.process.last[-1:] if ending.process else []
    hint = f"it printed last: {last[0].decode(errors='backslashreplace')}" if last else None
    on = units.counted(count, "name")
    return Diagnostic("program", f"on {on} the program {end}", hint=hint or "it printed nothing")


def _verdict(gain: Estimate, least: float) -> Verdict:
    known = gain.has_interval
    return Verdict(
        "limit",
        f"speedup>={least:g}",
        None,
        "speedup",
        word(">=", least, gain),
        gain.value,
        gain.low if known else None,
        gain.high if known else None,
        least,
    )


def _problem(verdict: Verdict, hint: str) -> Problem:
    low, high = verdict.low, verdict.high
    shown = "too few turns" if low is None or high is None else f"[{low:.3g}, {high:.3g}]"
    said = f"limit {verdict.text}: it is {verdict.value:.3g} {shown}"
    if verdict.verdict == "inconclusive":
        return Problem(Diagnostic("inconclusive", said, hint=hint), Exit.INCONCLUSIVE)
    return Problem(Diagnostic("limit", said, hint=_ASK_LESS), Exit.NO)
