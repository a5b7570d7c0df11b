"""What a report means: pure functions, from a report and those before it to a verdict.

A verdict fails closed: no report, no row, a row without a verified figure is never a pass.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.children import Done

    Row = Mapping[str, Any]
    Figure = Mapping[str, Any]
    Report = Mapping[str, Any]

PASSED, FAILED, SKIPPED, NOT_RUN, MOVED = "passed", "failed", "skipped", "not run", "moved"
GOOD = (PASSED, SKIPPED, MOVED)
COMPARED = ("time", "issue_interval", "speedup")  # of these every other figure is made
# what a device cannot do, what one name cannot show, and what a twin of a device would repeat
_MAY_SKIP = ("unsupported", "one-device")
_KEPT = ("id", "bench", "case", "params", "names", "devices", "backend", "status", "reason",
         "flags", "work", "iterations_per_sample", "clock", "samples", "check",
         "metrics")  # fmt: skip
_NEAR = 0.03  # clocks, heat and power move medians so far between two runs of a GPU
_UNSTABLE = 0.1  # of the rows of copies: more is too many
_NAMED = 2  # of many rows with one reason; the record's JSON has them all
_LARGE = 64 * 2**20  # bytes from which on a copy costs more than its call


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word, why, and what was found: rows, a comparison, the tests."""

    word: str
    why: tuple[str, ...]
    found: Mapping[str, Any] = field(default_factory=dict)


def same_card(report: Report, hardware: frozenset[str]) -> Verdict:
    """A second backend opens the device: the first one's card, unless that is simulated."""
    first = accepted(report)
    others = [d for d in report.get("devices", ()) if not hardware & set(d["hardware"])]
    if first.word != PASSED or report.get("simulated") or not others:
        return first
    is_, not_ = (", ".join(sorted(each)) for each in (others[0]["hardware"], hardware))
    return Verdict(FAILED, (f"{others[0]['ref']} is another card: {is_}, not {not_}",))


def verdict(problems: Sequence[str], good: str, **found: Any) -> Verdict:
    """Return a pass that says what is good, or a failure that says what is not."""
    return Verdict(FAILED if problems else PASSED, tuple(problems) or (good,), found)


def accepted(report: Report) -> Verdict:
    """`check` says yes: every name of the map is a device, opened and proven."""
    entries = (report.get("map") or {}).get("entries") or []
    there = {each["name"]: each["device"] for each in report.get("bindings") or ()}
    problems = [*_ended(report, 0), *([] if entries else ["no name was mapped"])]
    problems += [f"{e['name']} is no device" for e in entries if e["name"] not in there]
    mapped = ", ".join(f"{name} is {device}" for name, device in there.items())
    return verdict(problems, f"every name maps to a device that works: {mapped}")


def raced(done: Done) -> Verdict:
    """Every side of every contest was right, and no target was missed: a line of JSON for each."""
    lines, problems = [], []
    for text in done.out.splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            problems.append(f"a line was cut off: {text[:40]}")
    targets = list[str]()
    for line in lines:
        problems += [f"{line['what']}: {side}: {said}" for side, said in line["errors"].items()]
        if "gpumap" not in line["times"]:
            problems.append(f"{line['what']}: gpumap was not timed")
        if not line["simulated"]:  # a simulated device has no speed
            for said, met in _targets(line):
                (targets if met else problems).append(said)
    if not lines or done.exit_code:
        last = (done.err.strip().splitlines() or ["it said nothing"])[-1]
        problems.append(f"it ended with {done.exit_code} and {len(lines)} contests: {last}")
    lacks = dict.fromkeys(f"no {side}: {why}" for line in lines
                          for side, why in line["lacks"].items())  # fmt: skip
    good = "; ".join((f"{len(lines)} contests, every side right", *targets, *lacks))
    return verdict(problems, good, contests=lines, simulated=any(x["simulated"] for x in lines))


def _targets(line: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield each target with what was reached, to the two digits that it has, and whether it is."""
    for peer, least in line["least"].items():
        if (ratio := line["ratios"].get(peer)) is not None:
            reached = round(ratio["value"], 2)
            said = f"{line['what']}: {reached:.2f} of {peer}'s rate, target at least {least:.2f}"
            yield said, reached >= least


def raced_again(done: Done, before: Sequence[Mapping[str, Any]]) -> Verdict:
    """The second run's contests are right; whose time went further than a tolerance has moved."""
    second = raced(done)
    if second.word != PASSED:
        return second
    first = {line["what"]: line["times"]["gpumap"] for line in before if "gpumap" in line["times"]}
    pairs = [_pair(line["what"], "time", first[line["what"]], line["times"]["gpumap"])
             for line in second.found["contests"] if line["what"] in first]  # fmt: skip
    problems = [] if pairs else ["there is nothing to compare"]
    return _moved(pairs, problems, dict(second.found), simulated=second.found["simulated"])


def diagnosed(report: Report) -> Verdict:
    """`doctor` looked at every name, and none is refused, absent or wrong.

    A simulated device has no speed: there a cause of time (GM401 on) is no failure.
    """
    told = found_by(report, "diagnoses")
    codes = [finding["code"] for one in told for finding in one["findings"]]
    slow = bool(codes) and all(code.startswith("GM4") for code in codes)
    problems = [] if report.get("simulated") and slow else _ended(report, 0)
    return verdict(problems, "every name is used")


def noted(report: Report, code: str) -> Verdict:
    """`check` says yes, with a note of this code."""
    notes = report.get("notes") or ()
    said = [note["message"] for note in notes if note["code"] == code]
    problems = [*_ended(report, 0), *([] if said else [f"there is no note {code}"])]
    return verdict(problems, "; ".join(said))


def refused(report: Report, code: str) -> Verdict:
    """`check` says no, with an error of this code."""
    said = [error["message"] for error in _errors(report) if error["code"] == code]
    problems = [*_ended(report, 1), *([] if said else [f"there is no error {code}"])]
    return verdict(problems, "; ".join(said))


def measured(report: Report) -> Verdict:
    """Every row is measured and verified, or the device says that it cannot.

    A simulated device is slow: there a row may be left out for time.
    """
    if reason := _unsupported(report):
        return Verdict(SKIPPED, (reason,))
    rows = [short(row) for row in found_by(report, "measurements")]
    right = [row for row in rows if row["status"] == "ok"]
    asked = [row for row in rows if not (report.get("simulated") and _code(row) == "budget")]
    problems = [*_ended(report, 0), *grouped(p for row in asked for p in _row_problems(row))]
    if not right:
        problems.append("no row was measured")
    flags = Counter(flag for row in right for flag in row["flags"])
    skips = Counter(row["reason"]["text"] for row in rows if row["status"] == "skipped")
    said = [f"{len(right)} rows measured and verified"]
    said += [f"{count} {flag}" for flag, count in flags.items()]
    said += [f"{count} skipped: {text}" for text, count in skips.items()]
    found = {"rows": rows, "fingerprint": report.get("fingerprint")}
    return verdict(problems, "; ".join(said), **found)


def steady(report: Report) -> Verdict:
    """Every row is measured, and at most one in ten is `unstable`; a script is never judged so."""
    first = measured(report)
    rows = [row for row in first.found.get("rows", ()) if row["status"] == "ok"]
    unstable = sum("unstable" in row["flags"] for row in rows)
    said = f"{unstable} of {len(rows)} rows unstable, target at most 1 in 10"
    many = unstable > _UNSTABLE * len(rows) and not report.get("simulated")
    if first.word == SKIPPED or not many:
        more = (said,) if first.word == PASSED and not report.get("simulated") else ()
        return Verdict(first.word, (*first.why, *more), first.found)
    problems = (said,) if first.word == PASSED else (*first.why, said)
    return Verdict(FAILED, problems, first.found)


def agree(report: Report) -> Verdict:
    """CuPy's and PyTorch's rows are right, on one device, and take the same time."""
    first = measured(report)
    pairs = list(_by_both(first.found.get("rows", ())))
    simulated = bool(report.get("simulated"))
    bad = [p for p in pairs if _went(p) > _NEAR and not simulated]
    problems = list(first.why) if first.word != PASSED else []
    problems += [note["message"] for note in report.get("notes") or ()
                 if note["code"] in ("other-hardware", "left-out")]  # fmt: skip
    problems += [f"{p['id']}: torch takes {_change(p)} time, target within 3 %" for p in bad]
    problems += [] if pairs else ["no product was measured by both"]
    good = f"{len(pairs)} products by both" + ("" if simulated else ", within 3 % of each other")
    more = {"comparison": pairs, "compared": ["cupy", "torch"]}
    return verdict(problems, good, **{**first.found, **more})


def _by_both(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield the times of each product that both libraries have measured."""
    measured = [row for row in rows if row["bench"] == "dot" and row["status"] == "ok"]
    by_id = {row["id"]: row for row in measured if row["backend"] == "torch"}
    for row in (row for row in measured if row["backend"] == "cupy"):
        other = by_id.get(row["id"].replace("backend=cupy", "backend=torch"))
        if other is not None:
            times = (each["metrics"]["time"] for each in (row, other))
            yield _pair(row["id"], "time", *times)


def flagged(report: Report, flag: str) -> Verdict:
    """Every row is right, and each row of several names bears the flag."""
    first = measured(report)
    several = [row for row in first.found.get("rows", ()) if len(row["names"]) > 1]
    rows = [row for row in several if row["status"] == "ok"]
    bare = [row["id"] for row in rows if flag not in row["flags"]]
    problems = few(bare, f"not flagged {flag}")
    left_out = report.get("simulated") and any(_code(row) == "budget" for row in several)
    if not rows and not left_out:
        problems.append("no row of several names was measured")
    if first.word != PASSED:
        problems = [*first.why, *problems]
    return verdict(problems, f"{len(rows)} rows of two names, each flagged {flag}", **first.found)


def repeated(report: Report, before: Sequence[Row]) -> Verdict:
    """The second run measures the rows of the first; a figure that went too far has moved."""
    second = measured(report)
    if second.word == SKIPPED:
        return second
    rows = second.found["rows"]
    pairs = list(compare(before, rows))
    problems = list(second.why) if second.word != PASSED else []
    problems += [] if report.get("simulated") else _not_in_both(before, rows)
    simulated = bool(report.get("simulated"))
    unknown = [f"{p['metric']} of {p['id']}" for p in pairs if p["relation"] == "unknown"]
    problems += [] if simulated else few(unknown, "no interval")
    if not pairs:
        problems.append("there is nothing to compare")
    return _moved(pairs, problems, {"rows": rows}, simulated=simulated)


def _moved(
    pairs: Sequence[Mapping[str, Any]],
    problems: Sequence[str],
    found: dict[str, Any],
    *,
    simulated: bool,
) -> Verdict:
    """Return whether two runs agree: intervals overlap, or the change is within the tolerance.

    A simulated device has no speed that could move.
    """
    found |= {"comparison": list(pairs), "compared": ["first", "second"]}
    apart = [p for p in pairs if p["relation"] != "overlap" and _went(p) > _NEAR]
    apart = [] if simulated else apart
    good = f"{len(pairs) - len(apart)} of {len(pairs)} figures agree with the first run's"
    if problems:
        return Verdict(FAILED, tuple(problems), found)
    said = few([f"{p['metric']} of {p['id']} {_change(p)}" for p in apart], "moved")
    return Verdict(MOVED if apart else PASSED, (good, *said), found)


def _went(pair: Mapping[str, Any]) -> float:
    first, second = pair["first"]["value"], pair["second"]["value"]
    return abs(second / first - 1) if first and second else float("inf")


def compare(before: Iterable[Row], after: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield each figure that both runs have: the two, and whether their intervals overlap."""
    seconds = {row["id"]: row for row in after}
    for row in before:
        for metric in COMPARED:
            first = row["metrics"].get(metric)
            second = seconds.get(row["id"], {"metrics": {}})["metrics"].get(metric)
            if first and second:
                yield _pair(row["id"], metric, first, second)


def relation(first: Figure, second: Figure) -> str:
    """Return whether two intervals overlap, or where the second one lies; unknown without ends."""
    ends = [figure.get(end) for figure in (first, second) for end in ("low", "high")]
    if any(end is None or not isfinite(end) for end in ends):
        return "unknown"
    if second["low"] > first["high"]:
        return "above"
    return "below" if second["high"] < first["low"] else "overlap"


def _left_out(steps: Sequence[Mapping[str, Any]], command: str) -> bool:
    """Return whether no time was left for any step of a command."""
    words = [step["verdict"] for step in steps if command in (step.get("command") or "")]
    return NOT_RUN in words and {*words} <= {NOT_RUN, SKIPPED}


def against_float64(steps: Sequence[Mapping[str, Any]]) -> Verdict:
    """Products of earlier steps were compared with float64, and every one was close enough."""
    if _left_out(steps, "bench dot"):
        return Verdict(NOT_RUN, ("no product was measured",))
    rows = [row for step in steps for row in step.get("rows", ()) if row["bench"] == "dot"]
    checks = [r["check"] for r in rows if (r["check"] or {}).get("method") == "float64 reference"]
    wrong = [row["id"] for row in rows if row["check"] and not row["check"]["passed"]]
    problems = [f"{id_} is wrong" for id_ in wrong]
    if not checks:
        return Verdict(FAILED, (*problems, "no product was compared with float64"))
    worst = max((check["max_error"] for check in checks if check["passed"]), default=0.0)
    error = f"{worst:.2g} of what rounding allows"
    return verdict(problems, f"{len(checks)} rows compared with float64; largest error: {error}")


def pinned(steps: Sequence[Mapping[str, Any]]) -> Verdict:
    """Pinned memory was measured beside pageable memory, and large copies are not slower by it."""
    if _left_out(steps, "transfer-cost"):
        return Verdict(NOT_RUN, ("no copy was measured",))
    rows = [row for step in steps for row in step.get("rows", ()) if row["bench"] == "transfer"]
    by_id = {row["id"]: row for row in rows}
    pairs, reasons = [], set()
    for row in by_id.values():
        other = by_id.get(row["id"].replace("memory=pinned", "memory=pageable"))
        if row["params"].get("memory") != "pinned" or other is None:
            continue
        first, second = (r["metrics"].get("bandwidth") for r in (other, row))
        if first and second:
            id_ = row["id"].replace("memory=pinned,", "")
            pairs.append(
                {**_pair(id_, "bandwidth", first, second), "bytes": row["params"]["bytes"]}
            )
        elif row["status"] == "skipped":
            reasons.add(row["reason"]["text"])
    if not pairs:
        if reasons:
            return Verdict(SKIPPED, tuple(sorted(reasons)))
        return Verdict(FAILED, ("no copy was measured with both kinds of memory",))
    large = [p for p in pairs if p["bytes"] >= _LARGE]
    bad = [p for p in large if p["relation"] == "unknown"]
    bad += [p for p in large if p["relation"] == "below" and _far(p)]
    problems = [f"pinned memory is slower: {p['id']}: {_change(p)}" for p in bad]
    counts = Counter(pair["relation"] for pair in pairs)
    words = {"above": "faster", "overlap": "as fast", "below": "slower", "unknown": "unknown"}
    said = ", ".join(f"{counts[key]} {word}" for key, word in words.items())
    good = f"{len(pairs)} copies with pinned memory beside pageable: {said}"
    return verdict(problems, good, comparison=pairs, compared=["pageable", "pinned"])


def short(row: Row) -> dict[str, Any]:
    """Return what a record keeps of a report's row: its samples, but not when each began."""
    row = _finite(row)
    case, samples = row["case"], row["samples"] or {}
    bound = case["bindings"]
    flat = {
        **row, **samples, **case,
        "case": case["name"],
        "names": [each["name"] for each in bound],
        "devices": [each["device"] for each in bound],
        "backend": "+".join(dict.fromkeys(each["backend"] for each in bound)),
        "samples": samples.get("seconds", []),
    }  # fmt: skip
    return {key: flat.get(key) for key in _KEPT}


def found_by(report: Report, what: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of what a command's result holds."""
    return (report.get("result") or {}).get(what) or ()


def _finite(tree: Any) -> Any:
    """Return a tree with null for a number that JSON cannot hold."""
    if isinstance(tree, dict):
        return None if [*tree] == ["nonfinite"] else {k: _finite(v) for k, v in tree.items()}
    return [*map(_finite, tree)] if isinstance(tree, list) else tree


def _ended(report: Report, code: int) -> list[str]:
    if not report:
        return ["there is no report"]
    if report.get("exit_code") == code:
        return []
    said = "; ".join(error["message"] for error in _errors(report))
    return [f"it ends with {report.get('exit_code')}, not {code}{f': {said}' if said else ''}"]


def _unsupported(report: Report) -> str | None:
    """Return the device's own reason, if all that is wrong is what it cannot do."""
    errors = _errors(report)
    if errors and all(error["code"] == "unsupported" for error in errors):
        return "; ".join(error["message"] for error in errors)
    return None


def _errors(report: Report) -> list[Mapping[str, Any]]:
    return [each["diagnostic"] for each in report.get("errors") or ()]


def _code(row: Row) -> str | None:
    return (row["reason"] or {}).get("code")


def _row_problems(row: Row) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a row, and its id."""
    if row["status"] == "skipped" and (_code(row) in _MAY_SKIP or _optional(row)):
        return
    if row["status"] != "ok":
        yield f"{row['status']}: {(row['reason'] or {}).get('text')}", row["id"]
    elif not (row["check"] or {}).get("passed"):
        yield "not verified", row["id"]
    else:
        time = row["metrics"].get("time") or row["metrics"].get("issue_interval") or {}
        if not isfinite(time.get("value") or nan):
            yield "no time", row["id"]


def grouped(found: Iterable[tuple[str, str]]) -> list[str]:
    """Return each reason once, with how many rows have it."""
    ids = defaultdict[str, list[str]](list)
    for reason, id_ in found:
        ids[reason].append(id_)
    return [said for reason, each in ids.items() for said in few(each, reason)]


def few(found: Sequence[str], what: str) -> list[str]:
    """Return one line for many: how many there are, and the first two."""
    if not found:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [f"{what} ({len(found)}): {', '.join(found[:_NAMED])}{more}"]


def _optional(row: Row) -> bool:
    """Return whether a row of the size sweep was left out for time."""
    sweep = "ladder" in (row["params"].get("pattern"), row["params"].get("beside"))
    return sweep and _code(row) == "budget"


def _not_in_both(before: Sequence[Row], after: Sequence[Row]) -> list[str]:
    runs = [{r["id"] for r in run if r["status"] == "ok"} for run in (before, after)]
    optional = {r["id"] for r in (*before, *after) if _optional(r)}
    return few(sorted((runs[0] ^ runs[1]) - optional), "measured in one run only")


def _pair(id_: str, metric: str, first: Figure, second: Figure) -> dict[str, Any]:
    kind = relation(first, second)
    return {"id": id_, "metric": metric, "first": first, "second": second, "relation": kind}


def _far(pair: Mapping[str, Any]) -> bool:
    return bool(pair["second"]["high"] < pair["first"]["low"] * (1 - _NEAR))


def _change(pair: Mapping[str, Any]) -> str:
    first, second = pair["first"]["value"], pair["second"]["value"]
    return f"{second / first - 1:+.1%}" if first and second else "no figure"
