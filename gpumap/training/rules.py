"""The rules by which ranks train one network: what each of them does beside its own steps.

    bsp      every step: the mean of all gradients (bulk synchronous parallel), or that of all
             parameters, where a model itself updates them; whoever takes the steps does that, and
             here nothing is to do
    easgd    every tau steps of its own a rank and a center move towards each other by a share alpha
             of what they differ by, one rank at a time (Zhang, Choromanska & LeCun,
             arXiv:1412.6651, algorithm 1)
    gosgd    with probability p a rank sends its parameters, and half of its weight, to a random
             other one, which blends in what has come before its next step (Blot et al.,
             arXiv:1611.09726, algorithms 3 and 4)

`easgd` and `gosgd` are asynchronous, as published: rank 0 hands out examples, to whoever is ready.
A run is over when they are trained on and every message was blended in: then the weights of gosgd
sum up to 1 again.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gpumap.backends.base import has_data
from gpumap.dtypes import Array, np
from gpumap.kernels import in_parts

if TYPE_CHECKING:
    from gpumap.comm.base import Ask, Comm

RULES = ("bsp", "easgd", "gosgd")
ALPHA, TAU = 0.5, 10  # Theano-MPI's
CHANCE = 0.01  # Theano-MPI's p
_SENDING = 2  # arrays of a rank that were not received: then it stops, as a rank may hang


@in_parts
def _elastic(a: Array, b: Array, share: float) -> None:
    """Move a and b towards each other by share (a - b): their sum stays."""
    moved = a.dtype.type(share) * (a - b)
    a -= moved
    b += moved


@in_parts
def _blend(a: Array, b: Array, share: float) -> None:
    """Move a towards b by a share of their distance."""
    a += a.dtype.type(share) * (b - a)


class RuleSpec(NamedTuple):
    """Options of a rule."""

    name: str
    alpha: float = ALPHA
    tau: int = TAU
    chance: float = CHANCE

    @property
    def asynchronous(self) -> bool:
        """Return whether ranks do not wait for each other."""
        return self.name != "bsp"

    def of(self, rank: Rank, counts: tuple[int, ...], seed: int, *, alone: bool) -> Rule:
        """Return what a rank does by this rule; alone it exchanges nothing.

        `counts` are the examples that each rank takes in a step.
        """
        made = {"bsp": Rule, "easgd": Easgd, "gosgd": Gosgd}[self.name]
        return (Rule if alone else made)(self, rank, counts, seed)


class Rank(Protocol):
    """What a rule needs of a rank: its parameters, and the others."""

    comm: Comm  # all ranks

    def read(self) -> Array:
        """Return the parameters, on the host; valid until `put`."""

    def put(self) -> None:
        """Change the parameters to what was done to the array of `read`."""

    def spend(self, phase: str) -> None:
        """Account the time since the last call to a phase."""


class Rule:
    """What a rank does beside its own steps; alone, and by bsp, nothing."""

    def __init__(self, spec: RuleSpec, rank: Rank, counts: tuple[int, ...], seed: int) -> None:
        self._spec, self._rank, self._seed = spec, rank, seed
        self._comm = rank.comm
        self.server = Server(counts, spec.alpha)  # of rank 0

    def begin(self) -> None:
        """Begin anew, with the first example and the current parameters."""
        self.server.taken = self.server.until = 0

    def before_step(self) -> None:
        """Take in what others have sent."""

    def after_update(self, ask: Ask | None) -> None:
        """Exchange the parameters; by `ask` with rank 0."""

    def end(self) -> None:
        """Take in what is under way when all ranks have taken their steps."""

    def parameters(self) -> Array:
        """Return what was trained, on rank 0, with which all ranks come here."""
        return _copied(self._rank.read())


class Easgd(Rule):
    """Elastic averaging: rank 0 has the center (`Server`)."""

    def begin(self) -> None:
        """Begin anew, with the center where rank 0 is."""
        super().begin()
        self._steps = 0
        if not self._comm.rank:
            self.server.center = _copied(self._rank.read())

    def after_update(self, ask: Ask | None) -> None:
        """Exchange with the center every tau steps."""
        assert ask is not None  # there are several ranks
        self._steps += 1
        if self._steps % self._spec.tau:
            return
        array = self._rank.read()
        ask(0, array)
        self._rank.put()
        self._rank.spend("comm")

    def parameters(self) -> Array:
        """Return the center, on rank 0."""
        return _copied(self._rank.read() if self.server.center is None else self.server.center)


class Gosgd(Rule):
    """Gossip: each rank has a weight, which goes along with what it sends."""

    def begin(self) -> None:
        """Begin anew, with equal weights."""
        super().begin()
        self.weight = 1.0 / self._comm.size
        self._random = Random(f"{self._seed}, {self._comm.rank}")  # noqa: S311 - no secret
        self._sent, self._received = [0] * self._comm.size, 0

    def before_step(self) -> None:
        """Blend in what has come."""
        while self._comm.waiting():
            self._blend(*self._comm.receive())

    def after_update(self, ask: Ask | None) -> None:  # noqa: ARG002 - the contract's
        """Send to a random other rank, by chance."""
        to = receiver(self._random, self._spec.chance, self._comm.rank, self._comm.size)
        if to is None or self._comm.sending() >= _SENDING:
            return
        self.weight /= 2
        self._comm.send(self.weight, to, _copied(self._rank.read()))
        self._sent[to] += 1
        self._rank.spend("comm")

    def _blend(self, weight: float, array: Array | None) -> None:
        assert array is not None  # each message has one
        self._rank.spend("sync")
        self.weight += weight
        mine = self._rank.read()
        if has_data(mine):
            _blend(mine, array, weight / self.weight)
        self._rank.put()
        self._rank.spend("comm")
        self._received += 1

    def end(self) -> None:
        """Blend in what is under way."""
        every = self._comm.gather(self._sent)
        under_way = sum(sent[self._comm.rank] for sent in every) - self._received
        for _ in range(under_way):
            self._blend(*self._comm.receive())

    def parameters(self) -> Array:
        """Return the mean of all by weight."""
        mean = _copied(self._rank.read())
        mean *= np.float32(self.weight)
        self._comm.allreduce(mean)()
        return mean


def receiver(random: Random, chance: float, rank: int, ranks: int) -> int | None:
    """Return the rank to send parameters to after a step, or None."""
    if ranks == 1 or random.random() >= chance:
        return None
    other = random.randrange(ranks - 1)
    return other + (other >= rank)


@dataclass
class Server:
    """What rank 0 has for all ranks: the examples of a training, in order, and the center."""

    counts: tuple[int, ...]  # examples that each rank takes in a step
    alpha: float
    center: Any = None  # an array, of easgd
    taken: int = 0
    until: int = 0

    def extend(self, steps: int) -> None:
        """Allow the examples of so many more steps of all ranks."""
        self.until += steps * sum(self.counts)

    def answer(self, rank: int, number: int, array: Array | None = None) -> tuple[int, int]:
        """Hand out so many steps, at most: return the first example, and how many they are.

        They are 0 at the end, and fewer near it, so that all finish at about the same time.
        With an array the center and it move towards each other, and nothing is handed out.
        """
        if array is not None:
            if has_data(array):
                _elastic(array, self.center, self.alpha)
            return 0, 0
        each = self.counts[rank]
        left = max(self.until - self.taken, 0)
        steps = min(number, max(left // (2 * len(self.counts) * each), 1)) if left else 0
        first, self.taken = self.taken, self.taken + steps * each
        return first, steps


def _copied(array: Array) -> Array:
    """Return a copy; of an array of a scripted device without data that array itself."""
    return array.copy() if has_data(array) else array
