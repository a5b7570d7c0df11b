"""The figures of a row."""

from __future__ import annotations

from gpumap.judge.topics.topic import Topic

TOPICS = (
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
        "bus_bandwidth", "metric", "the bandwidth that the links of an exchange must have",
        "Of an allreduce of S bytes between N ranks 2 (N - 1) / N S over the median time, in B/s; "
        "higher is better. With this factor (that of nccl-tests) the figure can be held against "
        "what a link carries, whatever N is; `bandwidth` is S over the time.",
        "larger exchanges come closer to the link; so does another algorithm",
    ),
    Topic(
        "speedup", "metric", "how many times as fast as its reference a case is",
        "The time of the reference over the time of the case, one ratio for each block and the "
        "median of those, without a unit; higher is better. In `bench dot` both do the same work, "
        "and `ideal` is its ceiling. In `transfer-cost`, where the column is all/one, it is what "
        "all names move together over what the first one moves alone. In `bench allreduce` it is "
        "over the library's own, `native`; of fused tensors over the same ones exchanged apart. In "
        "`bench train` it is the examples per second over those of one device.",
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
        "because it idled or its caches were cold (said of rows without fetches). Below 0.9 a "
        "cause stands under the table. In "
        "`bench train` it is the speed-up over the number of devices, without a cause: the column "
        "binds says what takes the time.",
        "look at the cause: `gpumap explain` lists all of them",
    ),
    Topic(
        "ideal", "metric", "the speed-up that this placement can reach at best",
        "The time of `one` over the time that the busiest hardware needs for its own products, by "
        "the solo times of the same blocks, without a unit; neither high nor low is better. Names "
        "that share hardware take turns, so two names on one device have an ideal of 1. It is the "
        "ceiling of the speed-up. Where results are fetched it is of `one+fetch`, and each device "
        "has its own fetches to do, as long as those of `one+fetch`.",
        "it rises with more distinct devices, and with devices that are equally fast",
    ),
    Topic(
        "ideal_balanced", "metric", "the ideal if the work were split by speed",
        "The sum of the solo rates over the best of them, without a unit; neither high nor low is "
        "better. It is there where solo times are more than 10 % apart, by the whole interval of "
        "their ratio: an equal split then ends with the slowest device, and another split would "
        "reach this.",
        "give each device work in proportion to its solo rate",
    ),
    Topic(
        "overlap", "metric", "how long all devices worked at once",
        "The time in which every device worked over the time of the least busy one, without a "
        "unit; higher is better, and 1 is its ceiling. It is read from `intervals`. On processors "
        "1 proves little: two workers may sit on one core, which `cpu_s` shows.",
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
        "issue_interval", "metric", "seconds from one queued operation to the next",
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
        "n_half", "metric", "the bytes of a copy that reaches half of the peak bandwidth",
        "The latency times the peak bandwidth, in B; lower is better.",
    ),
    Topic(
        "size_90", "metric", "the bytes of a copy that reaches 90 % of the peak bandwidth",
        "Nine times the half size, in B; lower is better.",
    ),
    Topic(
        "break_even", "metric", "the bytes from which a device beats the host",
        "Of x, the input of a call that is computed on the device, copies and all, and by NumPy on "
        "all cores of the host: where the device wins for the first time, in B; lower is better, "
        "infinite if it never does. Between two sizes it is interpolated, and its interval is made "
        "of those of the ratios beside it; where the device never wins, but the host not clearly "
        "everywhere, it begins there. `wins` lists every range.",
    ),
    Topic(
        "predicted_break_even", "metric", "the bytes from which a device should beat the host",
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
        "later one saves against `host`; infinite where no later call is clearly faster, also if "
        "none is clearly slower: `speedup_over_host` of `fused` tells these apart.",
    ),
    Topic(
        "examples_per_s", "metric", "training examples per second",
        "The examples of a step, of all devices together, over its median time, in 1/s; higher is "
        "better. Of `compute` it is what the gradient alone would allow, of `step` what training "
        "does. The speed-up of `bench train` is the ratio of two of these.",
        "a larger --batch-per-device gives a device more to do for each exchange",
    ),
    Topic(
        "input", "metric", "seconds that making the examples takes",
        "What a worker needs to make its part of a batch on the host, its mean over the workers, "
        "for 5120 examples, in s; lower is better. With --input kept one batch is made before; "
        "what remains is what a device waits for the host's calls from one step to the next.",
        "if the row is bound by it, --input kept shows what a program without it would do",
    ),
    Topic(
        "transfer", "metric", "seconds that copying examples to the devices takes",
        "The mean over the workers, for 5120 examples, in s; lower is better. It is counted until "
        "the device has the batch, and apart from the exchange between devices, which is `comm`.",
        "`gpumap transfer-cost` has the price of a copy; smaller examples need less of it",
    ),
    Topic(
        "compute", "metric", "seconds that the gradient takes, forward and back",
        "The mean over the workers, for 5120 examples, in s; lower is better. The column "
        "train+comm adds `update` to it. Its arithmetic is the row's `rate`.",
        "look at the row `compute`, which measures nothing else",
    ),
    Topic(
        "sync", "metric", "seconds that workers wait for the last one",
        "From the end of a worker's own part until the last of those with whom it exchanges is "
        "ready, and at the end of a sample until the last one is done: the mean over the workers, "
        "for 5120 examples, in s; lower is better. All rules run in lock-step here: easgd and "
        "gosgd wait too, for the worker that they meet or push to. One device has none.",
        "give slower devices less to do: a smaller part of the batch, or no name in the map",
    ),
    Topic(
        "comm", "metric", "seconds that devices spend exchanging results",
        "In `bench train` the exchange itself, from where the last who takes part is ready: the "
        "mean over the workers, for 5120 examples, in s; lower is better. Waiting for that one is "
        "`sync`. `predict` has it for one step. In ids of `bench allreduce` and `bench train` comm "
        "is what carries the exchange: local, mpi or nccl.",
        "a larger --batch-per-device exchanges less often; so does --rule easgd",
    ),
    Topic(
        "update", "metric", "seconds that the optimizer takes to change the parameters",
        "The mean over the workers, for 5120 examples, in s; lower is better. It grows with the "
        "parameters, and not with the examples of a step: a larger batch needs less of it.",
    ),
    Topic(
        "moved", "metric", "bytes that workers exchange for 5120 examples",
        "All that goes from a worker to another, of all workers together, by the algorithm's own "
        "schedule, in B; lower is better. Of `native` it is what a ring would move, which a "
        "library need not do; of `gosgd` what is to be expected. It is counted, not measured, so "
        "its interval has no width.",
        "a larger --batch-per-device exchanges less often; so does --rule easgd",
    ),
    Topic(
        "loss", "metric", "how wrong a network still is after so many examples",
        "The mean loss of 1024 examples that were never trained on, after those of --learn, "
        "without a unit; lower is better. The host computes it from the parameters that were "
        "trained. It comes from one training, so its interval has no width: compare rows with the "
        "same seed. A network of your own has none.",
        "train on more examples (--learn), or change --rate",
    ),
)  # fmt: skip
