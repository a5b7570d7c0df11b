"""What is said of a row beside its figures: its cause, its flags, the marks of its samples."""

from __future__ import annotations

from gpumap.judge.topics.topic import Topic

TOPICS = (
    # --- causes
    Topic(
        "launch-bound", "cause", "starting a product takes longer than its arithmetic",
        "Less than half of a product's solo time is arithmetic, by the rate that the control "
        "reaches on the same device, its own launches left out. The figures are `product`, its "
        "time alone, and `arithmetic`.",
        "choose a larger --size, or put several products into one launch",
    ),
    Topic(
        "transfer-bound", "cause", "fetching the results takes the time",
        "The fetch accounts for at least half of what is missing to the ideal, and its interval "
        "leaves no doubt that it costs something. The figures are "
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
        "shared-hardware", "cause", "the names share hardware, so together they do what one does",
        "Either their devices are parts of one piece of hardware, with `speedup` and `ideal` as "
        "figures; or the workers had fewer `cores` of CPU time than there are; or a device takes "
        "over 10 % longer `together` than `alone`, because memory bandwidth, cache or power are "
        "one for all.",
        "map each name to a device of its own: `gpumap check --distinct` tells; `gpumap devices` "
        "has the hardware",
    ),
    Topic(
        "unequal-devices", "cause", "an equal split ends with the slowest device",
        "The devices reach their ideal, but one is clearly slower alone than another, and each has "
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
        "cpu-contention", "cause", "others had the cores meanwhile",
        "Other processes, or other machines on the same hardware, wanted half a core or more of "
        "those that the devices are made of, during the measurement or before it: then no other "
        "cause is named. Or they took at least half of the cores that are missing. The figures "
        "are `foreign`, the cores that other processes kept busy, and `steal`, the share of time "
        "that the hypervisor took. It is for processors only.",
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
        "90 % of that. One piece of hardware, a bridge upstream of several devices or one NUMA "
        "node is named where the system tells it; cores share the bandwidth of the host's memory. "
        "The figures are `gain`, the number of `names`, and the bandwidths `together` and `alone`.",
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
        "unstable", "flag", "the samples do not represent one value",
        "Neighbouring samples resemble each other beyond chance and are worth fewer than 20 "
        "independent ones, more than 5 % of them have a mark, or they have two modes. By tests: "
        "independent noise has the flag in 2 % of rows at most. `effective_n`, `autocorrelation` "
        "and `sample_notes` show which.",
        "raise --budget; two modes mean that something switches, such as clocks or memory places",
    ),
    Topic(
        "shared-hardware", "flag", "two names of this row share hardware",
        "Their devices have an element of `hardware` in common, so they take turns, and the ideal "
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
        "launch-bound", "flag", "the host's calls took the time, not the device",
        "Queueing the products took at least 90 % of the time of its `samples`. "
        "The rate is that of the calls, so no share of the device's peak is given.",
        "choose a larger --size",
    ),
    Topic(
        "power-capped", "flag", "the power limit held a device back in every sample",
        "Large products of narrow types reach it: it is the device's steady state, so it makes no "
        "row unstable. Where it comes and goes, samples are marked `throttled` instead.",
        "compare rates at equal power limits: nvidia-smi -q -d POWER shows them",
    ),
    Topic(
        "over-ceiling", "flag", "a figure is over 5 % above its ceiling",
        "Where all of its interval is above a ceiling that gpumap measured or computed, the row "
        "has failed: the work was not done, or was answered from a cache. A ceiling that a table "
        "or a driver reports may be wrong itself: the figures stay. `ceiling` has its value, its "
        "source and its `origin`.",
        "do not use the figure before you know which of the two is wrong; report it with the JSON",
    ),
    Topic(
        "impossible", "flag", "a ratio is above what the hardware can give, and was refused",
        "It is null in JSON, with this word as `nonfinite`, and never clipped. Ceilings, plus 5 % "
        "for the clock: a speed-up, the number of names that work at the same time (2 for "
        "`bidir`); the ideal, the distinct pieces of hardware, or with fetches the names; the "
        "efficiency, 1, or more where names share hardware. The samples are too noisy, or too few. "
        "The run is inconclusive.",
        "raise --budget, and keep the machine idle",
    ),
    Topic(
        "superlinear", "flag", "several devices gain more than their number, on split work",
        "A ratio of `bench chain` or `bench train` is over 5 % above the number of devices. Caches "
        "can do that: a part of the work may fit where the whole does not. So can noise.",
        "compare the solo times with the reference; measure larger work",
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
        "shorter than `intervals`. Names that share a core take it from each other: they have "
        "no mark.",
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
)  # fmt: skip
