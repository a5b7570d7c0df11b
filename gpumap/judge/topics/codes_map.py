"""The codes of a map, of where it comes from, and of its devices."""

from __future__ import annotations

from gpumap.judge.topics.topic import Topic

_SHELL = 'quote the map, a shell reads ">" and ";": "dev0->cuda0;dev1->cuda1"'
_LIST = "`gpumap devices` lists the devices that are there, as a map writes them"

TOPICS = (
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
        "output", "code", "a note: a configuration file names where the report goes",
        "It is said with --quiet too. The place is below the folder of that file.",
        "remove `output` from the file to write no report, or name another place",
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
    Topic(
        "theano-default-device", "code", "a note: Theano has a default device, and no map",
        "device=cuda0 sends all work to that device: it is used without a map. gpumap measures "
        "what a map names.",
        'check the device by a map: gpumap check "dev0->cuda0"',
    ),
    Topic(
        "theano-no-default", "code", "a note: contexts without device moves nothing by itself",
        "Inputs and shared variables stay on the processor unless a target names a context; a "
        "function of such inputs is computed there.",
        'set target="dev0", or device=cuda0 for all work',
    ),
    Topic(
        "theano-lost-name", "code", "Theano prints a name as mapped and does not define it",
        "Theano 1.0 defines one context for each text of a device: the first of device= and the "
        "entries has it. The first use of a later name raises: context name dev0 not defined.",
        "remove device=, and give each name a device of its own",
    ),
    Topic(
        "theano-device", "code", "Theano refuses the option device when it is imported",
        "It takes cpu, and what begins with cuda or opencl; a name of the map is none of these.",
        "write device=cuda0, or remove it and name the context as target",
    ),
    Topic(
        "theano-silent", "code", "a note: print_active_device=False hides the lines of names",
        "Theano prints no Mapped line then, and nor does `check` for a map of Theano's settings; "
        "the report has them.",
        "remove print_active_device=False to see them",
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
        "shared-hardware", "code", "a warning: names of the map share hardware",
        "They cannot be faster together than one alone.",
        "give each name a device of its own, or expect no speed-up",
    ),
    Topic(
        "budget", "code", "a row was left out, because no time was left",
        "A row is measured if there is time for 6 blocks of it and of all rows that matter more: "
        "`one` and `many` before `solo`, and sizes that were asked for before the sizes of the "
        "model. The most important row is always measured.",
        "raise --budget",
    ),
    Topic(
        "left-out", "code", "a note: a backend is not among those that are compared",
        "--backend all measures every usable one; this one cannot be used, and the note says why.",
        "the hint says what would mend it",
    ),
    Topic(
        "same-hardware", "code", "a note: backends drive the same hardware for a name",
        "By its identity: their figures of this name compare like with like.",
        "nothing: this is as it should be",
    ),
    Topic(
        "other-hardware", "code", "a warning: backends drive different hardware for a name",
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
        "assumed", "code", "a note: what a dry run takes for granted",
        "--dry-run opens no device. What each can do is what its driver lists; where the fastest "
        "device, or its speed, decides a case, the first one stands for it, at any speed.",
        "run without --dry-run to know",
    ),
    Topic(
        "opencl-vendors", "code", "a note: what OpenCL's loader is told of Intel's runtime",
        "pip has installed it, and the file that tells the loader of it is wrong: a folder in "
        "gpumap's cache has a right one beside the system's, and OCL_ICD_VENDORS names it to "
        "gpumap and to what it starts. Where that cannot be done, the note says why.",
        "set OCL_ICD_VENDORS yourself, and gpumap leaves it alone",
    ),
    Topic(
        "other-package", "code", "a warning: another project has installed a package gpumap here",
        "On the package index the name gpumap is another project's. Both have files in one folder, "
        "so each may have overwritten the other's.",
        "remove the other one, then install this gpumap again: the hint has both lines",
    ),
    Topic(
        "busy", "code", "someone else uses a device, and --require-idle was given",
        "The message says who: other processes on the cores, or on a GPU of the map. Nothing was "
        "measured, and the exit code is 3.",
        "wait for it to end, or measure without --require-idle",
    ),
    Topic(
        "cpu-contention", "code", "a warning: other processes use the cores that the run needs",
        "Before it measured they kept more than a tenth of the cores of the map's devices busy; "
        "where a device has none, of all cores that it may run on. The message names the programs.",
        "wait for them to end; --require-idle measures nothing while they run",
    ),
    Topic(
        "unused", "code", "a note: the map leaves devices unused",
        "Devices of the same kinds are there, and no name stands for them.",
        "add a name for each, if wished",
    ),
    Topic(
        "no-gpu-record", "code", "a note: no figure of gpumap's own is from a GPU yet",
        "The CUDA path is tested over a stand-in for CuPy. docs/measured has no record of a GPU.",
        "run `make gpu` in gpumap's repository",
    ),
    Topic(
        "simulated", "code", "a note: a script, a simulator or a stand-in had a part in it",
        "No figure is of hardware: it is of the fake backend's script, of a driver that simulates "
        "a device, such as Oclgrind, or of a processor in a GPU's place. Such a report is never "
        "compared with a real one.",
        "map a device that is hardware to measure it",
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
        "There are too few samples, or the limit or the threshold is inside the interval. The "
        "exit code is 5.",
        "raise --budget; --confirm measures more samples",
    ),
    Topic(
        "regression", "code", "a figure is worse than in the base",
        "The lower end of the slowdown is above the threshold. The exit code is 1.",
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
        "The message has what differs: processor, cores, devices, or which device a name is. The "
        "exit code is 2; as a warning, with --other-machine, it is why there are no verdicts.",
        "measure a base on this machine",
    ),
    Topic(
        "not-confirmed", "code", "a warning: --confirm could not measure once more",
        "The verdicts are those of the first samples. The message has the reason.",
        "measure it yourself, and compare that",
    ),
    Topic(
        "compared", "code", "a note: what a comparison stands on",
        "Such as rows without a control product, a control product that changed, unstable rows, "
        "other versions or variables, or that a second run was added.",
        "no fix is needed: the verdicts stand; a note may say why they are what they are",
    ),
    Topic(
        "accepted", "code", "a note: a report was put in the place of its base",
        "By --accept. When, why, and what the verdicts were stands in the file, in `accepted`.",
        "the file of the new report is still there, too",
    ),
    Topic(
        "edited", "code", "a warning: the report was edited after gpumap wrote it",
        "Its `digest` is that of another text. It was read all the same, by --accept-edited.",
        "measure again: a report that was edited proves nothing",
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
)  # fmt: skip
