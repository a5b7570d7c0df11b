"""Every word of a report that may need explaining, in one table: what it says, what to do.

The lists are closed: a metric, cause, flag, mark, status, exit code or code that has no topic here
fails a test, and so does a topic for something that does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "metric", "cause", "flag", "mark", "row status", "report status", "stop", "exit code", "column",
    "case", "parameter", "route", "verdict", "concept", "code", "diagnosis",
]  # fmt: skip

# Each kind, in the order of the list, and its heading.
KINDS: dict[Kind, str] = {
    "metric": "Metrics: the figures of a row",
    "cause": "Causes: why a speed-up or a copy stays below what could be",
    "flag": "Flags: what to bear in mind with a row",
    "mark": "Marks: what is odd about a single sample",
    "row status": "Status of a row",
    "report status": "Status of a report",
    "stop": "Stops: why measuring a row ended",
    "exit code": "Exit codes",
    "column": "Columns of the tables that are no metric",
    "case": "Cases: what a benchmark measures",
    "parameter": "Parameters: how a case copies, as `params` and ids have it",
    "route": "Routes: how a copy between devices went",
    "verdict": "Verdicts on limits, and on what changed since a base",
    "concept": "Concepts",
    "code": "Codes of errors, warnings, notes and reasons, as JSON has them",
    "diagnosis": "Causes that `doctor` names: why a device is not used",  # gpumap.doctor.pages
}

_NEAR = 3  # topics offered for a word that is none
_TELLING = 3  # letters that are enough to find a word by a part of it
_LONGEST = 40  # letters that are compared: more than any topic has


@dataclass(frozen=True, slots=True)
class Topic:
    """A word with one line, the sentences behind it, and what to do about it if anything is."""

    name: str
    kind: Kind
    summary: str
    text: str
    fix: str | None = None


def named(word: str) -> tuple[Topic, ...]:
    """Return every topic of this name; case, blanks, hyphens and underscores make no difference."""
    return tuple(topic for topic in TOPICS if _plain(topic.name) == _plain(word))


def nearest(word: str) -> tuple[str, ...]:
    """Return the names that a shortened or misspelled word may have meant."""
    from difflib import get_close_matches

    asked = _plain(word)[:_LONGEST]
    names = {_plain(topic.name): typed(topic) for topic in TOPICS}
    longer = [name for name in names if len(asked) >= _TELLING and asked in name]
    alike = get_close_matches(asked, names, _NEAR)
    return tuple(names[found] for found in dict.fromkeys([*longer, *alike]))[:_NEAR]


def typed(topic: Topic) -> str:
    """Return a topic's name as it is typed: one word, which needs no quotes."""
    return topic.name.replace(" ", "-")


def _plain(word: str) -> str:
    return "".join(c for c in word.casefold() if c not in " -_")


_LATER = "No command of this version reports it yet."
_SHELL = 'quote the map, a shell reads ">" and ";": "dev0->cuda0;dev1->cuda1"'
_LIST = "`gpumap devices` lists the devices that are there, as a map writes them"

TOPICS = (
    # --- metrics
    Topic(
        "time", "metric", "seconds for one round of a case",
        "The median over the samples, in s; lower is better. It counts everything from the first "
        "call to the end of the last device: queueing, working, waiting, and the fetch where the "
        "case has one. A sample is several rounds where one is too short to time, and `samples` "
        "holds the time of one round. It has no ceiling of its own: that of the rate bounds it.",
        "to narrow its interval, raise --budget and keep the machine idle",
    ),
    Topic(
        "rate", "metric", "arithmetic of a round per second",
        "The operations of a round over its median time, in FLOP/s; higher is better. A product of "
        "two n x n matrices counts 2 n^3 operations, a multiplication and an addition for each "
        "term; in `many` and `one` the products of all names count. Its ceiling is what the "
        'devices can do in this type of element; the column "of peak" has the share of it.',
        "larger products (--size) come closer to the ceiling; so does a smaller --dtype",
    ),
    Topic(
        "bandwidth", "metric", "bytes moved per second",
        "The bytes of a copy over its median time, in B/s; higher is better. 1 GB is 10^9 "
        "bytes. Only what the user asked to move counts, once, in one direction, for all names "
        "together: no protocol, no second copy inside a driver. Its ceiling is the link between "
        "host and device, or the host's memory.",
        "larger copies and pinned memory come closer to the ceiling",
    ),
    Topic(
        "speedup", "metric", "how many times as fast as its reference a case is",
        "The time of the reference over the time of the case, one ratio for each block and the "
        "median of those, without a unit; higher is better. In `bench dot` both do the same work, "
        "and `ideal` is its ceiling. In `transfer-cost`, where the column is all/one, it is what "
        "all names move together over what the first one moves alone.",
        "below 90 % of the ideal a cause stands under the table: `gpumap explain` has each",
    ),
    Topic(
        "speedup_over_one", "metric", "Theano's ratio: many with fetches over one without",
        "The time of `one` over the time of `many+fetch`, block by block, without a unit; higher "
        "is better. It is how Theano's example was timed: the case of several devices pays for its "
        "fetches, and the reference does not. Compare it with old figures only; `speedup` is the "
        "fair ratio.",
    ),
    Topic(
        "speedup_over_host", "metric", "how many times as fast as the host a case is",
        "The time of the case `host` over the time of this one, block by block, without a unit; "
        "higher is better. Below 1 the host does the same in less time, and the row says so.",
        "give the device more rows, or leave the work on the host",
    ),
    Topic(
        "efficiency", "metric", "the share of the ideal that was reached",
        "The speed-up over the ideal, block by block, without a unit; higher is better, and 1 is "
        "its ceiling. A little above 1 is no error: alone a device was slower than beside others, "
        "because it idled or its caches were cold. Below 0.9 a cause stands under the table.",
        "look at the cause: `gpumap explain` lists all of them",
    ),
    Topic(
        "ideal", "metric", "the speed-up that this placement can reach at best",
        "The time of `one` over the time that the busiest silicon needs for its own products, by "
        "the solo times of the same blocks, without a unit; neither high nor low is better. Names "
        "that share silicon take turns, so two names on one device have an ideal of 1. It is the "
        "ceiling of the speed-up.",
        "it rises with more distinct devices, and with devices that are equally fast",
    ),
    Topic(
        "ideal_balanced", "metric", "the ideal if the work were split by speed",
        "The sum of the solo rates over the best of them, without a unit; neither high nor low is "
        "better. It is there where solo times are more than 10 % apart: an equal split then ends "
        "with the slowest device, and another split would reach this.",
        "give each device work in proportion to its solo rate",
    ),
    Topic(
        "overlap", "metric", "how long all devices worked at once",
        "The time in which every device worked over the time of the least busy one, without a "
        "unit; higher is better, and 1 is its ceiling. It is read from `spans`. On processors 1 "
        "proves little: two workers may sit on one core, which `cpu_s` shows.",
        "below 0.5 the devices take turns: see `gpumap explain serialised`",
    ),
    Topic(
        "fetch", "metric", "what bringing the results to the host adds to a round",
        "The time of the case minus the time of the same case without its fetch, block by block, "
        "in s; lower is better. It moves the bytes of every product once, from device to host. An "
        "interval that holds 0 says that no cost is seen.",
        "fetch less or less often; `gpumap transfer-cost` has the price of a copy",
    ),
    Topic(
        "device_time", "metric", "seconds for one round by the device's own clock",
        "The time between two marks on the device, in s; lower is better. It leaves out what the "
        "host does before and after: where it is far below `time`, launching and waiting take "
        "the rest. Only a device that has a clock has it.",
        "a larger --size gives the device more to do for each launch",
    ),
    Topic(
        "spacing", "metric", "seconds from one queued operation to the next",
        "Of operations that are queued back to back, in s; lower is better.",
    ),
    Topic(
        "latency", "metric", "what a copy costs however small it is",
        "The part of the time that does not grow with the bytes, by a line through many sizes, in "
        "s; lower is better.",
    ),
    Topic(
        "peak_bandwidth", "metric", "the bandwidth that ever larger copies come to",
        "The slope of a line through many sizes, in B/s; higher is better.",
    ),
    Topic(
        "half_size", "metric", "the bytes of a copy that reaches half of the peak bandwidth",
        "The latency times the peak bandwidth, in B; lower is better.",
    ),
    Topic(
        "size_90", "metric", "the bytes of a copy that reaches 90 % of the peak bandwidth",
        "Nine times the half size, in B; lower is better.",
    ),
    Topic(
        "from_bytes", "metric", "the bytes from which a device beats the host",
        "Of x, the input of a call that is computed on the device, copies and all, and by NumPy on "
        "all cores of the host: where the device wins for the first time, in B; lower is better, "
        "infinite if it never does. Its interval goes from the largest size that the host clearly "
        "wins to the smallest that the device does; where the device never does, but the host not "
        "clearly everywhere, it begins there. `wins` lists every range.",
    ),
    Topic(
        "predicted_from_bytes", "metric", "the bytes from which a device should beat the host",
        "Where the host's time crosses the sum of the copies, as they take in a queue, and of the "
        "product alone, in B; lower is better, infinite if it does at none of the sizes that were "
        "looked at. No whole call is looked at for it. The interval is where it would be if the "
        "models missed by as much as they do where they were fitted.",
    ),
    Topic(
        "calls_to_amortise_setup", "metric", "the calls after which a device's set-up has paid",
        "What opening it, compiling and uploading the weights takes, over what a call saves at the "
        "largest size at which it wins; without a unit; lower is better, infinite if it never "
        "wins. Drivers that keep compiled kernels make a second run's set-up cheaper. In `bench "
        "chain` it is what a first call, `cold`, takes beyond a later one, `fused`, over what a "
        "later one saves against `host`.",
    ),
    Topic(
        "examples_per_s", "metric", "training examples per second",
        f"Of a network on all devices, in 1/s; higher is better. {_LATER}",
    ),
    Topic(
        "comm", "metric", "seconds that devices spend exchanging results",
        f"Of one step of a training, in s; lower is better. {_LATER}",
    ),
    # --- causes
    Topic(
        "launch-bound", "cause", "starting a product takes longer than its arithmetic",
        "Less than half of a product's solo time is arithmetic, by the rate that the anchor "
        "reaches on the same device. The figures are `product`, its time alone, and `arithmetic`.",
        "choose a larger --size, or put several products into one launch",
    ),
    Topic(
        "transfer-bound", "cause", "fetching the results takes the time",
        "The fetch accounts for at least half of what is missing to the ideal. The figures are "
        "`fetch`, what it adds to a round, and `time`, the whole round.",
        "keep results on the devices and fetch less; `gpumap transfer-cost` has the price",
    ),
    Topic(
        "synchronisation", "cause", "the host waits and hands over while no device works",
        "The time of a round in which no device worked is at least half of what is missing. The "
        "figures are `outside`, that time, and `empty_sync`, a wait that has nothing to wait for. "
        "Of copies at once: less than half of the time of one alone, `copy`, is `moving` it.",
        "wait once for many products or copies, and choose a larger size",
    ),
    Topic(
        "serialised", "cause", "the devices take turns",
        "They are distinct, and yet less than half of their time was spent together: a driver "
        "that works inside the call, or a lock, lets one in at a time. The figure is `overlap`. Of "
        "copies: the host hands them over one after the other, and its `calls` make up most of "
        "the `time` beyond that of the slowest copy.",
        "try another --backend, or one process for each device; with fetches look at the case "
        "`many+fetch+threads`",
    ),
    Topic(
        "shared-silicon", "cause", "the names share hardware, so together they do what one does",
        "Either their devices are parts of one piece of hardware, with `speedup` and `ideal` as "
        "figures; or the workers had fewer `cores` of CPU time than there are; or a device takes "
        "over 10 % longer `together` than `alone`, because memory bandwidth, cache or power are "
        "one for all.",
        "map each name to a device of its own: `gpumap check --distinct` tells; `gpumap devices` "
        "has the silicon",
    ),
    Topic(
        "unequal-devices", "cause", "an equal split ends with the slowest device",
        "The devices reach their ideal, but one is much slower alone than another, and each has "
        "the same work. The figures are the times of `slowest` and `fastest`; `ideal_balanced` is "
        "what another split would reach.",
        "give the faster device more work, or map equal devices",
    ),
    Topic(
        "too-little-work", "cause", "a round is over before its costs are paid",
        "One round is too short to be timed alone, and nothing else stands out: small costs add up "
        "to a large share. The figure is `time`.",
        "choose a larger --size",
    ),
    Topic(
        "busy-machine", "cause", "others had the cores meanwhile",
        "Other processes, or other machines on the same hardware, took at least half of the cores "
        "that are missing. The figures are `foreign`, the cores that other processes kept busy, "
        "and `steal`, the share of time that the hypervisor took. It is for processors only.",
        "end what runs beside, or choose a quieter hour; then measure again",
    ),
    Topic(
        "unexplained", "cause", "no known cause accounts for what is missing",
        "It was looked for, and nothing that is measured shows it. The figures are `speedup`, "
        "`ideal` and `overlap`; the samples and spans are in the JSON report.",
        "measure again with a larger --budget; if it stays, report it with the JSON",
    ),
    Topic(
        "shared-link", "cause", "several devices at once move less than each by itself",
        "N devices with links of their own move N times what one does; the whole interval is below "
        "90 % of that. One piece of silicon, a bridge upstream of several devices or one NUMA node "
        "is named where the system tells it; cores share the bandwidth of the host's memory. The "
        "figures are `gain`, the number of `names`, and the bandwidths `together` and `alone`.",
        "use devices of another root port or node, or copy less (nvidia-smi topo -m)",
    ),
    Topic(
        "half-duplex", "cause", "a device's two directions share what carries them",
        "Copies both ways at once are below 90 % of what their own times allow, twice as fast at "
        "best. In host memory, where cores do the copying, that is normal. The figures are `gain`, "
        "and the bandwidths `together`, `there` and `back`.",
        "on a card, use pinned memory, and look whether the driver uses two copy engines",
    ),
    Topic(
        "odd-pair", "cause", "a pair of devices falls out of its group",
        "Its whole interval is below 90 %, or above 111 %, of the median of the pairs that go the "
        "same route over links of the same kind; there are three at least. The figures are the "
        "bandwidths of the `pair` and of its `group`. Such pairs stand below the matrix.",
        "look for a cable, a slot or a NUMA node that differs (nvidia-smi topo -m)",
    ),
    Topic(
        "slow-link", "cause", "a copy of 1 MiB or more has under 30 % of what its link carries",
        "The likely reasons are looked for: pageable memory, a process on another NUMA node than "
        "the device, lanes or speed below what the link can have, an IOMMU that translates. Each "
        "was checked, or says why it cannot be here; those that hold come first. The figures are "
        "`bandwidth`, `ceiling` and `share`.",
        "use pinned memory, bind the process to the device's node (numactl), look at the slot",
    ),
    Topic(
        "host-faster", "cause", "the host does the same in less time",
        "NumPy on the host clearly takes less time than the device, though nothing is moved: the "
        "whole interval of the speed-up over the host is below 1. The figures are `host` and "
        "`time`.",
        "leave this work on the host, give the device more rows, or fuse its operations",
    ),
    # --- flags
    Topic(
        "unconverged", "flag", "the interval is wider than was asked for",
        "Half of its width is above --precision, as a share of the median. For a case with a "
        "reference the speed-up's interval counts, else that of the time. The figures are right, "
        "only not that precise; `stop` says why measuring ended.",
        "raise --budget or --precision, and keep the machine idle",
    ),
    Topic(
        "unstable", "flag", "the samples cannot be trusted to tell one figure",
        "They are worth fewer than 20 independent ones, more than 10 % of them have a mark, or "
        "they come in two heaps. `effective_n`, `autocorrelation` and `marks` show which. Slow "
        "changes of the machine count here, also where a time's interval, that of this run, is "
        "narrow.",
        "raise --budget; two heaps mean that something switches, such as clocks or memory places",
    ),
    Topic(
        "shared-silicon", "flag", "two names of this row share hardware",
        "Their devices have an element of `silicon` in common, so they take turns, and the ideal "
        "counts them as one.",
        "map each name to a device of its own, or expect no speed-up",
    ),
    Topic(
        "warm-up-capped", "flag", "it was still getting faster when measuring began",
        "Warming up ends when a window of samples is no faster than the one before; here its share "
        "of the budget ended first. `warmup` counts its rounds.",
        "raise --budget",
    ),
    Topic(
        "over-ceiling", "flag", "faster than physics allows, so it is wrong",
        "The whole interval of a figure is over 5 % above its ceiling: the row has failed and is "
        "no record. The work was not done, was answered from a cache, or the ceiling is wrong. "
        "`ceiling` has its value, its source, and the share above 1.",
        "do not use the figure; report it with the JSON",
    ),
    # --- marks
    Topic(
        "outlier", "mark", "a sample far from the others",
        "It is more than ten robust standard deviations (1.48 MAD) from the median. It stays among "
        "the samples: the median hardly moves.",
        "look for what else ran at that moment; many of them make a row unstable",
    ),
    Topic(
        "preempted", "mark", "a core that was measured ran something else meanwhile",
        "The thread of a device had no processor for more than 2 % of its span: `worked_s` is "
        "shorter than `spans`. Names that share a core take it from each other: they have no mark.",
        "end what runs beside, or map other cores",
    ),
    Topic(
        "throttled", "mark", "a device slowed itself down during a sample",
        "Heat or a limit of power, by its driver or the system, or the clock of a core fell by "
        "over 10 %. Devices are looked at between blocks, and every sample since the last look is "
        "marked.",
        "cool it, raise its power limit, or expect these figures from this machine",
    ),
    Topic(
        "nonfinite", "mark", "a sample that is no number",
        "A clock gave a NaN or an infinity. `samples` has a null in its place, and the mark says "
        "which it was.",
        "report it with the driver's version: such a clock cannot be measured with",
    ),
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
        "inconclusive", "report status", "the figures are too uncertain for a verdict",
        "The exit code is 5; `errors` says of which name or limit.",
        "see `gpumap explain 5`",
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
        "ones or more. It is looked at after 20, 40, 80, ... blocks.",
    ),
    Topic(
        "blocks", "stop", "the most blocks that a comparison may take were taken",
        "A run on real devices ends before; with a scripted clock that never comes to the end of "
        "its budget this ends it.",
    ),
    Topic(
        "budget", "stop", "the time for the whole command was spent",
        "Each size has its share of --budget. The rows keep their figures, with the flag "
        "unconverged where they are wider than --precision.",
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
        "it.",
    ),
    Topic(
        "1", "exit code", "the answer is no",
        "The map and the devices are there, and something that was asked of them is not so: "
        "--needs, --distinct or --strict of `check`, a --limit that is not met or that no figure "
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
        "The figures are too few or too uncertain to say yes or no, such as of a limit that lies "
        "inside of the interval. It is never taken for a yes; --inconclusive lets it pass, and "
        "says so.",
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
    # --- columns
    Topic(
        "algorithm", "column", "how the results of a step are exchanged",
        "`native` is what a library does by itself, at its best; `host` sums at one place, `ring` "
        "passes slices around, `alltoall` sums a slice at each, `tree` goes up and down in pairs.",
    ),
    Topic(
        "devices", "column", "how many devices a row is of",
        "Predicted, or published: nothing was measured on them here.",
    ),
    Topic(
        "exchange", "column", "what exchanging the results of a step takes",
        "By a model, from latency, bandwidth and bytes; `comm` in JSON.",
        "measure the link: `gpumap transfer-cost`, then `gpumap predict` with its report",
    ),
    Topic(
        "step", "column", "what a step takes with its exchange",
        "Compute, split over the devices or not, then the exchange: nothing overlaps.",
    ),
    Topic(
        "examples/s", "column", "examples a second, of all devices together",
        "The examples of a step, or of a published time, over that time.",
    ),
    Topic(
        "pays", "column", "whether a second device makes it faster",
        "With strong scaling it pays where halving the compute saves more than the exchange takes. "
        "It is `unclear` where the intervals of latency and bandwidth allow both.",
    ),
    Topic(
        "from a step of", "column", "the compute from which on a second device pays",
        "Of a step on one device, without an exchange; `from_compute` in JSON.",
    ),
    Topic(
        "from a batch of", "column", "the batch from which on a second device pays",
        "As many examples as take the compute beside it; `from_batch` in JSON.",
    ),
    Topic(
        "fastest on", "column", "the number of devices with the highest speed-up",
        "Of those that were asked for; more of them exchange longer than they save.",
    ),
    Topic(
        "network", "column", "what was trained, and how many examples a device took at once",
        "A row of a published table: AlexNet-128b is AlexNet at 128 examples a device.",
    ),
    Topic(
        "training alone", "column", "the efficiency without the exchanges",
        "Above 100% it is super-linear: each device has less to do, or an easier part of it. It is "
        "labelled, and left as it is.",
    ),
    Topic(
        "labels", "column", "what is odd about a published cell",
        "`super-linear`: more than as many times as fast. `super-linear-compute`: that of the "
        "training alone.",
        "look for a slow reference: the time of one device",
    ),
    Topic(
        "measured", "column", "what exchanges took, by a published table",
        "Seconds beside those of the training.",
    ),
    Topic(
        "predicted", "column", "what exchanges take, by the model of all other rows",
        "A fixed cost for each, and the bytes over a bandwidth. The row itself was left out. "
        "Beside `pays from` it is the size from which on a device should pay by the model of its "
        "copies, without a measured call; a dash where that model is not complete.",
    ),
    Topic(
        "y", "column", "what is computed by the calls of a break-even",
        "`affine` is x.w + b, with weights that are on the device; `product` is a square product.",
    ),
    Topic(
        "x", "column", "what a break-even's sizes are of, and whether it is moved",
        "`moved`: the call takes x along and brings the result back. `resident`: x is there "
        "already. In the table of calls it is the size of x.",
    ),
    Topic(
        "pays from", "column", "the size from which on the device beats the host",
        "The metric `from_bytes`, of x, with the copies, against the host with all of its cores; "
        "`never` where no size that was looked at is faster. Ranges are in `pays within`.",
    ),
    Topic(
        "pays within", "column", "the sizes at which the device beats the host",
        "Measured: one range of sizes, or several with a semicolon between. A range with `on` has "
        "no end that was found; a dash says that there is none.",
    ),
    Topic(
        "looked to", "column", "the largest size at which a break-even was looked for",
        "Beyond it nothing is known. A remark says where time or memory ended it.",
        "raise --budget to look further",
    ),
    Topic(
        "set-up pays after", "column", "the calls after which the set-up has paid",
        "The metric `calls_to_amortise_setup`: what the first call costs more, and bringing the "
        "weights, over what each later call saves against the host. `never` where it saves "
        "nothing.",
    ),
    Topic(
        "calls take", "column", "what a hundred calls take on the device, with their copies",
        "The time of all of them; the next columns say where it goes.",
    ),
    Topic(
        "host takes", "column", "what as many calls take the host, with all of its cores",
        "It stands beside `calls take`: the smaller one wins.",
    ),
    Topic(
        "upload", "column", "the share of the calls in which x goes to the device",
        "Of `calls take`, by the time of each part alone.",
    ),
    Topic(
        "compute", "column", "the share of the calls in which the device computes",
        "Of `calls take`, by the time of the call with everything there.",
    ),
    Topic(
        "download", "column", "the share of the calls in which the result comes back",
        "Of `calls take`, by the time of each part alone.",
    ),
    Topic(
        "overhead", "column", "the share of the calls that no part accounts for",
        "Queueing and waiting. It is what is left of `calls take`.",
    ),
    Topic(
        "copy", "column", "which way a model's copies go",
        "`h2d`: to a device. `d2h`: from it. `d2d`: from one device to another.",
    ),
    Topic(
        "row", "column", "the id of a row, without hardware",
        "Two reports are joined by it, and a limit selects by it: bench, case, and keys in "
        "brackets.",
    ),
    Topic(
        "metric", "column", "which figure of a row is meant",
        "Each one has a topic, such as `gpumap explain speedup`.",
    ),
    Topic(
        "off by", "column", "how far a prediction is from what was measured",
        "Below 0% the model is too fast: where all rows of some number of devices are, those need "
        "a second, slower link.",
    ),
    Topic(
        "fixed", "column", "what an exchange costs whatever its bytes",
        "Of the model that predicts a row, beside the bandwidth.",
    ),
    Topic(
        "on", "column", "the names whose devices a case runs on",
        "In `one` it is the reference's alone: the products of all names run there. In a chain it "
        "says host where NumPy computes; `names` then has the device that it is held beside.",
    ),
    Topic(
        "memory", "column", "the kind of host memory that is copied from or to",
        "Pageable memory is what a program usually has. A driver must copy it once more, or pin it "
        "first; pinned memory stays in its place and a device reads it by itself; mapped memory a "
        "device has as its own. Each is explained under its name.",
        "where a device is a card, look at its pinned rows; cores of the host have none",
    ),
    Topic(
        "a/b", "column", "the same work, measured twice, one over the other",
        "The metric `speedup` in `selftest`: nothing differs but the noise, so it should be 1.",
        "far from 1 no verdict on this machine is worth much: see `gpumap explain false-alarm`",
    ),
    Topic(
        "of peak", "column", "the share of its ceiling that the rate reached",
        "The ceiling is the arithmetic peak of the devices in this type of element, or what the "
        "links to GPUs carry; `ceiling` in JSON says where it is from.",
    ),
    Topic(
        "mode", "column", "whether a copy is waited for",
        "`sync`: one call, and a wait, as a program pays that needs the bytes. `queued`: one of "
        "many in a queue, the cost of one copy more.",
    ),
    Topic(
        "route", "column", "how a copy between devices really went",
        "`peer`: directly. `staged`: by way of the host's memory. `same`: inside one device. In a "
        "matrix P, S and = stand for them.",
    ),
    Topic(
        "half at", "column", "the bytes of a copy that reaches half of the peak bandwidth",
        "The metric `half_size` of the model.",
    ),
    Topic(
        "90% at", "column", "the bytes of a copy that reaches 90 % of the peak bandwidth",
        "The metric `size_90` of the model.",
    ),
    Topic(
        "lines", "column", "how many lines the model is made of",
        "Two where small and large copies go different ways, each with a latency and a bandwidth.",
    ),
    Topic(
        "misses by", "column", "the largest relative miss of the model",
        "Of the sizes that it was fitted to. Above 15 % it does not fit, and has no figures.",
    ),
    Topic(
        "all/one", "column", "what all names move together over what the first moves alone",
        "The metric `speedup` of a copy. It is the number of names where every device has a link "
        "of its own, and 1 where all share one. Of `bidir` it is what both ways at once gain over "
        "one after the other: 2 at best.",
        "where it is low, a cause stands under the table, such as `gpumap explain shared-link`",
    ),
    Topic(
        "error", "column", "the largest rounding error of a product, and what it may be",
        "9.4e-08 < 1.2e-04 says that no element was further from the float64 reference than the "
        "first figure, relative to the norms of its row and column, and that the second would have "
        "been rounding still. Above a size of 1024 random sign vectors take the place of the "
        "reference (Freivalds' check).",
    ),
    Topic(
        "op", "column", "the operation of a chain that is measured by itself",
        "The product x.w (gemm), adding b (bias), relu, exp or log, from one buffer to another.",
    ),
    Topic(
        "over host", "column", "how many times as fast as the host a case is",
        "The metric `speedup_over_host`.",
        "below 1 the host does the same in less time: see `gpumap explain host-faster`",
    ),
    Topic(
        "check", "column", "whether every byte came back",
        "The destination is filled with wrong bytes first, and compared byte for byte. A failure "
        "names the first byte that differs.",
    ),
    Topic(
        "n", "column", "the number of samples",
        "One for each block. What they are worth, after their autocorrelation, is `effective_n` in "
        "JSON.",
    ),
    Topic(
        "status", "column", "ok, or the flags that a row has, or failed",
        "A row that has flags shows them in place of ok.",
        "each flag has a topic, such as `gpumap explain unconverged`",
    ),
    Topic(
        "figure", "column", "what a limit was held against",
        "The figure of the row with its interval, in the unit of its metric.",
    ),
    Topic(
        "verdict", "column", "what a figure says to a limit, or to its base",
        "Of a limit: pass, fail, inconclusive, missing where nothing was measured, and skipped "
        "where nothing could be, which --if-absent allowed. Against a base: regression, "
        "improvement, same, inconclusive, missing and new where only one report has the row, and "
        "skipped where the base is another machine's. Confirmed: measured once more, it was the "
        "same.",
        "see `gpumap explain limit` and `gpumap explain base`",
    ),
    Topic(
        "new/base", "column", "how a figure changed: the new one over that of the base",
        "With its interval, which holds together with all the others of the comparison. A time is "
        "compared through its anchor; above 1 it is slower, and a speed-up is less below 1.",
    ),
    Topic(
        "threshold", "column", "the change that counts",
        "The --threshold that was asked for, or the noise floor that `selftest` found on this "
        "machine, if that is larger: less than that nobody can tell here.",
    ),
    Topic(
        "ran", "column", "an operation or a transfer of a program",
        "In the result of `trace`: the name of the operation, or upload, download and copy. Events "
        "of the same name, at the same place, asked for or not, are one row.",
    ),
    Topic(
        "moved", "column", "a transfer that nobody asked for",
        "An operand was elsewhere, so it was copied to where the operation runs. Copies of one "
        "shape on one way are one row, the most expensive row first.",
        "move it once, by `transfer`, or make it where it is used; the policy strict refuses such "
        "transfers",
    ),
    Topic(
        "implicit", "column", "whether nobody asked for a transfer",
        "An operation runs where most bytes of its operands are; what is elsewhere is copied.",
        "see `gpumap explain moved`",
    ),
    Topic(
        "shape", "column", "the extent of what was moved, along each axis",
        "1024 x 1024 is a matrix, () a number.",
    ),
    Topic(
        "line", "column", "the line of the program that caused a transfer",
        "The innermost one that is not gpumap's own; paths are from the current folder where they "
        "are in it.",
    ),
    Topic(
        "count", "column", "how many events a row of a trace stands for",
        "One event for each call.",
    ),
    Topic(
        "bytes", "column", "what the events of a row made or moved, together",
        "In binary units: 1 MiB is 1048576 bytes. JSON has the exact number.",
    ),
    Topic(
        "total time", "column", "the times of the events of a row, added up",
        "From the device's own queue, seen once: there is no interval. Unknown where the device "
        "cannot tell when its queue came to one of them.",
    ),
    Topic(
        "names", "column", "what the map calls a device",
        "Two names on one device share its queue, so what they do is one after the other.",
    ),
    Topic(
        "events", "column", "the operations and transfers that a device took part in",
        "A copy from device to device counts for both. The host has those that no device was "
        "part of.",
    ),
    Topic(
        "busy", "column", "how long a device worked",
        "The time in which at least one of its operations or transfers ran; a copy from device to "
        "device keeps both busy.",
    ),
    Topic(
        "share", "column", "how much of the time of a trace a device was busy",
        "Of the time from the start of the first event to the end of the last one. What the "
        "program does on the host between them leaves devices idle.",
        "queue more before you wait for a result: `numpy` waits",
    ),
    # --- cases
    Topic(
        "solo", "case", "one device with its own product, alone",
        "There is one for each name. The times say which devices are unequal, and what is ideal. "
        "Of a chain it is the device with its own rows of `many`.",
    ),
    Topic(
        "one", "case", "the products of all names, on one device",
        "The reference of `many`: the first name, unless another is over 10 % faster.",
    ),
    Topic(
        "many", "case", "one product on each device, all at once",
        "Its speed-up is over `one`; below 90 % of its ideal it has a cause. Of a chain the rows "
        "are split over the names, and the speed-up is over `fused`.",
    ),
    Topic(
        "fused", "case", "a chain of operations in one kernel, on the fastest device",
        "Each number is read once and written once. Its speed-up is over `separate`.",
    ),
    Topic(
        "separate", "case", "the same chain, one kernel for each operation",
        "A product, then four kernels that change its result in place: each reads and writes "
        "everything once more.",
    ),
    Topic(
        "host", "case", "the same chain by NumPy, in host memory",
        "The product uses all cores; NumPy's elementwise functions use one. No device takes part: "
        "`names` has the one that it is held beside.",
    ),
    Topic(
        "op", "case", "one operation of a chain by itself, on a device or on the host",
        "The key `place` says which; on the device the speed-up is over the host's own. Together "
        "they take longer than `separate`, whose data are in the cache already.",
    ),
    Topic(
        "cold", "case", "the first call of a chain in a session of its own",
        "Opening the device, uploading w, b and x, building the kernel, running it, waiting. Later "
        "calls are `fused`. What a driver keeps of compiled kernels on a disk is in it.",
    ),
    Topic(
        "one+fetch", "case", "as `one`, and every result comes to the host",
        "The reference of `many+fetch`.",
    ),
    Topic(
        "many+fetch", "case", "as `many`, and every result comes to the host",
        "One host thread fetches them one after the other, as Theano did.",
    ),
    Topic(
        "many+fetch+threads", "case", "as `many+fetch`, with a host thread for each device",
        "It shows what one thread costs, where fetching blocks it.",
    ),
    Topic(
        "h2d", "case", "a copy from the host to a device",
        "Alone for each device, waited for and queued; and of all names at once.",
    ),
    Topic(
        "d2h", "case", "a copy from a device to the host",
        "Alone for each device, waited for and queued; and of all names at once.",
    ),
    Topic(
        "bidir", "case", "copies both ways at once, on two queues of one device",
        "Held against both ways one after the other: 2 is twice as fast. A link that carries one "
        "way at a time, or copying in host memory, gives 1.",
        "see `gpumap explain half-duplex`",
    ),
    Topic(
        "d2d", "case", "a copy from one device to another",
        "For each ordered pair of devices, by the route that is really taken, and one pair of "
        "names of the same device if there is one. A matrix shows them at a glance.",
        "see `gpumap explain route` and `gpumap explain odd-pair`",
    ),
    Topic(
        "affine", "case", "y = x.w + b on a device, against the host: does copying pay?",
        "x has 10 columns, and as many rows as its size gives; y has 5 columns. It is called with "
        "x moved for each call, and with x on the device already.",
        "see `gpumap explain from_bytes`",
    ),
    Topic(
        "product", "case", "y = x.w of square matrices on a device, against the host",
        "As `affine`, with more arithmetic for each byte: it pays from smaller sizes on. The "
        "anchor is a product, too.",
        "see `gpumap explain from_bytes`",
    ),
    # --- parameters
    Topic(
        "pageable", "parameter", "host memory as a program usually has it",
        "A driver must copy it once more, or pin it first: a card reads only what stays in place.",
        "use pinned memory where copies count",
    ),
    Topic(
        "pinned", "parameter", "host memory that stays in its place",
        "A card reads and writes it by itself, at the speed of the link. The driver is asked for "
        "it, and no other kind takes its place: where there is none the row is skipped.",
    ),
    Topic(
        "mapped", "parameter", "host memory that a device addresses as its own",
        "The same bytes on both sides; what moves, moves when they are used. With CUDA a copy to "
        "or from it is a kernel, which reads or writes it in place over the link. With OpenCL the "
        "device copies from one of its buffers to another, and the time has the unmapping before "
        "and the mapping after it; on PoCL, whose device is the host, mapping moves nothing, and "
        "the figures are those of the device's own copy.",
    ),
    Topic(
        "device", "parameter", "the memory of a device, as copies between devices have it",
        "No host memory is chosen; a staged copy takes what the backend has.",
    ),
    Topic(
        "sync", "parameter", "one copy, and a wait for it",
        "What a program pays that needs the bytes now: the call, the way, and the waiting.",
    ),
    Topic(
        "queued", "parameter", "one of many copies in a queue",
        "The spacing of copies behind each other: what one copy more costs.",
    ),
    Topic(
        "alone", "parameter", "nothing else copies meanwhile",
        "What copies at once are held against.",
    ),
    Topic(
        "together", "parameter", "all names at once, or both ways at once",
        "The column all/one has what that gains.",
    ),
    Topic(
        "ladder", "parameter", "a size of the model, and not one that was asked for",
        "From 64 bytes to 16 MiB, each eight times the one before. In the tables only with --sizes "
        "sweep; JSON has them always.",
    ),
    # --- concepts
    Topic(
        "peer", "route", "from one device to another, directly",
        "No byte goes through the memory of the host. In a matrix it is a P.",
    ),
    Topic(
        "staged", "route", "from one device to another, by way of the host's memory",
        "The bytes go over two links, one after the other. In a matrix it is an S.",
        "where both are cards, look at what keeps them from peer copies: nvidia-smi topo -p2p r",
    ),
    Topic(
        "same", "route", "inside one device",
        "Both names are of one device, so no link is in between. In a matrix it is an =.",
    ),
    Topic(
        "pass", "verdict", "the limit is met",
        "The whole interval is on its right side, and the row is not unstable.",
    ),
    Topic(
        "fail", "verdict", "the limit is not met",
        "The whole interval is on the wrong side, the figure is no number, or the row has failed; "
        "the exit code is 1.",
        "see what holds the row back, or ask for less",
    ),
    Topic(
        "regression", "verdict", "worse than the base by more than the threshold",
        "The whole interval lies beyond it; the exit code is 1.",
        "find what changed; if it is meant: `compare` with --accept",
    ),
    Topic(
        "improvement", "verdict", "better than the base by more than the threshold",
        "The whole interval lies beyond it. Nothing has to be done.",
        "a new base keeps it: `compare` with --accept",
    ),
    Topic(
        "same", "verdict", "as in the base, within the threshold",
        "The whole interval lies within it: too few samples are never the same.",
    ),
    Topic(
        "inconclusive", "verdict", "the figures are too uncertain to tell",
        "The limit or the threshold lies inside of the interval, there are too few samples for "
        "one, or the row is unstable; the exit code is 5.",
        "raise --budget, and keep the machine idle; --confirm measures once more",
    ),
    Topic(
        "missing", "verdict", "no figure was there to judge by",
        "Of a limit: the row was skipped, or no row has the figure. Of a base: only the base has "
        "it. It is never a pass; the exit code is 1.",
        "measure it, or let it pass with --allow-missing",
    ),
    Topic(
        "new", "verdict", "a figure that the base does not have",
        "Nothing could be judged; the exit code is 1.",
        "put the report in the place of the base, or let it pass with --allow-missing",
    ),
    Topic(
        "skipped", "verdict", "not judged",
        "The devices are absent and --if-absent allowed that, or the base is of another machine "
        "and --other-machine was given: it has neither passed nor failed.",
    ),
    Topic(
        "map", "concept", "names for devices: dev0->cuda0;dev1->cuda1",
        "A name is your own word, and what is right of the arrow is the device it stands for. "
        "Either every name is a device of this machine, or the exit code says no.",
        "`gpumap check` proves a map, `gpumap devices` ends in one to paste",
    ),
    Topic(
        "device", "concept", "the hardware on the right of an arrow",
        "Written cuda0, opencl0:0 or cpu0. Its identity is its PCI bus id or UUID, and never the "
        "number, which drivers may give out in another order.",
        _LIST,
    ),
    Topic(
        "silicon", "concept", "what two devices may share",
        "Each device lists the pieces of hardware that it is made of: a card, cores. Two devices "
        "that have one in common take turns, and no second name makes them faster.",
        "`gpumap devices` has it for each device, `gpumap check --distinct` insists",
    ),
    Topic(
        "backend", "concept", "the library that drives a device",
        "numpy, pyopencl, cupy, pygpu, and fake for scripted devices. Each kind of device has a "
        "preferred one.",
        "--backend chooses another, and all measures every usable one",
    ),
    Topic(
        "case", "concept", "a benchmark at one set of parameters on named devices",
        "`solo` is one device with its own product; `one` has all products on one device, `many` "
        "one on each. `one+fetch` and `many+fetch` bring every result to the host, and "
        "`many+fetch+threads` has a host thread for each device. `h2d` copies from host to "
        "device, `d2h` back.",
        "--cases chooses; what a case is judged by is measured with it",
    ),
    Topic(
        "round", "concept", "the work of a case, once",
        "A sample repeats it until launch and timer cost at most 1 %; times are of one round.",
    ),
    Topic(
        "sample", "concept", "one timed repetition",
        "All of them are in the JSON report, in time order; none is dropped, odd ones have a mark.",
    ),
    Topic(
        "block", "concept", "every case of a comparison, once",
        "In an order that the seed decides, and the next block in reverse. What drifts hits all "
        "cases of a block alike, so ratios are taken inside of blocks.",
        "--seed gives another order and other data",
    ),
    Topic(
        "reference", "concept", "the case that a speed-up is measured against",
        "`one` for `many`, `one+fetch` for `many+fetch`. It runs on the first name, unless another "
        "is over 10 % faster. `against` has its id, and its own row its absolute time.",
    ),
    Topic(
        "anchor", "concept", "a fixed product on each device, in every block",
        "512 x 512 in float32, always of the same numbers. It tells how fast the machine was at "
        "that moment, so that runs of different days can be compared; its rows are in JSON only.",
    ),
    Topic(
        "interval", "concept", "the two figures in brackets",
        "The median of the samples lies between them with 95 % confidence, in this run: exact "
        "ranks, widened by the measured autocorrelation. Another run on a changed machine may well "
        "be outside.",
    ),
    Topic(
        "limit", "concept", "what a figure must be: dot.many.speedup>=1.8",
        "Bench, case and metric of a row, one of >=, <=, > and <, and a figure with its unit; a "
        "ratio may have x or %, or none. Keys in brackets select rows: "
        "transfer.h2d[memory=pinned,name=dev0].peak_bandwidth>=50GB/s. It passes if the whole "
        "interval is on the right side, fails if the whole is on the wrong one, and is "
        "inconclusive else; no row, a skipped or a failed one is no pass.",
        "--limit of `bench` and `transfer-cost`, or a list of them in gpumap.toml",
    ),
    Topic(
        "base", "concept", "a saved report that another one is judged against",
        "`compare` and --base join rows by id, and judge each time and each speed-up: a regression "
        "if the whole interval of new over base is beyond the threshold, an improvement if it is "
        "beyond it on the other side, the same if it is within, and inconclusive else. If raw "
        "times changed and those through the anchor did not, the machine has: inconclusive.",
    ),
    Topic(
        "warm-up", "concept", "rounds before the first sample",
        "They compile, fill caches and raise clocks, until they get no faster.",
    ),
    Topic(
        "ceiling", "concept", "what physics allows a figure to be",
        "`ceiling` has its value, where it is from, and the share that was reached. Above it, by "
        "more than the 5 % that a clock may rise, a row has failed.",
    ),
    Topic(
        "moved", "concept", "x goes to the device for each call of a break-even",
        "And the result comes back. The other answer, `resident`, is for an x that is there.",
    ),
    Topic(
        "resident", "concept", "x is on the device already when a call begins",
        "A break-even is looked for with x moved and with x there: only the result comes back.",
    ),
    Topic(
        "does not fit", "concept", "neither one line nor two describe the copies of a ladder",
        "Some size is more than 15 % off, so the model has no figures; the last column, "
        "misses by, has the largest miss.",
        "raise --budget, and keep the machine idle; a driver that changes its way twice stays so",
    ),
    Topic(
        "confirmed", "concept", "measured once more, with the same verdict",
        "By --confirm: regressions and what is inconclusive are measured again in a fresh process, "
        "and judged by that alone. Where both say the same, the verdict is confirmed; else it "
        "says what came first.",
    ),
    Topic(
        "trace", "concept", "what a program did on its devices",
        "`gpumap trace` runs a script and lists every operation and every transfer of each context "
        "that it opened: where, how many bytes, asked for or not, from when to when. Times are "
        "seen once; a benchmark measures. --perfetto writes it for ui.perfetto.dev.",
    ),
    # --- codes: the map
    Topic(
        "no-map", "code", "no map is given",
        "Neither the command line nor a variable nor a file has one, and this command has no "
        "default.",
        'give one: gpumap check "dev0->cuda0;dev1->cuda1"',
    ),
    Topic(
        "map", "code", "the map does not parse",
        "The code of a map's problem that has none of its own.",
        "the message says what was expected",
    ),
    Topic(
        "empty-map", "code", "the map has no entry",
        "It is empty, or holds nothing but blanks. An empty argument is an empty map, an empty "
        "variable is none.",
        'name at least one device: "dev0->cuda0"',
    ),
    Topic(
        "empty-entry", "code", "nothing between two semicolons, or after the last",
        "Theano drops it without a word; here it may be a name that got lost.",
        'drop one ";"',
    ),
    Topic(
        "empty-name", "code", "nothing before an arrow",
        "Every device has a name.",
        'write one: "dev0->cuda0"',
    ),
    Topic(
        "empty-device", "code", "nothing behind an arrow",
        "Often a shell took the rest: unquoted, it reads what follows > as a file.",
        _SHELL,
    ),
    Topic(
        "no-arrow", "code", "an entry without ->",
        "Another arrow was written, or a shell took it.",
        _SHELL,
    ),
    Topic(
        "two-arrows", "code", "two arrows in one entry",
        "Entries are not separated, or by something else than a semicolon.",
        'separate the entries with ";"',
    ),
    Topic(
        "duplicate-name", "code", "a name stands twice in the map",
        "Both places are shown: one of them would silently win. Two names on one device are "
        "allowed.",
        "rename one of them",
    ),
    Topic(
        "reserved-name", "code", "a name that reads like a device",
        "Names do not begin with cuda or opencl, and are not cpu or cpu with a number.",
        "choose another, such as dev0",
    ),
    Topic(
        "unprintable-name", "code", "a name with characters that cannot be printed",
        "Control characters, or marks that turn the direction of text.",
        "use letters, digits and punctuation only",
    ),
    Topic(
        "inner-space", "code", "a note: a name has a space inside",
        "Legal, here and in Theano.",
        "quote it wherever a shell sees it",
    ),
    Topic(
        "unknown-device", "code", "what is right of an arrow is no device",
        "Often another program's spelling, such as gpu0 or cuda:0; the hint has gpumap's.",
        "write cuda0, cuda@0000:09:00.0, opencl0:0, opencl0:0.1 or cpu0",
    ),
    Topic(
        "index-range", "code", "the number of a device is above 65535",
        "No machine has as many.",
        _LIST,
    ),
    Topic(
        "bad-identity", "code", "neither a PCI bus id nor a UUID behind cuda@",
        "It is written as the driver prints it.",
        "cuda@0000:09:00.0 or cuda@GPU-..., as nvidia-smi -L prints it",
    ),
    # --- codes: where the map and the settings come from
    Topic(
        "source", "code", "where the map is from, or why that cannot be read",
        "As a note it names the place. As an error, a file or variable cannot be read or written.",
        "the message has the path and the system's reason",
    ),
    Topic(
        "default-map", "code", "a note: no map was given, and this one is taken",
        "Every CUDA device; else every OpenCL GPU; else one name for each of two cores.",
        "--map takes one",
    ),
    Topic(
        "unknown-key", "code", "gpumap.toml has a key that is none",
        "A misspelled setting would be ignored in silence.",
        "write it as the hint does, or remove it",
    ),
    Topic(
        "wrong-type", "code", "a value in gpumap.toml is of the wrong type",
        "A text needs quotes, a switch is true or false, and only output and limit may be lists.",
        "write it as the hint does",
    ),
    Topic(
        "cache", "code", "a note: stored noise floors cannot be read or kept",
        "gpumap goes on without them: nothing that is wrong with the cache is an error.",
        "let GPUMAP_CACHE_DIR name a folder of your own",
    ),
    Topic(
        "flags-comment", "code", "THEANO_FLAGS: # begins a comment",
        "Theano drops it and what follows.",
        "remove it, or put the option that it belongs to in single quotes",
    ),
    Topic(
        "flags-spelling", "code", "THEANO_FLAGS: a word that is almost contexts=",
        "Theano does not know it, and uses no map.",
        "write contexts=dev0->cuda0;dev1->cuda1",
    ),
    Topic(
        "flags-stray", "code", "THEANO_FLAGS: an entry of a map that is no option",
        "Theano ignores it, because contexts= is not before it.",
        "write contexts= before it",
    ),
    Topic(
        "flags-comma", "code", "THEANO_FLAGS: a comma ends the map",
        "Theano reads a comma as the end of the option, and ignores the entries after it.",
        'separate the entries with ";"',
    ),
    Topic(
        "flags-repeated", "code", "THEANO_FLAGS: contexts is set more than once",
        "Theano takes the last, and so does gpumap.",
        "keep one",
    ),
    Topic(
        "flags-backslash", "code", "THEANO_FLAGS: Theano drops a backslash",
        "It reads the map without it, and so does gpumap.",
        "remove it",
    ),
    Topic(
        "rc-missing", "code", "THEANORC names a file that is not there",
        "Theano skips it, and so does gpumap.",
        "create it, or take it out of THEANORC",
    ),
    Topic(
        "rc-section", "code", ".theanorc: contexts stands in the wrong section",
        "Theano does not look for it there.",
        "move it to the section [global]",
    ),
    Topic(
        "rc-quotes", "code", ".theanorc: quotes are part of the value",
        "This file needs none; with them the first name begins with a quote.",
        "drop them",
    ),
    Topic(
        "rc-blank", "code", ".theanorc: a blank before a semicolon",
        "In Python 2 it begins a comment, in Python 3 it is part of the map.",
        'no blank before ";"',
    ),
    Topic(
        "rc-comment", "code", ".theanorc: a line that begins with a semicolon is a comment",
        "The entries in it are lost.",
        'put the ";" at the end of the line before',
    ),
    # --- codes: the devices of the map
    Topic(
        "absent", "code", "a name's device, or a backend, is not there",
        "The message has what each backend said when it was asked.",
        _LIST,
    ),
    Topic(
        "break-even", "code", "a note: a dry run lists no break-evens",
        "They are looked for after the copies, at sizes that depend on what is found, so a plan "
        "has no rows of them.",
        "leave --dry-run away",
    ),
    Topic(
        "wrong-backend", "code", "the backend does not drive this kind of device",
        "--backend was given, and an entry of the map asks for another kind.",
        "leave --backend away, or map this name to a device that it drives",
    ),
    Topic(
        "nvml-unavailable", "code", "NVIDIA's management library cannot be asked",
        "Its driver is absent, too old, or not permitted here; memory, clocks and links of GPUs "
        "stay unknown.",
        "the message has the driver's reason, and what would mend it",
    ),
    Topic(
        "shared-silicon", "code", "a warning: names of the map share hardware",
        "They cannot be faster together than one alone.",
        "give each name a device of its own, or expect no speed-up",
    ),
    Topic(
        "budget", "code", "a row was left out, because no time was left",
        "The large sizes of the model's ladder are the first to go.",
        "raise --budget",
    ),
    Topic(
        "left-out", "code", "a note: a backend is not among those that are compared",
        "--backend all measures every usable one; this one cannot be used, and the note says why.",
        "the hint says what would mend it",
    ),
    Topic(
        "same-silicon", "code", "a note: backends drive the same hardware for a name",
        "By its identity: their figures of this name compare like with like.",
        "nothing: this is as it should be",
    ),
    Topic(
        "other-silicon", "code", "a warning: backends drive different hardware for a name",
        "Each backend counts devices in its own order, so the same number is another device: their "
        "figures of this name are not of one thing.",
        "map it by its identity: cuda@0000:09:00.0 or cuda@GPU-...",
    ),
    Topic(
        "quota", "code", "a warning: a container may use fewer cores than the map",
        "The cgroup's quota is below the number of cores that the names stand for: they share it.",
        "raise the quota (docker --cpus, resources.limits.cpu), or map fewer cores",
    ),
    Topic(
        "not-pinned", "code", "a note: threads cannot be bound to cores here",
        "Two cpu names may sit on one core, and their figures vary more.",
        "Linux can",
    ),
    Topic(
        "busy", "code", "someone else uses a device, and --require-idle was given",
        "The message says who: other processes on the cores, or on a GPU of the map. Nothing was "
        "measured, and the exit code is 3.",
        "wait for it to end, or measure without --require-idle",
    ),
    Topic(
        "unused", "code", "a note: the map leaves devices unused",
        "Devices of the same kinds are there, and no name stands for them.",
        "add a name for each, if wished",
    ),
    Topic(
        "simulated", "code", "a note: the fake backend had a part in it",
        "Every figure is scripted, none was measured. Such a report is never compared with a real "
        "one.",
        "leave --backend fake away to measure",
    ),
    Topic(
        "needs", "code", "a name that --needs asks for is not in the map",
        "The exit code is 1.",
        "add it to the map",
    ),
    Topic(
        "distinct", "code", "--distinct: names share hardware",
        "The exit code is 1.",
        "give each name a device of its own",
    ),
    Topic(
        "split", "code", "what is odd about how a batch is split over devices",
        "As a note, devices without an example: there are fewer examples than devices, or nothing "
        "to split. As a warning, examples that the policy leaves out.",
        "take a batch that the number of devices divides",
    ),
    Topic(
        "strict", "code", "--strict: there was a warning",
        "The exit code is 1; the warnings stand above.",
        "mend each, or leave --strict away",
    ),
    Topic(
        "unknown-topic", "code", "no topic of `gpumap explain` has this name",
        "Topics are the words of a report: metrics, causes, flags, statuses and codes.",
        "`gpumap explain` lists them",
    ),
    Topic(
        "false-alarm", "code", "noise alone was called a change",
        "`gpumap selftest` measured the same work as A and as B, and was told that they differ by "
        "over 5 %. The exit code is 1.",
        "end what else runs on this machine; until then believe no small change",
    ),
    Topic(
        "inconclusive", "code", "too little is known for a verdict",
        "The runs are too few or too uncertain to say, or a limit lies inside of the interval, or "
        "the row that would meet it is unstable. Against a base the threshold lies inside of the "
        "interval, or the machine has changed. The exit code is 5.",
        "give it more time with --budget; --confirm measures it once more",
    ),
    Topic(
        "regression", "code", "a figure is worse than in the base",
        "The whole interval of new over base is beyond the threshold. The exit code is 1.",
        "find what changed; if it is meant, gpumap compare BASE NEW --accept REASON",
    ),
    Topic(
        "new", "code", "a row was measured that the base does not have",
        "It is held against nothing, so nothing has passed. The exit code is 1.",
        "measure a new base, or let it pass with --allow-missing",
    ),
    Topic(
        "nothing-judged", "code", "two reports have no figure in common",
        "A comparison of nothing is no pass: the exit code is 1.",
        "compare two reports of one command line",
    ),
    Topic(
        "not-comparable", "code", "a report of which nothing can be concluded",
        "Its run did not come to its end, measured nothing or wrong data, or one of both reports "
        "is simulated and the other is real. The exit code is 2.",
        "measure it again",
    ),
    Topic(
        "other-machine", "code", "the base was measured on another machine",
        "The message has what differs: processor, libraries, drivers, devices, or which device a "
        "name is. The exit code is 2; as a warning, with --other-machine, it is why there are no "
        "verdicts.",
        "measure a base on this machine",
    ),
    Topic(
        "not-confirmed", "code", "a warning: --confirm could not measure once more",
        "What was suspicious stays so. The message has the reason.",
        "measure it yourself, and compare that",
    ),
    Topic(
        "compared", "code", "a note: what a comparison stands on",
        "Such as the threshold that counts, rows without an anchor, variables that were set "
        "otherwise, or that it was measured once more.",
        "`gpumap selftest` finds a noise floor where none is stored",
    ),
    Topic(
        "accepted", "code", "a note: a report was put in the place of its base",
        "By --accept. When, why, and what the verdicts were stands in the file, in `accepted`.",
        "the file of the new report is still there, too",
    ),
    Topic(
        "limit", "code", "a figure is not what --limit asks for",
        "Its whole interval is on the wrong side. The message has the row, its figure and the "
        "limit; the exit code is 1. Also how a limit is written wrong, with its place.",
        "look for the cause under the table, or ask for less",
    ),
    Topic(
        "missing", "code", "no figure was there to judge by",
        "No row has what a limit selects, or what the base has, or the row was skipped or failed. "
        "The exit code is 1: what was not measured is no pass.",
        "--dry-run lists the rows; --allow-missing lets those pass that the base has alone",
    ),
    Topic(
        "selector", "code", "a limit names a benchmark, case, key or metric that is none",
        "It is written as bench, case and metric, with keys in brackets where wished.",
        "the message has the place, and what there is",
    ),
    # --- codes: measuring, and how a run ends
    Topic(
        "question", "code", "an option asks for what makes no sense",
        "Of one option, or of two that exclude each other.",
        "the message ends in the fix",
    ),
    Topic(
        "too-much-memory", "code", "the plan needs more memory than is free",
        "It is estimated before any is taken, on each device and on the host; a tenth is left to "
        "the system.",
        "choose a smaller size, or free memory",
    ),
    Topic(
        "unsupported", "code", "a backend or device cannot do this",
        "Such as pinned memory on a processor, or a type that it has no products of. As a row's "
        "reason it is skipped; asked for by an option it is an error. Nothing else is done "
        "instead.",
        "use what it has, or another --backend",
    ),
    Topic(
        "context", "code", "a context of the Python API that cannot be used",
        "It is closed, it was opened before the process was forked, or an array of another context "
        "was given to it.",
        "use arrays while their context is open; move those of another one by .numpy()",
    ),
    Topic(
        "target", "code", "a name of the Python API that the map has not",
        "Targets are the names of the map, and cpu for host memory; devices are none.",
        "name one of those that the message lists",
    ),
    Topic(
        "shape", "code", "operands of the Python API whose shapes do not fit",
        "Shapes are equal, or one is the end of the other: (5,) fits to (10, 5). Products take two "
        "matrices.",
        "reshape before sharing",
    ),
    Topic(
        "dtype", "code", "elements of a type that the Python API does not have there",
        "float32 everywhere; float16 and float64 where the device has them; one type in one "
        "operation.",
        "convert by .astype() before sharing",
    ),
    Topic(
        "implicit-transfer", "code", "an array is not where an operation, or NumPy, needs it",
        "Under the strict policy nothing is moved that the program does not move.",
        "move it before, by .transfer() or .numpy(), or open with the visible policy",
    ),
    Topic(
        "same-device", "code", "a further name of a device that is measured under its first name",
        "Copies to one device cost the same whatever it is called. All names at once are measured "
        "together.",
        "look at the row of the first name",
    ),
    Topic(
        "one-device", "code", "a case of several devices, and the map has one name",
        "Its row is skipped: a speed-up needs two.",
        "map a second name",
    ),
    Topic(
        "stopped", "code", "the run ended before this case was measured",
        "The time limit, an interruption, an error or the budget came first.",
        "raise --timeout or --budget, or measure fewer sizes",
    ),
    Topic(
        "device", "code", "a device failed",
        "Its driver gave an error; the message has its words.",
        "`gpumap check` opens every device of a map, and moves bytes there and back",
    ),
    Topic(
        "device-lost", "code", "a device no longer answers",
        "It was there and opened, and then its driver lost it.",
        "look at the system log (dmesg); `gpumap check` tells when it is back",
    ),
    Topic(
        "out-of-memory", "code", "a device has no room for a buffer",
        "The plan would have fitted: others took the memory, or it is in pieces.",
        "choose a smaller size, or free the device's memory",
    ),
    Topic(
        "no-host-memory", "code", "pinned or mapped host memory is not to be had",
        "The backend has such memory, and the system gave none: it may be limited, or used up. The "
        "row is skipped; another kind is never taken instead.",
        "choose a smaller size, or allow more locked memory (ulimit -l)",
    ),
    Topic(
        "wrong-data", "code", "bytes or a product are not what they must be",
        "The first wrong byte, or the error and its bound, are in the message. The row has no "
        "speed, and the exit code is 4.",
        "do not trust this device: check its memory, cable and driver",
    ),
    Topic(
        "over-ceiling", "code", "a figure is above what is possible",
        "The reason of a row that failed: the message has the figure, its ceiling, and where that "
        "is from.",
        "do not use the figure; report it with the JSON",
    ),
    Topic(
        "timeout", "code", "the time limit was reached",
        "The message has what was being done: often a driver that hangs.",
        "raise --timeout, or ask for less",
    ),
    Topic(
        "interrupted", "code", "someone ended the run",
        "By Ctrl-C, SIGTERM or SIGHUP; the exit code is 130.",
        "start it again",
    ),
    Topic(
        "syntax", "code", "a script that is not Python",
        "The message has the line. Nothing ran.",
        "mend it: Python itself says the same",
    ),
    Topic(
        "script", "code", "a traced script did not end well",
        "It ended with an exception, whose traceback is on stderr, or with an exit code that is "
        "not 0. What it did until then is in the trace. The exit code is 1.",
        "mend the script; its own output says why",
    ),
    Topic(
        "no-context", "code", "a traced script opened no context",
        "Only what runs by gpumap's contexts is traced, and in this process alone: not what other "
        "processes do that the script starts.",
        "open one in the script: with gpumap.open() as context",
    ),
    Topic(
        "diagnosis", "code", "doctor found a name partly used, or not used",
        "The message has the code of the cause, such as GM102, and what shows it. The exit code "
        "is 1; 3 where the device is not there or fails, 4 where its answers are wrong, 5 where no "
        "time was left to look.",
        "do as the fix says; `explain` has a page for each code",
    ),
    Topic(
        "works-here", "code", "a note: a map that can be used on this machine",
        "A name of the map has no device; what is there is named.",
        "ask `doctor` about that map",
    ),
    Topic(
        "hangs", "code", "a device did not answer while doctor used it",
        "The process that used it was ended; the other names were looked at all the same.",
        "look at dmesg; load the driver again, or restart the machine",
    ),
    Topic(
        "crashes", "code", "a driver ended the process in which doctor used its device",
        "The other names were looked at in a new one.",
        "remove or update the driver",
    ),
    Topic(
        "probe-failed", "code", "doctor's own probes did not come to an end",
        "The process that used the device ended with an error; its last line is in the text.",
        "report it with that line",
    ),
    Topic(
        "no-time", "code", "no time was left for the probes of a name",
        "Other names, or drivers that do not answer, took all of it.",
        "raise --timeout, or ask about fewer names",
    ),
    Topic(
        "internal", "code", "an error of gpumap's own",
        "The exit code is 70, and a traceback is in the file that stderr names.",
        "report it with that file",
    ),
)  # fmt: skip
