"""How rows and runs end: statuses, stops, exit codes."""

from __future__ import annotations

from gpumap.judge.topics.topic import Topic

_LIST = "`gpumap devices` lists the devices that are there, as a map writes them"

TOPICS = (
    # --- statuses
    Topic(
        "ok", "row status", "measured and verified",
        "The result was right before and after measuring, and `metrics` has its figures. Flags "
        "beside it say what to bear in mind.",
    ),
    Topic(
        "skipped", "row status", "not measured, and the reason says why",
        "The case was planned, and this machine cannot run it, the map is too small for it, or the "
        "run ended before. `reason` has a code and words.",
        "the code has a topic of its own, such as `gpumap explain stopped`",
    ),
    Topic(
        "failed", "row status", "it ran and is not to be trusted",
        "The data were wrong, the device failed, or a figure is impossible; `metrics` is empty if "
        "the data were wrong. `reason` has a code and words.",
        "the code has a topic of its own, such as `gpumap explain wrong-data`",
    ),
    Topic(
        "ok", "report status", "all that was asked was done",
        "The exit code is 0: everything was found, or measured and verified. Rows may still be "
        "skipped or have flags.",
    ),
    Topic(
        "no", "report status", "the answer is no",
        "The exit code is 1; `errors` says what was asked for and is not so, such as a limit.",
        "see `gpumap explain 1`",
    ),
    Topic(
        "error", "report status", "the question is wrong",
        "The exit code is 2; `errors` says what is wrong, and each hint how to mend it.",
        "see `gpumap explain 2`",
    ),
    Topic(
        "absent", "report status", "a device or backend is not there, or was lost",
        "The exit code is 3; `errors` says which, and `backends` why each one cannot be used.",
        "see `gpumap explain 3`",
    ),
    Topic(
        "wrong-data", "report status", "a device gave wrong data",
        "The exit code is 4; the rows that failed say where the data differ.",
        "see `gpumap explain 4`",
    ),
    Topic(
        "inconclusive", "report status", "the figures are too uncertain to conclude from",
        "The exit code is 5 where a requested verdict cannot be given: `errors` names the row or "
        "the limit. Else it is 0: requested rows have fewer than six samples, no time at all, or "
        "an impossible ratio, and a warning says how many.",
        "raise --budget, and keep the machine idle; see `gpumap explain 5`",
    ),
    Topic(
        "skipped", "report status", "a device is absent, and that was allowed",
        "The exit code is 0, by --if-absent. Nothing was measured, no limit was judged, and "
        "nothing has passed; `errors` says what is not there.",
    ),
    Topic(
        "timeout", "report status", "the time limit ended the run",
        "The exit code is 124; what was measured before is in the report, the rest is skipped.",
        "see `gpumap explain 124`",
    ),
    Topic(
        "interrupted", "report status", "someone ended the run",
        "The exit code is 130; what was measured before is in the report, the rest is skipped.",
        "see `gpumap explain 130`",
    ),
    Topic(
        "internal", "report status", "an error of gpumap's own",
        "The exit code is 70; what was found before is in the report.",
        "see `gpumap explain 70`",
    ),
    # --- stops
    Topic(
        "precision", "stop", "every row of the comparison is as precise as was asked",
        "Half of each interval is within --precision, and the samples are worth 20 independent "
        "ones or more, at a look after a quarter or a half of the time.",
    ),
    Topic(
        "decided", "stop", "every verdict that was requested of the rows is known",
        "At an early look, after a quarter or a half of the time, each limit or comparison with a "
        "base is decided by intervals of 99 %.",
    ),
    Topic(
        "blocks", "stop", "the most blocks that a comparison may take were taken",
        "A run on real devices ends before; with a scripted clock that never comes to the end of "
        "its budget this ends it.",
    ),
    Topic(
        "budget", "stop", "the time for the whole command was spent",
        "Each size has its share of --budget. The rows keep their figures; a line below the tables "
        "counts those that are wider than --precision.",
        "raise --budget, or measure fewer sizes or --cases",
    ),
    Topic(
        "time limit", "stop", "--timeout ended the process",
        "What was measured before keeps its figures.",
        "a driver may hang: `gpumap check` tells; else raise --timeout",
    ),
    Topic(
        "error", "stop", "an error ended the run",
        "What was measured before keeps its figures.",
        "read the error: it names what, where and the fix",
    ),
    Topic(
        "interrupted", "stop", "Ctrl-C or a signal ended the run",
        "What was measured before keeps its figures.",
        "start it again; --budget makes a run shorter",
    ),
    # --- exit codes
    Topic(
        "0", "exit code", "all that was asked was done",
        "Everything was found, or measured and verified. A skipped row or a flag does not change "
        "it, nor does the status inconclusive where no verdict was requested.",
    ),
    Topic(
        "1", "exit code", "the answer is no",
        "The map and the devices are there, and something that was asked of them is not so: "
        "--needs or --distinct of `check`, --strict, a --limit that is not met or that no figure "
        "was there for, a regression against a base or a row that only one of both reports has, or "
        "noise raised a false alarm in `selftest`.",
        "do as each error's fix says, or ask for less",
    ),
    Topic(
        "2", "exit code", "the question is wrong",
        "An option, the map, a file that cannot be read or written, something that a backend "
        "cannot do, or more memory than is free.",
        "each error names its own; ask again with that",
    ),
    Topic(
        "3", "exit code", "a device or backend is not there, or was lost",
        "A name of the map has no device, its backend is not installed, a device failed while it "
        "was used, or it is busy and --require-idle was given. Either every name resolves or none "
        "does.",
        _LIST,
    ),
    Topic(
        "4", "exit code", "wrong data",
        "A copy came back with other bytes, or a product is outside of its rounding error. There "
        "is no speed for such a row, and no other outcome hides this one.",
        "do not trust this device: check its memory, cable and driver, and run it again",
    ),
    Topic(
        "5", "exit code", "inconclusive, where a verdict was asked for",
        "By --limit, --base, --strict or `compare`. The figures are too few or too uncertain to "
        "say yes or no, such as of a limit that lies inside of the interval. It is never taken for "
        "a yes; --inconclusive lets it pass, and says so.",
        "raise --budget, and keep the machine idle",
    ),
    Topic(
        "70", "exit code", "an error of gpumap's own",
        "Not the user's fault. One line says what it was, and where a file with the traceback is.",
        "report it with that file",
    ),
    Topic(
        "124", "exit code", "the time limit ended the process",
        "--timeout came first. The report is whole, and what was not measured is skipped.",
        "raise --timeout or ask for less; `gpumap check` finds a driver that hangs",
    ),
    Topic(
        "130", "exit code", "interrupted",
        "By Ctrl-C, SIGTERM or SIGHUP. The report is whole, and what was not measured is skipped.",
        "start it again; --budget makes a run shorter",
    ),
    Topic(
        "141", "exit code", "nobody read the result to its end",
        "The pipe on stdout was closed, as by head. Files of --output are whole.",
        "write the report to a file with --output",
    ),
)  # fmt: skip
