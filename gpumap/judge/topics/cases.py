"""What a benchmark measures, and the keys that tell its rows apart."""

from __future__ import annotations

from gpumap.judge.topics.topic import Topic

TOPICS = (
    # --- cases
    Topic(
        "solo", "case", "one device with its own product, alone",
        "There is one for each name. The times say which devices are unequal, and what is ideal. "
        "Of a chain it is the device with its own rows of `many`.",
    ),
    Topic(
        "one", "case", "the products of all names, on one device",
        "The reference of `many`: the name that --reference gives, with --base the baseline's. "
        "Else the first name; of several models the first that none is over 10 % faster than.",
    ),
    Topic(
        "many", "case", "one product on each device, all at once",
        "Its speed-up is over `one`; below 90 % of its ideal it has a cause. Of a chain the rows "
        "are split over the names, and the speed-up is over `fused`.",
    ),
    Topic(
        "fused", "case", "a chain of operations in one kernel, on the reference",
        "Each number is read once and written once. Its speed-up is over `separate`.",
    ),
    Topic(
        "separate", "case", "the same chain, one kernel for each operation",
        "A product, then four kernels that change its result in place: each reads and writes "
        "everything once more.",
    ),
    Topic(
        "host", "case", "a chain by NumPy, or an allreduce that is summed, in host memory",
        "Of `bench chain`: the product uses all cores; NumPy's elementwise functions use one. No "
        "device takes part: `names` has the one that it is held beside. Of `bench allreduce`: "
        "every buffer comes to the host, is added there, and the sum goes back; of processes "
        "rank 0 does that.",
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
        "see `gpumap explain break_even`",
    ),
    Topic(
        "product", "case", "y = x.w of square matrices on a device, against the host",
        "As `affine`, with more arithmetic for each byte: it pays from smaller sizes on. The "
        "control is a product, too.",
        "see `gpumap explain break_even`",
    ),
    Topic(
        "native", "case", "an allreduce by the library's own algorithm",
        "MPI's Allreduce, the reference of all others; or NCCL's.",
    ),
    Topic(
        "ring", "case", "an allreduce in which slices travel around",
        "Each rank sends to the next one only: 2 (N - 1) messages, and 2 (N - 1) / N of the bytes "
        "through each link, which no algorithm can do with less. Best for large exchanges.",
    ),
    Topic(
        "alltoall", "case", "an allreduce in which each rank sums one slice of everyone",
        "Two messages one after the other, with the bytes of the ring; all ranks talk to all. "
        "Theano-MPI's asa32.",
    ),
    Topic(
        "tree", "case", "an allreduce by pairs of pairs",
        "Up to the last pair and down again: few messages, each with all of the bytes. Best for "
        "small exchanges.",
    ),
    Topic(
        "compute", "case", "the gradient of a network alone: forward and back",
        "On the first 1, 2, 4 ... names and on all of them, on a batch that is kept; nothing is "
        "exchanged, nothing updated. It shows how far the devices alone would come.",
    ),
    Topic(
        "step", "case", "a whole step of training: gradient, exchange and update",
        "On the first 1, 2, 4 ... names and on all of them, by each of --rule. One device "
        "exchanges nothing, so all rules share its row. Each device's gradient is verified against "
        "NumPy.",
        "hold it against `compute` on as many devices: the rest is input, exchange and update",
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
    Topic(
        "local", "parameter", "an exchange between the devices of one process",
        "`--comm local`: each name of the map is a rank; one thread queues all of it.",
    ),
    Topic(
        "mpi", "parameter", "an exchange between processes that MPI has started",
        "`--comm mpi`: each process is a rank, with the device of one name. Arrays of devices that "
        "do not work in host memory come to the host and go back, in the time of the exchange.",
        "mpirun -n 2 gpumap bench allreduce",
    ),
    Topic(
        "nccl", "parameter", "an exchange between CUDA devices by NCCL",
        "`--comm nccl`: all devices of one process, driven by cupy, each once. It has not run on a "
        "GPU yet.",
    ),
    Topic(
        "network", "parameter", "what is trained",
        "A preset, a width of --sweep, or the class of --network. The parameters of a network are "
        "one array of float32, which is exchanged and updated as a whole.",
    ),
    Topic(
        "scaling", "parameter", "what becomes of the batch when devices are added",
        "`weak` gives each device as many examples as before, `strong` splits one batch.",
    ),
    Topic(
        "weak", "parameter", "weak scaling: as many examples for each device",
        "--batch-per-device: with twice the devices a step has twice the examples. A device has as "
        "much to compute as before, and exchanges as much.",
        "this is how larger clusters are used; raise --rate with the devices (--warmup)",
    ),
    Topic(
        "strong", "parameter", "strong scaling: one batch, split over the devices",
        "--batch: with twice the devices each one has half of the examples, and the training stays "
        "the same. The exchange does not shrink, so it soon takes most of the time.",
        "a larger --batch leaves more to compute for each exchange",
    ),
    Topic(
        "batch", "parameter", "the examples of a step, of all devices together",
        "With `weak` scaling it grows with the devices, with `strong` scaling it does not.",
    ),
    Topic(
        "steps", "parameter", "the steps of a round of a training",
        "One; of `easgd` as many as lie between two meetings with the centre (--tau), so that "
        "each round holds one. `time` is that of the round; the column `step` of a table, and "
        "examples per second, are for one step.",
    ),
    Topic(
        "input", "parameter", "where the examples of a step come from",
        "`made`: they are made for each step, on the host; `kept`: one batch is made once. Either "
        "way they are copied to the device in each step.",
    ),
    Topic(
        "made", "parameter", "examples that are made anew for each step",
        "By the host, one worker after the other: the time is in `input`.",
    ),
    Topic(
        "kept", "parameter", "one batch of examples that stays in host memory",
        "It is copied to the device in each step all the same. What is learned from it is worth "
        "nothing; the times are those of a program whose input costs nothing.",
    ),
    Topic(
        "rule", "parameter", "how devices train one network together",
        "`bsp`, `easgd` or `gosgd`; several, with commas, are held against each other.",
        "compare their `loss` too (--learn): a faster rule may learn less from an example",
    ),
    Topic(
        "bsp", "parameter", "bulk synchronous parallel: all devices in step",
        "After each step all hold the same parameters: the mean of their gradients, or with "
        "--average parameters that of their parameters. Each step waits for the slowest device.",
    ),
    Topic(
        "easgd", "parameter", "elastic averaging: devices train apart, held by a centre",
        "Every --tau steps each device and the centre move towards each other by the share --alpha "
        "of what they differ by. The centre is kept by the first device, and is the result "
        "(arXiv:1412.6651). It runs in lock-step here: who comes early waits (`sync`); the "
        "published rule is asynchronous.",
    ),
    Topic(
        "gosgd", "parameter", "gossip: devices train apart and push to each other",
        "In each step a device sends its parameters to another one with probability --chance, "
        "which blends them in by weight (arXiv:1611.09726). It runs in lock-step here: sender and "
        "receiver wait for each other (`sync`); the published rule is asynchronous.",
    ),
    Topic(
        "optimizer", "parameter", "how parameters follow their gradient",
        "`sgd` takes the gradient times the rate; `momentum` remembers 0.9 of what it did before; "
        "`adam` divides by what each gradient's size has been. They remember none, one and two "
        "arrays as long as the parameters.",
    ),
    Topic(
        "algorithm", "parameter", "by which way bsp exchanges",
        "`ring`, `alltoall`, `tree`, `host`, or the library's `native`; each is a case of "
        "`bench allreduce`.",
        "`gpumap bench allreduce` measures them for every size",
    ),
    Topic(
        "average", "parameter", "what bsp takes the mean of",
        "`gradients`, before the update: as one device with the whole batch. `parameters`, "
        "after it: each device has made its own step; an optimizer's memory stays its own.",
    ),
)  # fmt: skip
