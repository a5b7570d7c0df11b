"""Compare two reports: the rows that became slower, and whether the work or the device did.

Each time (or issue interval) is judged as it is, and relative to the control product of the same
block. Each speed-up is judged as it is: it is a ratio inside its blocks already.

- slower relative to the control: the work became slower (reason `work-slower`).
- slower as it is, and its control with it: the device became slower (reason `device-slower`), by
  more than twice the threshold where the work surely did not: machines drift between two runs.
- a pass is a time that passes as it is, and is no alarm relative to its control; or one that passes
  relative to its control while the machine's own speed varies too much to tell (`device-unclear`).
- an alarm of short iterations whose cores others used is none unless their CPU time grew as well
  (`cpu-contention`): how long a thread waits for a core depends on how long it works at a stretch.
- shown: not of the metrics that are judged (`gpumap.judge.claims`), and no alarm, or one by less
  than three times the threshold. An alarm is corrected for all metrics.

Levels and sources: `gpumap.judge.pairs`. Nothing is concluded on a metric whose check failed, or
differs between the reports, or which is measured against another reference, or is an impossible
ratio in one of them. A row that only base has is missing, one that only new has is new.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.engine.stopping import EARLY, LAST
from gpumap.judge.claims import judged_metrics
from gpumap.judge.inconclusive import out_of_time
from gpumap.judge.pairs import SPEEDUP, alarms, comparable, joined, passing, share
from gpumap.judge.phrases import texts
from gpumap.model import Report, Verdict, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpumap.judge.pairs import Change, Changing, Outcome, Pair, Unpaired
    from gpumap.model import Measurement, VerdictReason, VerdictWord

    Answer = tuple[VerdictWord, VerdictReason | None]  # a verdict, and why it is no plain pass

RULE = "base"
DRIFT = 2.0  # thresholds by which a device may be slower whose work surely is not
SHOWN = 3.0  # thresholds: a metric that is not judged is an alarm if it is surely slower by so many
JUDGED = ("regression", "improvement", "pass", "inconclusive")  # both runs have the metric


@dataclass(frozen=True, slots=True)
class Terms:
    """Options of a comparison: the change that counts, and what may pass."""

    threshold: float = 0.05
    allow_missing: bool = False
    judge: tuple[str, ...] = ()  # patterns of the metrics that are judged; none: the headline's


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline report, its path, and the options of the comparison."""

    path: str
    base: Report
    terms: Terms = Terms()

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings for the report that is judged."""
        return {"base": self.path, **asdict(self.terms)}


def compare(
    base: Report, new: Report, threshold: float, *, judge: Sequence[str] = ()
) -> tuple[Verdict, ...]:
    """Return the verdicts on every metric of two reports.

    Args:
        base: the report that is judged against.
        new: the report that is judged.
        threshold: the change that counts, as a share.
        judge: patterns of the metrics that are judged; none: what the headline claims.
    """
    pairs, rest = joined(base, new)
    metrics = _judged(base, new, judge)
    of_all = _Judge([pair for pair in pairs if _unlike(pair) is None], threshold, LAST)
    verdicts = [_shown(of_all.verdict(pair), metrics) for pair in pairs]
    of_rows = {id_ for id_, _ in metrics}  # a row that a side lacks has one verdict for all
    verdicts += [
        each if each.id in of_rows else _shown(each, metrics)
        for each in map(_unpaired_verdict, rest)
    ]
    return tuple(verdicts)


def _judged(base: Report, new: Report, patterns: Sequence[str]) -> set[tuple[str, str]]:
    """Return the ids and metrics that are judged: what either report claims."""
    sides = (base, new)
    return {key for side in sides for key in judged_metrics(side, comparable(side), patterns)}


def _shown(verdict: Verdict, metrics: set[tuple[str, str]]) -> Verdict:
    """Return a verdict that is only shown, if its metric is not judged and it is no alarm."""
    if (verdict.id, verdict.metric) in metrics or verdict.verdict not in JUDGED:
        return verdict
    if verdict.verdict == "regression" and _is_gross(verdict):
        return verdict
    return replace(verdict, verdict="shown", reason=None)


def _is_gross(verdict: Verdict) -> bool:
    """Return whether a metric that is not judged is an alarm: it is surely much slower."""
    least = 1.0 + SHOWN * (verdict.threshold or 0.0)
    if verdict.reason == "work-slower":
        return verdict.relative is not None and verdict.relative.low > least
    if verdict.metric == SPEEDUP:
        return verdict.high is not None and verdict.high * least < 1.0
    return verdict.low is not None and verdict.low > least


def early(
    base: Report, rows: Sequence[Measurement], terms: Terms, cases: Sequence[str] = ()
) -> list[VerdictWord]:
    """Return the verdicts on the judged metrics of some rows, at the level of an early look.

    Alarms are corrected for every metric of the baseline: other rows are judged elsewhere.

    Args:
        base: the baseline.
        rows: measured so far.
        terms: of the comparison.
        cases: that the run was asked for by name, which are judged too.
    """
    new = replace(base, measurements=tuple(rows), settings={**base.settings, "cases": cases})
    pairs, _ = joined(base, new)
    every, _ = joined(base, base)
    alike = [pair for pair in pairs if _unlike(pair) is None]
    metrics = _judged(base, new if cases else base, terms.judge)
    of_all = _Judge(alike, terms.threshold, EARLY, _claims(every) - _claims(alike))
    return [of_all.verdict(pair).verdict for pair in pairs if (pair.id, pair.metric) in metrics]


def _claims(pairs: Iterable[Pair]) -> int:
    """Return how many changes are judged: a metric with a control product has two."""
    return sum(2 if pair.controlled else 1 for pair in pairs)


def why(verdict: Verdict) -> str | None:
    """Return the text of a verdict's reason."""
    return texts("reasons").get(verdict.reason or "")


def agreed(comparisons: Sequence[Sequence[Verdict]]) -> tuple[Verdict, ...]:
    """Return what all comparisons of several runs of the same two things say.

    A run has a level of its own, which its interval does not know: addresses, pages, neighbours. So
    nothing is slower unless each run of one side shows it against each run of the other.
    """
    found: dict[tuple[str | None, str | None], list[Verdict]] = {}
    for verdicts in comparisons:
        for verdict in verdicts:
            found.setdefault((verdict.id, verdict.metric), []).append(verdict)
    return tuple(_agreed(every, len(comparisons)) for every in found.values())


def _agreed(every: Sequence[Verdict], count: int) -> Verdict:
    """Return one verdict on a metric: of a change the least that was seen, else the most."""
    words = {verdict.verdict for verdict in every}
    pick = min if words in ({"regression"}, {"improvement"}) else max
    verdict = pick(every, key=lambda each: abs(math.log(each.value)) if each.value else 0.0)
    if len(words) == 1 and len(every) == count:
        return verdict
    if "shown" in words:
        return replace(verdict, verdict="shown", reason=None)
    if words <= {"improvement", "pass"} and len(every) == count:
        return replace(verdict, verdict="pass", reason=None)
    return replace(verdict, verdict="inconclusive", reason="runs-differ")


class _Judge:
    """Judges every pair, with alarms over all of them."""

    def __init__(
        self, pairs: Sequence[Pair], threshold: float, level: float, others: int = 0
    ) -> None:
        self._threshold, self._level = threshold, level
        claims = [(pair, False) for pair in pairs] + [(p, True) for p in pairs if p.controlled]
        changes: list[Changing] = [partial(pair.change, relative=rel) for pair, rel in claims]
        self._strictest = level / max(len(claims) + others, 1)  # Holm's first step
        indices = alarms(changes, threshold, level, others)
        self._alarmed = {(claims[n][0].id, claims[n][0].metric, claims[n][1]) for n in indices}

    def verdict(self, pair: Pair) -> Verdict:
        """Return the verdict on a metric, with new over base and the reason for it."""
        raw = pair.change(self._level)
        relative = pair.change(self._level, relative=True)
        word, reason = self._answer(pair, raw, passing(relative, self._threshold))
        decisive = {"impossible": None, "cpu-times": relative}.get(reason or "", raw)
        return Verdict(
            RULE,
            f"{pair.id}.{pair.metric} is within {share(self._threshold)} of base",
            pair.id,
            pair.metric,
            word,
            *_ratios(decisive, pair.metric),
            base=pair.base.row.metrics[pair.metric].value,
            threshold=self._threshold,
            reason=reason,
            relative=relative.ratio if relative and pair.controlled else None,
        )

    def _answer(self, pair: Pair, raw: Change | None, by_control: Outcome) -> Answer:
        """Return the verdict on a metric, by what it is relative to its control too."""
        if (unlike := _unlike(pair)) is not None:
            return "inconclusive", unlike
        alarm = self._alarm(pair, raw, by_control)
        if alarm is not None and pair.contended and not self._takes_more_cpu(pair):
            return "inconclusive", "cpu-contention"
        if alarm is not None:
            return alarm
        if raw is None:
            return "inconclusive", "few-samples"
        return self._passed(pair, raw, by_control)

    def _alarm(self, pair: Pair, raw: Change | None, by_control: Outcome) -> Answer | None:
        """Return that a metric became slower, and why; None where it is no alarm."""
        if (pair.id, pair.metric, True) in self._alarmed:
            return "regression", "work-slower"
        alarmed = (pair.id, pair.metric, False) in self._alarmed
        if raw is None or not alarmed or self._drifted(pair, raw, by_control):
            return None
        return "regression", "device-slower" if pair.controlled else None

    def _takes_more_cpu(self, pair: Pair) -> bool:
        """Return whether it surely takes more CPU time, in which nothing is that others took."""
        change = pair.change_of_cpu(self._level)
        return change is not None and change.low > math.log(1.0 + self._threshold)

    def _drifted(self, pair: Pair, raw: Change, by_control: Outcome) -> bool:
        """Return whether the device alone is slower, by no more than one drifts between runs."""
        return pair.controlled and self._near(pair, raw) and by_control != "inconclusive"

    def _near(self, pair: Pair, raw: Change) -> bool:
        """Return whether a metric looks as fast as it must be; with a control it may drift."""
        most = DRIFT if pair.controlled else 1.0
        return raw.value < math.log(1.0 + most * self._threshold)

    def _passed(self, pair: Pair, raw: Change, by_control: Outcome) -> Answer:
        """Return the word for a metric that is no alarm, and why it is no pass, or a close one."""
        word, limit = passing(raw, self._threshold), math.log(1.0 + self._threshold)
        if word != "inconclusive":
            return word, None
        shared = pair.controlled and pair.disturbed
        if (shared or self._near(pair, raw)) and by_control != "inconclusive":
            return "pass", "cpu-times" if pair.metric == SPEEDUP else "device-unclear"
        short = raw.low > limit and pair.change(self._strictest) is None  # among so many metrics
        return word, "few-samples" if short else "wide-interval"


def _unlike(pair: Pair) -> VerdictReason | None:
    """Return why two metrics are not comparable."""
    base, new = pair.base.row, pair.new.row
    checks = [row.check for row in (base, new)]
    if any(check is None or not check.passed for check in checks):
        return "unverified"
    if len({check.method for check in checks if check is not None}) > 1:
        return "other-check"
    if pair.metric == SPEEDUP and base.case.against != new.case.against:
        return "other-reference"
    if any(row.metrics[pair.metric].impossible for row in (base, new)):
        return "impossible"
    return None


def _unpaired_verdict(single: Unpaired) -> Verdict:
    """Return the verdict on a metric that one report does not have."""
    other = single.other
    if other is None:
        why = "no such row was requested"
    elif (reason := other.row.reason) is not None:
        why = f"its row is {other.row.status}: {reason.text}"
    else:
        why = "its row has no such figure"
    text = f"{single.id}.{single.metric} is not in {single.side}: {why}"
    if other is not None and out_of_time(other.row):
        return Verdict(RULE, text, single.id, single.metric, "inconclusive", reason="few-samples")
    word: VerdictWord = "missing" if single.side == "new" else "new"
    return Verdict(RULE, text, single.id, single.metric, word)


def _ratios(shift: Change | None, metric: str) -> tuple[float | None, float | None, float | None]:
    """Return new over base with its interval; of a speed-up, more is better."""
    if shift is None:
        return None, None, None
    ratio = (-shift if metric == SPEEDUP else shift).ratio
    return ratio.value, ratio.low, ratio.high
