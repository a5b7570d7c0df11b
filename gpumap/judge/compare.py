"""What changed between two reports, row by row? Each figure by its interval, against a threshold.

- A *time* (or spacing) is judged through its anchor: the fixed product on the same device that
  stands in every block beside it (bench/anchor.py). Two runs can be compared by the ratio of both,
  block by block; of a case on several devices the first one's anchor counts. Where either run has
  none, the raw times are compared, and that is said.
- If the raw times alone would be a regression or an improvement, and the anchored ones are the same
  or the opposite, the machine has changed: inconclusive.
- A *speed-up* is a ratio inside its blocks already, the reference's time over the case's.

All intervals hold together: each is of level 1 - 0.05 / number of judged figures (Bonferroni).
Besides, none of these can be told: a check that failed or was another one, another reference, a
ratio that was refused as impossible, a small change where samples are one round here and several
there; and the same or an improvement of a row that is `unstable`, through its anchor too. A row
that only base has is missing, one that only new has is new.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from gpumap import units
from gpumap.escape import printable
from gpumap.judge.joined import SPEEDUP, joined, left_out
from gpumap.judge.verdict import effective, share, word
from gpumap.model import Report, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpumap.judge.joined import Alone, Pair
    from gpumap.judge.verdict import Change, Word

RULE = "base"
SUSPICIOUS = ("regression", "inconclusive")  # what another measurement may clear up
JUDGED = ("regression", "improvement", "same", "inconclusive")  # both runs have the figure
_ALPHA = 0.05  # the probability that any one of all intervals misses its truth
_MADE = math.log(1.5)  # more than this no way of sampling makes of a figure
_MOST = 709.0  # e to a higher power is no float


@dataclass(frozen=True, slots=True)
class Terms:
    """How a report is held against a base: the change that counts, and what is let pass."""

    threshold: float = 0.05
    confirm: bool = False  # measure what is suspicious once more
    allow_missing: bool = False
    other_machine: bool = False  # show what differs, and judge nothing


@dataclass(frozen=True, slots=True)
class Against:
    """A base, where it is from, and how a report is held against it."""

    path: str
    base: Report
    terms: Terms = Terms()

    @property
    def settings(self) -> dict[str, Any]:
        """Return what stands in the settings of the report that is judged."""
        return {"base": self.path, **asdict(self.terms)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdicts on every figure of two reports, and what is to be said of all of them."""

    verdicts: tuple[Verdict, ...]
    remarks: tuple[str, ...]


def compare(base: Report, new: Report, threshold: float, floors: Mapping[str, float]) -> Comparison:
    """Return what changed from base to new.

    Args:
        base: the report that is judged against.
        new: the report that is judged.
        threshold: the change that counts, as a share.
        floors: the noise floor of each device, where one is known: the threshold is never below.
    """
    pairs, alone = joined(base, new)
    judge = _Judge(1.0 - _ALPHA / max(len(pairs), 1), threshold, floors)
    verdicts = (*map(judge.verdict, pairs), *map(_lonely, alone))
    return Comparison(verdicts, (*judge.remarks(pairs), *_unread(left_out(new))))


def confirmed(first: Sequence[Verdict], fresh: Sequence[Verdict] | None) -> tuple[Verdict, ...]:
    """Return the verdicts, the suspicious ones by fresh data alone; their first figures are told.

    What the fresh data do not tell (None: there are none) stays as it is, not confirmed.
    """
    again = {(v.id, v.metric): v for v in fresh or ()}
    return tuple(
        _again(v, again.get((v.id, v.metric))) if v.verdict in SUSPICIOUS else v for v in first
    )


def unjudged(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return what was found, without a verdict: between two machines there is none."""
    return tuple(map(_unjudged, verdicts))


def figure(verdict: Verdict) -> str:
    """Return new over base with its interval: ``1.12 [1.10, 1.15]``; or that it is not known."""
    found = (verdict.value, verdict.low, verdict.high)
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return "not known"
    value, low, high = units.together(known, "1")
    return f"{value} [{low}, {high}]"


def told(verdict: Verdict) -> str:
    """Return what a verdict's text tells beyond what was asked: why, and what came first."""
    return verdict.text.removeprefix(
        _asked(verdict.id or "", verdict.metric, verdict.threshold or 0.0)
    )


def _asked(id_: str, metric: str, threshold: float) -> str:
    return f"{printable(id_)}.{metric} is within {share(threshold)} of base"


@dataclass(frozen=True, slots=True)
class _Judge:
    """How every figure is judged."""

    confidence: float
    threshold: float
    floors: Mapping[str, float]

    def verdict(self, pair: Pair) -> Verdict:
        """Return the verdict on a figure, with new over base and why nothing can be said."""
        threshold, _ = self._effective(pair)
        found = pair.change(self.confidence, anchored=pair.anchored)
        answer, why = self._answer(pair, found, threshold)
        said = _asked(pair.id, pair.metric, threshold)
        value, low, high = _ratios(found)
        return Verdict(
            RULE,
            said if why is None else f"{said}: {why}",
            pair.id,
            pair.metric,
            answer,
            value,
            low,
            high,
            base=pair.base.row.metrics[pair.metric].value,
            threshold=threshold,
        )

    def remarks(self, pairs: Sequence[Pair]) -> Iterator[str]:
        """Yield what holds for several figures, each thing once."""
        yield from dict.fromkeys(said for p in pairs if (said := self._effective(p)[1]))
        raw = {pair.id for pair in pairs if pair.metric != SPEEDUP and not pair.anchored}
        if raw:
            yield f"{_counted(len(raw))} no anchor in both reports: raw times are compared"

    def _effective(self, pair: Pair) -> tuple[float, str | None]:
        known = [self.floors[device] for device in pair.devices if device in self.floors]
        return effective(self.threshold, max(known, default=None))

    def _answer(
        self, pair: Pair, found: Change | None, threshold: float
    ) -> tuple[Word, str | None]:
        """Return the word, and why it is inconclusive if more than its interval says so."""
        if found is None:
            return "inconclusive", _too_few(pair, self.confidence)
        answer = _word(found, pair.metric, threshold)
        sampled = pair.sampled_otherwise() if abs(found.value) < _MADE else None
        moved = self._moved(pair, answer, threshold)
        why = _unlike(pair) or sampled or moved or _shaky(pair, answer)
        return (answer, None) if why is None else ("inconclusive", why)

    def _moved(self, pair: Pair, answer: Word, threshold: float) -> str | None:
        """Return that the machine changed: raw times tell of a change that anchored ones do not."""
        raw = pair.change(self.confidence, anchored=False) if pair.anchored else None
        alone = _word(raw, pair.metric, threshold) if raw else "inconclusive"
        if alone not in ("regression", "improvement") or answer in (alone, "inconclusive"):
            return None
        value = units.together((_ratios(raw)[0] or math.nan,), "1")[0]
        return f"the machine changed: not through its anchor it is {value} of base, {alone}"


def _word(found: Change, metric: str, threshold: float) -> Word:
    """Return the word for a change; of a speed-up less is worse."""
    cost = -found if metric == SPEEDUP else found
    return word(cost.low, cost.high, threshold)


def _unlike(pair: Pair) -> str | None:
    """Return why two figures are not of the same thing."""
    base, new = pair.base.row, pair.new.row
    checks = [row.check for row in (base, new)]
    if any(check is None or not check.passed for check in checks):
        return "it is not verified in both reports"
    if len({check.method for check in checks if check is not None}) > 1:
        return "it was verified in another way"
    if pair.metric == SPEEDUP and base.case.against != new.case.against:
        return "it is held against another reference"
    if any(row.metrics[pair.metric].impossible for row in (base, new)):
        return "it is above its ceiling in one of them"
    return None


def _shaky(pair: Pair, answer: Word) -> str | None:
    """Return where samples cannot be trusted to tell one figure; an alarm stands all the same."""
    sides = {"base": pair.base, "new": pair.new}
    if answer not in ("same", "improvement"):
        return None
    metric, anchored = pair.metric, pair.anchored
    shaky = [n for n, side in sides.items() if side.unstable(metric, anchored=anchored)]
    return f"unstable in {' and '.join(shaky)}" if shaky else None


def _too_few(pair: Pair, confidence: float) -> str:
    base, new = pair.blocks()
    noun = "block" if base == 1 else "blocks"
    return (
        f"{base} {noun} of base and {new} of new are worth too few independent ones for an "
        f"interval of {share(confidence)}"
    )


def _lonely(alone: Alone) -> Verdict:
    """Return the verdict on a figure that one report does not have."""
    other, where = alone.other, "new" if alone.lost else "base"
    if other is None:
        why = "there is no such row"
    elif (reason := other.row.reason) is not None:
        why = f"its row is {other.row.status}: {printable(reason.text)}"
    elif alone.metric in other.metrics:
        why = "it was measured for the model alone"
    else:
        why = "its row has no such figure"
    text = f"{printable(alone.id)}.{alone.metric} is not in {where}: {why}"
    return Verdict(RULE, text, alone.id, alone.metric, "missing" if alone.lost else "new")


def _unread(rows: int) -> Iterator[str]:
    if rows:
        yield f"{_counted(rows)} been measured for the model alone, and not judged"


def _counted(rows: int) -> str:
    return "1 row has" if rows == 1 else f"{rows} rows have"


def _unjudged(verdict: Verdict) -> Verdict:
    text = verdict.text
    if verdict.verdict in JUDGED:
        text = f"{printable(verdict.id or '')}.{verdict.metric}, new over base: not judged"
    return replace(verdict, text=text, verdict="skipped", threshold=None)


def _again(first: Verdict, fresh: Verdict | None) -> Verdict:
    """Return a verdict by fresh data, which tells of the first."""
    if fresh is None or fresh.verdict not in JUDGED:
        text = f"{first.text}; it could not be measured once more"
        return replace(first, text=text, confirmed=False)
    text = f"{fresh.text}; measured once more, at first it was {figure(first)}, {first.verdict}"
    return replace(fresh, text=text, confirmed=fresh.verdict == first.verdict)


def _ratios(found: Change | None) -> tuple[float | None, float | None, float | None]:
    """Return new over base with its interval."""
    if found is None:
        return None, None, None
    value, low, high = (math.exp(min(x, _MOST)) for x in (found.value, found.low, found.high))
    return value, low, high
