"""What reports stand on, the routes of copies, and the verdicts."""

from __future__ import annotations

from gpumap.judge.topics.topic import Topic

_LIST = "`gpumap devices` lists the devices that are there, as a map writes them"

TOPICS = (
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
        "Of a limit: the whole interval is on its right side. Of a base: the upper end of the "
        "slowdown is below --threshold, and nothing became slower relative to its control.",
    ),
    Topic(
        "fail", "verdict", "the limit is not met",
        "The whole interval is on the wrong side, the figure is no number, or the row has failed; "
        "the exit code is 1.",
        "see what holds the row back, or ask for less",
    ),
    Topic(
        "regression", "verdict", "worse than the base by more than the threshold",
        "The lower end of the slowdown is above it, for all metrics together (Holm): the work "
        "became slower relative to its control product, or the device did. The exit code is 1.",
        "find what changed; if it is meant: `compare` with --accept",
    ),
    Topic(
        "improvement", "verdict", "better than the base by more than the threshold",
        "The whole interval lies beyond it. Nothing has to be done.",
        "a new base keeps it: `compare` with --accept",
    ),
    Topic(
        "inconclusive", "verdict", "the figures are too uncertain to tell",
        "The limit or the threshold is inside the interval, there are too few samples for one, or "
        "the ratio was impossible; the exit code is 5.",
        "raise --budget, and keep the machine idle; --confirm measures more samples",
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
        "hardware", "concept", "what two devices may share",
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
        "rank", "concept", "one of those who take part in an exchange",
        "A device of one process (`local`, `nccl`), or a process (`mpi`). The ranks of a node take "
        "the names of the map in their order.",
        "mpirun -n 2 gpumap bench allreduce starts two",
    ),
    Topic(
        "wire", "concept", "the type in which elements travel in an exchange",
        "float32; or, between processes, float16: half the bytes, each element rounded when it is "
        "sent, and the sum in float32. Bandwidths count the bytes of float32.",
        "--wire chooses",
    ),
    Topic(
        "tensors", "concept", "the arrays into which the bytes of an exchange are split",
        "As the layers of a network are. They go one by one, and copied into one buffer and back: "
        "column `fused`.",
        "--tensors chooses how many",
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
        "`one` for `many`, `one+fetch` for `many+fetch`. It runs on the first name, unless two "
        "quick looks say that another is over 10 % faster, or over 50 % where both are of one "
        "model. With `--base` it stays where it was, up to 50 %. `against` has its id, and its own "
        "row its absolute time.",
    ),
    Topic(
        "control", "concept", "a fixed product on each device, in every block",
        "512 x 512 in float32, always of the same numbers. It tells how fast the machine was at "
        "that moment, so that runs of different days can be compared; its rows are in JSON only.",
    ),
    Topic(
        "interval", "concept", "the two figures in brackets",
        "The median of the samples lies between them with 95 % confidence, in this run: exact "
        "ranks, widened by the measured autocorrelation. Another run on a changed machine may well "
        "be outside. Fewer than six samples have no interval: `low` and `high` are null in JSON, "
        "no cause or verdict is given, and the run is inconclusive.",
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
        "if the whole interval of new over base, corrected for their number, is beyond the "
        "threshold, no change if its bound is within it, and inconclusive else. Where the control "
        "product became slower too, the device did: a regression all the same.",
    ),
    Topic(
        "warm-up", "concept", "rounds before the first sample",
        "They compile, fill caches and raise clocks, until they get no faster.",
    ),
    Topic(
        "ceiling", "concept", "what physics allows a figure to be",
        "`ceiling` has its value, where it is from, and the share that was reached. Above it, by "
        "more than the 5 % that a clock may rise, a row is flagged over-ceiling or has failed. "
        "Ratios have ceilings too: see `gpumap explain impossible`.",
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
        "trace", "concept", "what a program did on its devices",
        "`gpumap trace` runs a script and lists every operation and every transfer of each context "
        "that it opened: where, how many bytes, asked for or not, from when to when. Times are "
        "seen once; a benchmark measures. --perfetto writes it for ui.perfetto.dev.",
    ),
    Topic(
        "Theano's ratio", "concept", "many with fetches over one without, under a table",
        "As Theano's example was timed: the case of several devices pays for its fetches, and the "
        "reference does not. `gpumap explain speedup_over_one` has the figure.",
    ),
    Topic(
        "busy", "concept", "the share of the machine's time in which its cores worked",
        "In the last line of a report: just before it measured, all cores together, whoever used "
        "them. `cpu-contention` tells what others used while it measured.",
        "end what is not needed; --require-idle measures nothing while others use the cores",
    ),
    Topic(
        "stolen", "concept", "the share of the time that the hypervisor gave to others",
        "Of a virtual machine, as Linux counts it (steal): a core was wanted here, and another "
        "machine on the same hardware had it. No process of this machine is to be seen at it.",
        "measure at another time, or on a machine of one's own",
    ),
    Topic(
        "load", "concept", "the load average of one minute, before anything was measured",
        "How many processes ran or waited to run, as the command uptime shows it. Above the number "
        "of cores they wait for each other.",
        "wait until it falls; --require-idle measures nothing while others use the cores",
    ),
)  # fmt: skip
