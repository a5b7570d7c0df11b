"""What `preflight` and `exec` prove of a device: verdicts of a report, and of what commands saw."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.judge import SKIPPED, Verdict, found_by, grouped, verdict
from benchmarks.gpu.seen import VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.children import Done
    from benchmarks.gpu.judge import Report

_START = 2.0  # seconds that Python takes beside a command's own time
_USED = ("open", "upload", "download", "product")  # what must have been tried on each device
# Work on the devices; what else is checked are counters, which a user may not be able to read.
_TIMED = ("siblings", "upload-rate", "download-rate", "memory-rate", "all-at-once")
_WORK = (*_USED, *_TIMED, "pair", "allreduce", "soak")
_SOUND = (0, 5)  # exit codes: 5 where a counter cannot be read


def screened(done: Done, report: Report, within: float) -> Verdict:
    """`preflight` kept its time, used each device, and found all right; counters may be unknown."""
    simulated = report.get("simulated")  # its times are those of cores, and no device's
    found = found_by(report, "checks")
    checks = [c for c in found if not (simulated and c["what"] in _TIMED)]
    names = [entry["name"] for entry in (report.get("map") or {}).get("entries") or ()]
    fit = {(check["what"], check["name"]) for check in checks if check["fitness"] == "fit"}
    used = [(what, name) for name in names for what in _USED]
    problems = [f"{name}: {what} was not checked" for what, name in used if (what, name) not in fit]
    unknown = [c for c in checks if c["fitness"] == "cannot-tell" and c["what"] not in _WORK]
    bad = [c for c in checks if c["fitness"] != "fit" and c not in unknown]
    problems += [f"{c['name'] or 'node'}: {c['what']}: {c['fitness']}: {c['text']}" for c in bad]
    problems += [] if names else ["no name was checked"]
    if done.exit_code not in _SOUND and not simulated:
        problems.append(f"it ended with {done.exit_code}")
    if done.elapsed > within + _START:
        problems.append(f"it took {done.elapsed:.0f} s, and promised {within:g}")
    said = [f"{len(fit)} items fit, in {done.elapsed:.0f} s"]
    told = ((f"cannot tell {c['what']}: {c['text']}", c["name"] or "node") for c in unknown)
    said += grouped(told)
    return verdict(problems, "; ".join(said))


def alone(wanted: Mapping[str, str], done: Done, *_: Any) -> Verdict:
    """Each command that `exec` became saw one GPU, its name's, and the variable names that."""
    if any(uuid.startswith("MIG-") for uuid in wanted.values()):
        return Verdict(SKIPPED, ("CUDA's runtime names the card, and not its MIG instance",))
    seen, problems = {}, list[str]()
    for text in done.out.splitlines():
        if text.startswith("{"):
            line = json.loads(text)
            seen[line["GPUMAP_NAME"]] = line
    for name, uuid in wanted.items():
        problems += _not_alone(name, uuid, seen.get(name))
    if done.exit_code or not wanted:
        last = (done.err.strip().splitlines() or ["it said nothing"])[-1]
        problems.append(f"it ended with {done.exit_code}: {last}")
    shown = ", ".join(f"{name} is {uuid}" for name, uuid in wanted.items())
    return verdict(problems, f"each command saw its own GPU alone: {shown}")


def _not_alone(name: str, uuid: str, line: Mapping[str, Any] | None) -> Iterator[str]:
    if line is None:
        yield f"{name}: its command said nothing"
        return
    if line["CUDA_VISIBLE_DEVICES"] != uuid:
        yield f"{name}: CUDA_VISIBLE_DEVICES is {line['CUDA_VISIBLE_DEVICES']}, not {uuid}"
    for library in set(line) - set(VARIABLES):
        gpus, why = line[library]["gpus"], line[library]["why"]
        found = ", ".join(f"{gpu['uuid']}" for gpu in gpus) or f"none: {why}"
        if [gpu["uuid"] for gpu in gpus] != [uuid]:
            yield f"{name}: {library} saw {found}; its device is {uuid}"
