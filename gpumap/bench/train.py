"""Training a network on 1, 2, 4 ... devices: speed-up, and the phases of a step.

Cases, each on the first 1, 2, 4 ... names of the map, and on all of them:

    compute    the gradient alone: forward and back, on one batch
    step       a whole step, by each rule: the gradient, the exchange, the update

Strong scaling splits one batch over the devices, weak scaling gives each of them as many examples.
Figures stand for examples, so that both can be read alike: a speed-up is that of examples per
second, phases are seconds per 5120 examples (Theano-MPI's unit). What a step is made of is in
`gpumap.training.ranks`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil, isfinite
from statistics import fmean
from typing import TYPE_CHECKING

from gpumap.bench import train_table
from gpumap.bench.registry import BenchmarkSpec, Family
from gpumap.bench.train_workers import Training
from gpumap.comm.local import LIBRARIES
from gpumap.engine import stats
from gpumap.engine.base import COMPARABLE, Benchmark
from gpumap.engine.estimates import per_time, ratio, time_of
from gpumap.errors import Diagnostic, QuestionError
from gpumap.model import Binding, Case, Estimate, Group, Plan, Work
from gpumap.training.jobs import Params, Spec, job_of
from gpumap.training.network import ITEM
from gpumap.training.optimizers import STATES
from gpumap.training.steps import diverged, held_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpumap.bench.exchanges import Ranks
    from gpumap.engine.base import Blocks, Figures, Iteration
    from gpumap.model import Param, Samples
    from gpumap.training.jobs import Job

KEY = "train"
PER = 5120  # examples that phases stand for: Theano-MPI's forty batches of 128
_PILOT = 5  # steps that measure the rate of each device
_ASYNCHRONOUS_STEPS = 50  # steps, at least, of an iteration of an asynchronous training
_AT_ONCE = 64  # steps of learning, whose marks are stored


def counts(names: int) -> list[int]:
    """Return on how many of the names it is trained: 1, 2, 4 ... and all of them."""
    powers = [1 << n for n in range(names.bit_length()) if 1 << n < names]
    return [*powers, names]


def plan(bindings: Sequence[Binding], workers: Ranks, params: Params) -> Plan:
    """Return the group of the network."""
    network = params.network
    about = [f"network {network.name}: {network.parameters:,} parameters, {params.optimizer}"]
    about += [divided(bindings[:count], params) for count in counts(len(bindings))]
    memory, largest = _memory(bindings, workers, params), network.parameters * ITEM
    return Plan((_group(bindings, workers, params),), memory, largest, tuple(about))


class Train(Benchmark):
    """The cases of a plan, on workers that are there."""

    key = KEY
    work = "split"

    def __init__(self, bindings: Sequence[Binding], workers: Ranks, params: Params) -> None:
        if params.split == "weighted":
            params = replace(params, rates=_rates(bindings, workers, params))
            _check_parts(bindings, params)
        self.plan = plan(bindings, workers, params)
        if params.split != "balanced" and len(bindings) > 1:
            note = Diagnostic("batch-split", divided(bindings, params), severity="note")
            self.notes = (note,)
        self._workers, self._params = workers, params
        self._all = len(bindings)
        self._learned: dict[str, dict[str, Estimate]] = {}

    def begin(self, group: Group) -> None:  # noqa: ARG002 - the contract's
        """Release the buffers of the group before."""
        self._workers.begin()

    def iteration(self, case: Case) -> Iteration:
        """Take memory for a case's training, and let it learn, if that is requested."""
        job = self._job(case)
        training = Training(self._workers, job)
        if self._params.learn and case.name == "step":
            self._learn(case, job, training)
        training.steps = int(case.params["steps"])
        return training.played(ITEM * job.params.network.parameters)

    def figures(self, case: Case, samples: Samples, blocks: Blocks, confidence: float) -> Figures:
        """Return time, examples per second, phases, and what devices gain over one."""
        figures = self._figures(case, samples, confidence)
        if case.against not in blocks:
            return figures
        (one,) = (other for other in self.plan.cases if other.id == case.against)
        more = _examples(case) / _examples(one)
        mine = {block: seconds / more for block, seconds in blocks[case.id].items()}
        gain, n = ratio(blocks[one.id], mine, confidence), len(case.bindings)
        if gain is None:
            return figures
        each = Estimate(gain.value / n, gain.low / n, gain.high / n, "1")
        return figures | {"speedup": gain, "efficiency": each}

    def _job(self, case: Case) -> Job:
        rule, whole = str(case.params.get("rule", "")), case.name == "step"
        spec = Spec(rule, case.names, whole, self._params.rates, self._all)
        return job_of(self._params, spec)

    def _learn(self, case: Case, job: Job, training: Training) -> None:
        training.poison()
        steps = ceil(self._params.learn / job.batch)
        for done in range(0, steps, _AT_ONCE):  # no phases of earlier steps are needed
            training.run(min(steps - done, _AT_ONCE), anew=True)
        training.finish()
        learned = training.parameters()
        loss = held_out(job, learned)
        if not isfinite(loss or 0.0):  # of numbers that are too large
            first = case.bindings[0]
            raise diverged(f"{first.name} (worker 0, {first.device.ref})")
        accuracy, epochs = held_out(job, learned, "accuracy"), steps * job.batch / job.data.count
        known = {"loss": loss, "accuracy": accuracy, "epochs": epochs}
        exact = {name: Estimate.exact(x) for name, x in known.items() if x is not None}
        self._learned[case.id] = exact

    def _figures(self, case: Case, samples: Samples, confidence: float) -> dict[str, Estimate]:
        batch, time = _examples(case), time_of(samples, confidence)
        metrics = {"time": time, "examples_per_s": per_time(batch, time, "1/s")}
        if case.work.operations:
            metrics["rate"] = per_time(case.work.operations, time, "FLOP/s")
        metrics |= _phases(samples, time, PER / batch, confidence)
        return metrics | self._learned.get(case.id, {})


def _examples(case: Case) -> int:
    """Return the examples of an iteration: those of a batch, in each of its steps."""
    return int(case.params["batch"]) * int(case.params["steps"])


def check_request(bindings: Sequence[Binding], params: Params) -> None:
    """Refuse what cannot be trained.

    Raises:
        QuestionError: a batch has fewer examples than there are devices; what is learned ends
            before any device has exchanged with the center that it is taken from.
    """
    scaling, count = params.scaling, len(bindings)
    least = max((rule.tau for rule in params.rules if rule.name == "easgd"), default=0)
    least *= scaling.batch(count)
    if 0 < params.learn < least and count > 1:
        message = f"no device meets the center of easgd within {params.learn} examples"
        raise QuestionError(message, f"take --learn {least} or more, or a smaller --tau")
    if scaling.how == "strong" and scaling.examples < len(bindings):
        message = f"a batch of {scaling.examples} examples for {len(bindings)} devices"
        raise QuestionError(message, f"take --batch {len(bindings)} or more, or fewer names")


def divided(bindings: Sequence[Binding], params: Params) -> str:
    """Return which part of a batch each device takes, and the dropped remainder."""
    parts, batch = params.parts(len(bindings)), params.scaling.batch(len(bindings))
    each = ", ".join(f"{b.name} {part}" for b, part in zip(bindings, parts, strict=True))
    message = f"batch of {sum(parts)}: {each}"
    if params.split == "weighted" and not params.rates:
        return f"{message}, until the rates are measured"
    return f"{message}; {batch - sum(parts)} of {batch} dropped" if sum(parts) < batch else message


def _check_parts(bindings: Sequence[Binding], params: Params) -> None:
    """Refuse a split by measured rates that leaves a device without an example."""
    for count in reversed(counts(len(bindings))):
        parts = params.parts(count)
        if 0 in parts:
            name = bindings[parts.index(0)].name
            message = f"--split weighted leaves {name} no example of a batch of {sum(parts)}"
            raise QuestionError(message, f"take a larger batch, or leave {name} out of the map")


def _rates(bindings: Sequence[Binding], workers: Ranks, params: Params) -> tuple[float, ...]:
    """Measure the examples per second of each device, all computing."""
    if len(bindings) == 1 or workers.skip(bindings) is not None:
        return ()
    job = job_of(params, Spec("", tuple(binding.name for binding in bindings), whole=False))
    training = Training(workers, job)
    training.poison()
    for _ in range(2):  # the first one is slower
        training.run(_PILOT, anew=True)
        training.finish()
    spent, counts = training.spent(), job.counts
    if not all(spent):  # a step failed: this raises why
        training.check()
    workers.begin()
    return tuple(count / seconds for count, seconds in zip(counts, spent, strict=True))


def _group(bindings: Sequence[Binding], workers: Ranks, params: Params) -> Group:
    """Return the cases: whole steps on one device and on all matter most.

    What is to be learned is learned by every step, however long that takes.
    """
    cases, name = tuple(_cases(bindings, workers, params)), params.network.name
    steps = tuple(index for index, case in enumerate(cases) if case.name == "step")
    if params.learn:
        return Group(cases, name, (steps,), COMPARABLE, insists=True)
    first = [index for index in steps if len(cases[index].bindings) in (1, len(bindings))]
    order = dict.fromkeys((*first, *steps, *range(len(cases))))
    return Group(cases, name, tuple((index,) for index in order), COMPARABLE, first=len(first))


def _cases(bindings: Sequence[Binding], workers: Ranks, params: Params) -> Iterator[Case]:
    references: dict[str, str] = {}
    for count in counts(len(bindings)):
        used = tuple(bindings[:count])
        for name, keys in _requested_cases(params, workers, count):
            skip = workers.skip(used)
            batch = sum(params.parts(count))
            operations = params.network.operations(batch * int(keys["steps"]))
            work = Work(count if operations else 0, operations)
            against = references.get(name) if count > 1 and skip is None else None
            case = Case(KEY, name, {**keys, "batch": batch}, used, work, against, skip)
            if count == 1 and skip is None:
                references[name] = case.id
            yield case


def _requested_cases(
    params: Params, workers: Ranks, count: int
) -> Iterator[tuple[str, dict[str, Param]]]:
    """Yield each case on so many devices; on one no rule exchanges anything, and one row does."""
    keys: dict[str, Param] = {
        "network": params.network.name,
        "scaling": params.scaling.how,
        "comm": workers.comm,
    }
    if params.split != "balanced" and count > 1:
        keys["split"] = params.split
    if "compute" in params.cases:
        yield "compute", {**keys, "input": "kept", "steps": 1}
    keys["input"] = "made"
    for rule in params.rules[: 1 if count == 1 else None] if "step" in params.cases else ():
        more: dict[str, Param] = {"optimizer": params.optimizer, "rule": rule.name, "steps": 1}
        if rule.name == "bsp":
            more |= {"algorithm": params.algorithm}
        elif rule.name == "easgd" and count > 1:  # an iteration holds whole exchanges
            more["steps"] = rule.tau * ceil(_ASYNCHRONOUS_STEPS / rule.tau)
        elif count > 1:
            more["steps"] = _ASYNCHRONOUS_STEPS
        yield "step", {**keys, **more}


def _phases(
    samples: Samples, time: Estimate, scale: float, confidence: float
) -> dict[str, Estimate]:
    """Return what the phases take of the median time, by their shares of all that was measured.

    So they add up to it, and what is not done in every step has its part.
    """
    whole = fmean(samples.seconds)
    phases = {}
    for phase, each in samples.phases.items():
        interval = stats.mean(each, confidence)
        value, low, high = (max(s, 0.0) / whole * time.value * scale for s in interval)
        known = Estimate(value, low, high, "s")
        phases[phase] = known if time.has_interval else Estimate.without_interval(value, "s")
    return phases


def _memory(bindings: Sequence[Binding], workers: Ranks, params: Params) -> dict[str, int]:
    """Return the bytes that the network takes, by device id, and on the host.

    A worker has its replica, what the optimizer remembers and room for an exchange, which takes no
    more than the parameters do. Of processes that room is in the host's memory, and each of them
    has parameters of its own there. What a rule exchanges through the host is there once for each
    worker, and once where it goes; of gosgd what is sent, twice more.
    """
    local, network = list(workers.local_bindings(bindings)), params.network
    most, processes = params.most(len(bindings)), workers.comm not in ("local", *LIBRARIES)
    exchanges = counts(len(bindings))[1:] if "step" in params.cases else []
    on_host = (5 + bool(exchanges)) * len(local) if processes else 5
    through = [rule for rule in params.rules if rule.asynchronous or params.algorithm == "host"]
    for count in exchanges:
        on_host += sum(3 * count if rule.name == "gosgd" else count + 1 for rule in through)
    parameters = network.parameters * ITEM
    batch = max(network.memory(most) - 2 * parameters, 0)  # on the host no more than there
    room = parameters if exchanges and not processes else 0
    each = network.memory(most) + STATES[params.optimizer] * parameters + room
    workers_of = Counter(binding.device.id for binding in local)
    memory = {device: workers * each for device, workers in workers_of.items()}
    return {**memory, "host": len(local) * batch + on_host * parameters}


SPEC = BenchmarkSpec(
    (Family(("step", "compute"),
            ("network", "scaling", "batch", "comm", "input", "rule", "optimizer", "algorithm",
             "steps", "split"),
            ("time", "rate", "examples_per_s", "input", "transfer", "compute", "sync", "comm",
             "update", "speedup", "efficiency", "loss", "accuracy", "epochs")),),
    command=("bench", "train"),
    columns=train_table.COLUMNS,
    title=train_table.title,
    legend=train_table.legend,
    how=("network", "rule", "algorithm"),
    headline=train_table.headline,
    claims=train_table.judged,
)  # fmt: skip
