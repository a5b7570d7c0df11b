"""The codes of measuring, and of how a run ends."""

from __future__ import annotations

from gpumap.judge.topics.topic import Topic

TOPICS = (
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
        "The time limit, an interruption or an error came first.",
        "raise --timeout, or measure fewer sizes",
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
        "diverged", "code", "what is trained is no longer a number",
        "A worker's parameters are infinite or NaN: its steps were too long, or the network "
        "computes what it should not. The row has no figures, and the exit code is 4.",
        "lower --rate, take --warmup, or look at what the network computes",
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
        "nothing-to-diagnose", "code", "a note: no map and no GPU, and the CPU works",
        "`doctor` chose the cores itself, used them, and verified every result. Nobody asked for a "
        "device, so that none is unused: the exit code is 0.",
        'name devices to have them diagnosed: gpumap doctor "dev0->cuda0"',
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
        "rank-lost", "code", "a process that took part in an exchange died",
        "It is named with its node, its number and its process. What was measured before is in the "
        "report; the exit code is 3. mpirun ends the other ranks.",
        "look at its output and at dmesg: a process without memory left is killed",
    ),
    Topic(
        "several", "code", "a note: one of several processes, each of which reports for itself",
        "Those of `gpumap run` measure at the same time, each on its own device: what they share, "
        "memory and links, shows in the figures of all. Ranks of `check` without MPI between them "
        "do not know of each other: two may have one device.",
        "measure them in one process: gpumap bench dot --map ...; check them over MPI: "
        "mpirun -n 2 gpumap check ...",
    ),
    Topic(
        "session", "code", "a note: what of a session file is missing, or not taken",
        "`gpumap run --cfg` reads its keys as data. What has no meaning here is named and ignored; "
        "what is missing has the default of `bench train`.",
        "write the key, or give an option of bench train behind --",
    ),
    Topic(
        "unassigned-names", "code", "a note: names of the map that no rank was started for",
        "The ranks of a node take the first names of the map. The others are not measured.",
        "start a rank for each name: mpirun -n 2 gpumap bench allreduce",
    ),
    Topic(
        "nodes", "code", "a note: which host each node of an exchange is",
        "The names of ranks on several nodes have the number of their node, not its name, so that "
        "reports can be compared.",
        "start the ranks on the same hosts in the same order, to compare them",
    ),
    Topic(
        "internal", "code", "an error of gpumap's own",
        "The exit code is 70, and a traceback is in the file that stderr names.",
        "report it with that file",
    ),
)  # fmt: skip
