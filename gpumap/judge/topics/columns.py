"""The columns of the tables that are no metric."""

from __future__ import annotations

from gpumap.judge.topics.topic import Topic

TOPICS = (
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
        "The examples of a step, or of a published time, over that time. In `bench train` it is "
        "the metric `examples_per_s`.",
    ),
    Topic(
        "train+comm", "column", "what is computed and updated, and what is exchanged",
        "Seconds for 5120 examples, as Theano-MPI's table has them: first the metrics `compute` "
        "and `update`, then `comm`. Where nothing is exchanged the second part is missing.",
        "where the second part is the larger one, exchange less often: a larger batch",
    ),
    Topic(
        "wait", "column", "what a device waits for its examples",
        "Seconds for 5120 examples: the metrics `input` and `transfer`. Nothing overlaps: what is "
        "prepared beside the step in other programs is seen whole here.",
    ),
    Topic(
        "binds", "column", "what most of a step's time goes into",
        "The largest of compute (with the update), input, transfer, communication (`comm`) and "
        "synchronisation (`sync`): where a faster part gains most.",
    ),
    Topic(
        "rule", "column", "how the devices train together",
        "bsp with its algorithm, easgd or gosgd; a dash on one device, which exchanges nothing.",
        "each rule has a topic, such as `gpumap explain easgd`",
    ),
    Topic(
        "loss", "column", "how wrong the network still is after the examples of --learn",
        "The metric `loss`: on examples that were never trained on.",
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
        "A row of a published table: AlexNet-128b is AlexNet at 128 examples a device. In `bench "
        "train` it is the network alone; the examples stand in the heading.",
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
        "A fixed cost for each, and the bytes over a bandwidth. The row itself was left out.",
    ),
    Topic(
        "y", "column", "what is computed by the calls of a break-even",
        "`affine` is x.w + b, with weights that are on the device; `product` is a square product.",
    ),
    Topic(
        "x", "column", "the size of x in the table of calls",
        "Each call takes x along and brings the result back.",
    ),
    Topic(
        "x moved each call", "column", "the break-even of calls that take x along",
        "The metric `break_even` of `moved` calls, against the host with all of its cores: each "
        "brings x to the device and the result back. `never` where no size that was looked at is "
        "faster, and 'not up to' the largest one where time or memory ended the search there. "
        "Sizes are those of x; the weights are there.",
    ),
    Topic(
        "x stays on the device", "column", "the break-even of calls that find x there",
        "As `x moved each call`, of `resident` calls: only the result is copied.",
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
        "n1/2", "column", "the bytes of a copy that reaches half of the peak bandwidth",
        "The metric `n_half` of the model.",
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
        "error", "column", "the largest rounding error of a result, as a share of what is allowed",
        "0.053 < 1: no element is further from its float64 reference than 0.053 times what "
        "rounding may do to that element; above 1 it is wrong. What is allowed follows from the "
        "type, the size and the element, and never from the report.",
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
        "bus", "column", "the bandwidth that the links of an exchange must have",
        "The metric `bus_bandwidth`.",
    ),
    Topic(
        "fused", "column", "whether the tensors of an exchange go as one",
        "yes: they are copied into one buffer, which is exchanged, and back; no: one exchange "
        "behind the other.",
        "fuse what is small: every exchange has its latency",
    ),
    Topic(
        "check", "column", "whether every byte came back",
        "The destination is filled with wrong bytes first, and compared byte for byte. A failure "
        "names the first byte that differs.",
    ),
    Topic(
        "n", "column", "the number of samples",
        "One for each block. Correlated ones are worth fewer: `effective_n` in JSON. Of fewer than "
        "6 there is no interval: figures have ~, and the row is few.",
    ),
    Topic(
        "trust", "column", "what the figures of a row are worth, in a word",
        "ok; noisy: half of the interval of its time is over 5 %, or a flag questions it; few: "
        "fewer than 6 samples, no interval and no verdict; else its status, such as failed. What "
        "its flags mean is below the table.",
        "for few and noisy rows raise --budget, and keep the machine idle",
    ),
    Topic(
        "of ideal", "column", "the share of the ideal that the speed-up reached",
        "The metric `efficiency`; -v and JSON have its interval.",
    ),
    Topic(
        "status", "column", "ok, or the flags that a row has, or failed",
        "With -v. A row that has flags shows them in place of ok.",
        "each flag has a topic, such as `gpumap explain unstable`",
    ),
    Topic(
        "figure", "column", "what a limit was held against",
        "The figure of the row with its interval, in the unit of its metric.",
    ),
    Topic(
        "verdict", "column", "what a figure says to a limit, or to its base",
        "Of a limit: pass, fail, inconclusive, missing where nothing was measured, and skipped "
        "where nothing could be, which --if-absent allowed. Against a base: regression, "
        "improvement, pass, inconclusive, missing and new where only one report has the row, and "
        "skipped where the base is another machine's.",
        "see `gpumap explain limit` and `gpumap explain base`",
    ),
    Topic(
        "new/base", "column", "how a figure changed: the new one over that of the base",
        "With its interval. A time is judged as it is and relative to its control product; above "
        "1 it is slower, and a speed-up is less below 1.",
    ),
    Topic(
        "threshold", "column", "the change that counts",
        "The value of --threshold: a smaller slowdown passes.",
    ),
    Topic(
        "ran", "column", "an operation or a transfer of a program",
        "In the result of `trace`: the name of the operation, or upload, download and copy. Events "
        "of the same name, at the same place, asked for or not, are one row.",
    ),
    Topic(
        "moved", "column", "a transfer that nobody asked for",
        "An operand was elsewhere, so it was copied to where the operation runs. Copies of one "
        "shape on one way are one row, the most expensive row first. In `bench train` it is the "
        "metric of this name: the bytes that workers exchange for 5120 examples.",
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
)  # fmt: skip
