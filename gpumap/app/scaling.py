"""`gpumap scale`: how much faster a program is on more names of a map, and what limits it.

A turn has one run on each number of names, up and down in turn: so a slow change of the machine is
in all numbers alike. A speed-up is the median of one ratio for each turn. One run on all names
comes first, and does not count.
"""

from __future__ import annotations

import math
import shlex
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gpumap import units
from gpumap.app.command import requested, tell
from gpumap.app.guard import guard
from gpumap.app.launching import Launching
from gpumap.app.placed_run import jobs, plan
from gpumap.app.recording import Draft, Recording
from gpumap.app.watched_programs import GRACE, resolved
from gpumap.comm.ranks import without_ranks
from gpumap.engine.estimates import located, ratio
from gpumap.errors import Diagnostic, Exit, QuestionError
from gpumap.judge.exit_status import concluded
from gpumap.judge.phrases import interval
from gpumap.judge.scaling import INCONCLUSIVE, judge_scaling, reaches, sentence
from gpumap.launch.placement import environment, joined, places
from gpumap.launch.process import Job
from gpumap.launch.visibility import kept
from gpumap.launch.watching import Watch, units_of
from gpumap.machine.topology import read
from gpumap.model import FEWEST, Problem, Scaled, ScaleStep, Verdict
from gpumap.text import ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.given_map import Where
    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.launch.supervisor import Ending
    from gpumap.model import Binding, Estimate, Report, TimedRun, Use

_ONE_NAME = 'name two devices or more: gpumap scale "a->cpu0;b->cpu1" -- COMMAND'
_ASK_LESS = "see what limits it, or request less"
_LONGER, _IDLE = "raise --budget, and keep the machine idle", "repeat on an idle machine"
_CONFIDENCE = 0.95
_NOWHERE = ((None, None), (None, None))  # what a program prints; its last lines are kept
_LOOK = 0.05  # seconds between two looks: a cause takes twenty of them
# What a library says is missing where nothing has started it as one of several ranks.
_OF_RANKS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_EVERY = 8  # names, up to which each number is measured; of more 1, 2, 4, 8 ... and all


class ScaleRequest(NamedTuple):
    """On which map a program is measured, how, how long, and what it is to reach.

    `ranks`: as one process for each name. `weak`: its work grows with the names.
    """

    where: Where
    budget: float
    timeout: float | None
    expect: float | None
    inconclusive: str
    output: Output
    ranks: bool = False
    weak: bool = False


def scale(program: Program, request: ScaleRequest) -> None:
    """Measure a program on numbers of names, and report the speed-up and what limits it.

    Raises:
        Ended: with the program's own exit code, where a run failed.
    """
    path = requested(program, "scale [MAP]")
    if request.expect is not None and not math.isfinite(request.expect):
        raise QuestionError(f"--expect {request.expect} is no speed-up", "give a finite number")
    guard(program)
    settings = {"budget_s": request.budget, "timeout_s": request.timeout, "confidence": _CONFIDENCE}
    gate = {"expect": request.expect, "inconclusive": request.inconclusive}
    how = {"ranks": request.ranks, "weak": request.weak}
    shown = settings | gate | how
    with Recording(Draft("scale", Scaled(), program, shown), request.output) as record:
        record.draft.resolution = resolved(program, record, request.where)
        runs = _Runs(program, path, request, record.draft.resolution.bindings)
        try:
            runs.take()
        finally:
            found = judge_scaling(program.command, runs.steps(), **how)
            record.draft.result = Scaled(found)
        if runs.stopped:
            record.draft.account(None, stopped=True)
        for count, ending in runs.failed.items():
            record.own = record.own or ending.code
            offer = None if request.ranks else _offer(program, ending)
            problem = _failure(count, ending, offer)
            record.draft.refuse(problem, Exit.TIMEOUT if ending.why == "timeout" else Exit.NO)
        record.judge = partial(_judged, request=request, turn=runs.each)


class _Runs:
    """The runs of a program on so many names of a map."""

    def __init__(
        self, program: Program, path: str, request: ScaleRequest, bindings: Sequence[Binding]
    ) -> None:
        self.failed: dict[int, Ending] = {}  # by the number of names
        self.stopped = False  # by Ctrl-C
        self.each = 0.0  # seconds of a turn
        self._program, self._path, self._request = program, path, request
        self._bindings, most = bindings, len(bindings)
        if most == 1:
            raise QuestionError("the map has one name", _ONE_NAME)
        self._places = places(bindings, read())
        every = [n for n in range(1, most + 1) if most <= _EVERY or n in (most, n & -n)]
        self._taken: dict[int, list[TimedRun]] = {count: [] for count in every}
        self._uses: dict[int, tuple[Use, ...]] = {}

    def take(self) -> None:
        """Take turns until the budget is spent."""
        budget, began = self._request.budget, time.monotonic()
        order, turn = [*self._taken], 0
        self._run(-1, order[-1])
        first = time.monotonic()
        while not self.stopped and 1 in order and (len(order) > 1 or not turn):
            for count in order:
                self._run(turn, count)
            order, turn = [count for count in order[::-1] if count not in self.failed], turn + 1
            now = time.monotonic()
            self.each = (now - first) / turn
            if turn == 1 and not self._request.output.quiet:
                took, most = map(units.time_of, (self.each, budget))
                tell(self._program, f"note: a turn takes {took}, and --budget is {most}")
            if now + self.each > began + budget:
                return

    def steps(self) -> list[ScaleStep]:
        """Return each number of names with its time and speed-up."""
        found, one = [], {run.turn: run.elapsed for run in self._taken[1]}
        for count, runs in self._taken.items():
            bound, ending = self._bindings[:count], self.failed.get(count)
            own = {run.turn: run.elapsed for run in runs}
            found.append(
                ScaleStep(
                    tuple(binding.name for binding in bound),
                    units_of(bound),
                    tuple(runs),
                    None if ending is None else _code(ending),
                    located([*own.values()], "s", _CONFIDENCE) if own else None,
                    self._speedup(count, one, own),
                    self._uses.get(count, ()),
                )
            )
        return found

    def _speedup(self, count: int, one: dict[int, float], own: dict[int, float]) -> Estimate | None:
        """Return the speed-up against one name; if the work grows, of so many times the work."""
        done = count if self._request.weak else 1
        work = {turn: seconds * done for turn, seconds in one.items()}
        return ratio(work, own, _CONFIDENCE) if count > 1 else None

    def _run(self, turn: int, count: int) -> None:
        """Run the program once; turn -1 does not count."""
        if self.stopped or count in self.failed:
            return
        started = self._jobs(count)
        watch = Watch(self._bindings[:count], _LOOK)
        shown = [_NOWHERE] * len(started)
        ending = Launching(self._program, started).run(GRACE, self._request.timeout, shown, watch)
        self.stopped = ending.why == "interrupted"
        if ending.why == "done" and turn >= 0:
            self._taken[count].append(watch.timed(turn))
            self._uses[count] = watch.uses()
        elif ending.why not in ("done", "interrupted"):
            self.failed[count] = ending

    def _jobs(self, count: int) -> list[Job]:
        """Return the program as one process with all of so many names, or as `run` starts it."""
        chosen, program, backend = self._places[:count], self._program, self._request.where.backend
        if self._request.ranks:
            return jobs(program, self._path, plan(program, chosen, backend))
        place = joined(chosen)
        given = kept([place.device for place in chosen], without_ranks(program.env))
        env = given | environment(chosen, "scale", program.env, backend)
        env.pop("GPUMAP_NAME", None)  # of one name, which others would not have
        env["GPUMAP_COUNT"] = str(count)
        return [Job(place.name, self._path, program.command, env, place)]


def _code(ending: Ending) -> int:
    return (ending.process.code if ending.process else None) or ending.code


def _offer(program: Program, ending: Ending) -> str | None:
    """Return the line that starts a program as ranks, if it has missed their variables."""
    said = b"\n".join(ending.process.last) if ending.process else b""
    if not any(name.encode() in said for name in _OF_RANKS):
        return None
    command, *words = program.argv
    return f"it is a program of ranks: {shlex.join(('gpumap', command, '--ranks', *words))}"


def _failure(count: int, ending: Ending, offer: str | None) -> Diagnostic:
    end = "took longer than --timeout" if ending.why == "timeout" else ended(_code(ending))
    last = ending.process.last[-1:] if ending.process else []
    hint = f"it printed last: {last[0].decode(errors='backslashreplace')}" if last else None
    message = f"on {units.counted(count, 'name')} the program {end}"
    return Diagnostic("program", message, hint=offer or hint)


def _judged(report: Report, *, request: ScaleRequest, turn: float) -> Report:
    """Return the report with what is uncertain, or less than was expected."""
    found = report.result.scaling if isinstance(report.result, Scaled) else None
    if found is None or found.cause is None or (gain := found.steps[-1].speedup) is None:
        return report
    verdicts, text = [], sentence(found).rstrip(".")
    answer = "inconclusive" if found.cause in INCONCLUSIVE else "pass"
    few, known = math.ceil(1.2 * (FEWEST + 1) * turn), gain.has_interval
    if request.expect is not None:
        least, answer = f"speedup>={request.expect:g}", reaches(found, request.expect, gain)
        low, high = (gain.low, gain.high) if known else (None, None)
        figure = gain.value, low, high, request.expect
        verdict = Verdict("limit", least, None, "speedup", answer, *figure)
        verdicts, text = [verdict], f"limit {least}: {interval(gain) if known else text}"
    hint = _LONGER if known else "raise --budget"
    hint = _IDLE if found.cause == "cpu-contention" else hint
    hint += "" if known else f": six turns take about {few}s"
    wrong = {
        "inconclusive": Problem(Diagnostic("inconclusive", text, hint=hint), Exit.INCONCLUSIVE),
        "fail": Problem(Diagnostic("limit", text, hint=_ASK_LESS), Exit.NO),
    }
    problems = [wrong[answer]] if answer in wrong else []
    return concluded(report, verdicts, problems, request.inconclusive)
