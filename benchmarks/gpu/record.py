"""The one record of a run, written after every step: a run that is killed leaves what it had.

Its Markdown is one function of its JSON, which shows what is in it and adds nothing.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from benchmarks.contest import cell, figure, table
from gpumap.escape import printable
from gpumap.files import write_atomic
from gpumap.units import memory, same_prefix
from gpumap.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.gpu.software import Found
    from benchmarks.gpu.steps import Step

    Record = Mapping[str, Any]

SCHEMA_VERSION = 1
INCOMPLETE = "incomplete"
_SLUG = 40  # characters of a file's name that tell the device


def begun(
    look: Mapping[str, Any], libraries: Iterable[Found], plan: Iterable[Step], root: Path
) -> dict[str, Any]:
    """Return a record of no steps yet; `look` is the report of `gpumap check` on the map."""
    return {
        "record": "gpumap measured",
        "schema_version": SCHEMA_VERSION,
        "verdict": INCOMPLETE,
        "started": stamp(),
        "ended": None,
        "elapsed_s": None,
        "simulated": look["simulated"],
        "gpumap": {"version": __version__, **_commit(root)},
        "python": platform.python_version(),
        "map": look["source"]["text"],
        "devices": look["devices"],
        "backends": look["backends"],
        "environment": {key: value for key, value in look["environment"].items() if value},
        "fingerprint": None,
        "libraries": [
            {"name": one.need.name, "level": one.need.level, "reason": one.need.reason}
            | {"version": one.version, "why": one.why}
            for one in libraries
        ],
        "planned": [step.key for step in plan],
        "steps": [],
    }


def write(record: Mapping[str, Any], base: Path) -> None:
    """Write the record as JSON, and the Markdown that is made from it, both atomically."""
    write_atomic(base.with_name(f"{base.name}.json"), as_json(record))
    write_atomic(base.with_name(f"{base.name}.md"), markdown(record))


def as_json(record: Mapping[str, Any]) -> str:
    """Return JSON with each array of plain numbers on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    # an array that begins with a line break is no part of a string: there it would be escaped
    return re.sub(r"\[\n[\s\d.,eE+-]*\]", lambda m: " ".join(m[0].split()), text) + "\n"


def base_path(folder: Path, record: Mapping[str, Any]) -> Path:
    """Return a name of date and device that no record has yet, without a suffix."""
    name = f"{record['started'][:10]}-{slug(record['devices'])}"
    names = chain((name,), (f"{name}-{number}" for number in count(2)))
    return next(folder / n for n in names if not (folder / f"{n}.json").exists())


def slug(devices: Iterable[Mapping[str, Any]]) -> str:
    """Return devices as a part of a file's name: `nvidia-h200`, `2x-nvidia-h200`."""
    names = [device["name"] for device in devices]
    counted = {name: names.count(name) for name in names}
    words = "-".join(f"{n}x-{name}" if n > 1 else name for name, n in counted.items())
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:_SLUG].strip("-")


def stamp() -> str:
    """Return the moment, UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def python_name() -> str:
    """Return Python as a user would write it: the record needs no path of this machine."""
    return f"python{sys.version_info.major}"


def _commit(root: Path) -> dict[str, Any]:
    """Return what git says of the tree; nulls where there is no git."""
    try:
        commit = _git(root, "rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_git(root, "status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "changed": None}


def _git(root: Path, *arguments: str) -> str:
    command = ("git", "-C", str(root), *arguments)  # no shell, and no user's words
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


# --- as Markdown

_COLUMNS = {  # of a row: the head of the column, and the figure
    "dot": {"time": "time", "rate": "rate", "speed-up": "speedup", "ideal": "ideal",
            "efficiency": "efficiency", "overlap": "overlap"},
    "transfer": {"time": "time", "bandwidth": "bandwidth", "all/one": "speedup"},
}  # fmt: skip


def markdown(record: Record) -> str:
    """Return a record as Markdown."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: Record) -> Iterator[str]:
    names = list(dict.fromkeys(device["name"] for device in record["devices"]))
    yield f"# {', '.join(map(cell, names)) or 'No device'}, {record['started'][:10]}"
    yield ""
    yield _summary(record)
    if record["simulated"]:
        yield ""
        yield "**Simulated: every figure is scripted, none was measured.**"
    yield from _section("Machine", table(("what", "value"), _machine(record)))
    yield from _section("Steps", table(
        ("step", "what", "verdict", "exit", "time", "why"), _steps(record)))  # fmt: skip
    yield from _section("Commands", _commands(record))
    for step in record["steps"]:
        yield from _found(step)
    yield from _section("Libraries", table(
        ("library", "version", "for"), _libraries(record)))  # fmt: skip


def _summary(record: Record) -> str:
    words = [step["verdict"] for step in record["steps"]]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    planned = record["planned"]
    ran = f"{len(words)} of {len(planned)} steps" if len(words) < len(planned) else "all steps ran"
    elapsed = f"{record['elapsed_s']:.0f} s" if record["elapsed_s"] is not None else "unknown time"
    return f"**{record['verdict']}**: {ran}; {counts or 'none'}; {elapsed}."


def _machine(record: Record) -> Iterator[tuple[str, ...]]:
    gpumap = record["gpumap"]
    state = {True: ", with changes", False: "", None: ""}[gpumap["changed"]]
    yield "gpumap", f"{gpumap['version']}, commit {gpumap['commit'] or 'unknown'}{state}"
    yield "map", f"`{record['map']}`"
    for device in record["devices"]:
        about = [
            device["name"],
            device["pci"],
            device["uuid"],
            memory(device["memory_total_bytes"]),
        ]
        yield device["ref"], ", ".join(str(part) for part in about if part)
        yield f"{device['ref']}: driver", str(device["driver"])
    for backend in record["backends"]:
        yield backend["name"], str(backend["version"] or backend["reason"])
    yield "Python", record["python"]
    for key in ("cpu", "cores", "os"):
        if record["fingerprint"]:
            yield key, str(record["fingerprint"][key])
    for key, value in record["environment"].items():
        yield key, str(value)
    yield "from, to", f"{record['started']}, {record['ended'] or 'it was killed'}"


def _steps(record: Record) -> Iterator[tuple[str, ...]]:
    for step in record["steps"]:
        code = "-" if step["exit_code"] is None else str(step["exit_code"])
        time = "-" if step["elapsed_s"] is None else f"{step['elapsed_s']:.1f} s"
        why = "; ".join(step["why"])
        yield step["key"], step["what"], f"**{step['verdict']}**", code, time, why


def _commands(record: Record) -> Iterator[str]:
    yield "```sh"
    for step in record["steps"]:
        if step["command"]:
            yield printable(step["command"])
    yield "```"


def _found(step: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a step measured, compared or tested."""
    rows = step.get("rows") or []
    for bench, figures in _COLUMNS.items():
        shown = [row for row in rows if row["bench"] == bench and row["status"] != "skipped"]
        if shown:
            heads = ("case", "on", *_params(shown), *figures, "check", "n", "status")
            yield from _section(f"Figures: {step['key']}", table(heads, _figures(shown, figures)))
    if contests := step.get("contests"):
        heads = ("contest", "side", "time", "rate", "of gpumap's", "target", "of the peak",
                 "read, written", "W, MHz")  # fmt: skip
        yield from _section(f"Contests: {step['key']}", table(heads, _raced(contests)))
    if pairs := step.get("comparison"):
        heads = ("row", "figure", *step["compared"], "change", "intervals")
        yield from _section(f"Comparison: {step['key']}", table(heads, _comparison(pairs)))
    if tests := step.get("tests"):
        yield from _section("Tests", table(("tests", "count"), _tests(tests)))


def _params(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [key for key in ("size", "dtype", "bytes", "memory") if key in rows[0]["params"]]


def _figures(
    rows: Sequence[Mapping[str, Any]], figures: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    params = _params(rows)
    for row in rows:
        cells = [figure(row["metrics"].get(key)) for key in figures.values()]
        status = " ".join(row["flags"]) or row["status"]
        where = "+".join(row["names"])
        given = [str(row["params"][key]) for key in params]
        yield (row["case"], where, *given, *cells, _check(row["check"]),
               str(len(row["samples"] or ())), status)  # fmt: skip


def _raced(contests: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield a line for each side: gpumap's first, and what it says of the contest."""
    for line in contests:
        moved = f"{line['read_bytes']}, {line['written_bytes']} B" if line["read_bytes"] else "-"
        shares = ", ".join(f"{share:.1%} by {of}" for of, share in line["shares"].items()) or "-"
        power, clock = line["power_w"], line["sm_hz"]
        state = f"{power:.0f}, {clock / 1e6:.0f}" if power and clock else "-"
        for side, time in line["times"].items():
            ratio, least = line["ratios"].get(side), line["least"].get(side)
            rate = same_prefix([line["rates"][side]], line["unit"])[0]
            yield (
                line["what"], side, figure(time), rate,
                figure(ratio),
                f"at least {least:g}" if least else "-",
                *((shares, moved, state) if side == "gpumap" else ("", "", "")),
            )  # fmt: skip
        for side, said in (*line["lacks"].items(), *line["errors"].items()):
            yield line["what"], side, said, *["-"] * 6


def _check(check: Mapping[str, Any] | None) -> str:
    if check is None:
        return "-"
    if not check["passed"]:
        return "wrong"
    if check["max_error"] is None or check["bound"] is None:
        return "all bytes" if check["method"] == "bytes" else check["method"]
    return f"{check['max_error']:.3f} < {check['bound']:g} ({check['method']})"


def _comparison(pairs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    words = {"overlap": "overlap", "above": "second is higher", "below": "second is lower"}
    for pair in pairs:
        first, second = pair["first"]["value"], pair["second"]["value"]
        change = f"{second / first - 1:+.1%}" if first and second is not None else "-"
        ends = figure(pair["first"]), figure(pair["second"])
        word = words.get(pair["relation"], pair["relation"])
        yield f"`{pair['id']}`", pair["metric"], *ends, change, word


def _tests(tests: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for word in ("passed", "failed", "skipped"):
        yield word, str(tests[word])
    for name, passed in tests["on"].items():
        yield f"passed on a device of {name}", str(passed)
    for failure in tests["failures"]:
        yield f"failed: `{failure['test']}`", failure["message"]
    for reason, times in tests["skip_reasons"].items():
        yield f"skipped: {reason}", str(times)
    for file, reason in tests["ignored"].items():
        yield f"not loaded: `{file}`", reason


def _libraries(record: Record) -> Iterator[tuple[str, ...]]:
    for one in record["libraries"]:
        why = f": {one['why']}" if one["why"] else ""
        version = one["version"] or f"missing{why}"
        yield one["name"], version, f"{one['level']}: {one['reason']}"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", *lines)
