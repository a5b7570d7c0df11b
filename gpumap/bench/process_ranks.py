"""Processes as the ranks of `bench allreduce`: rank 0 measures, the others do as it says.

Rank 0 runs gpumap's own runner, whose iterations are commands here: each is broadcast to every
rank, and every rank does the same. What a command costs is in the first exchange of a sample, and
so samples are long.

A core's array is the host's own, and its process is pinned to it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from gpumap.bench.exchanges import Ranks, Summand
from gpumap.dtypes import np
from gpumap.errors import AbsentError, Diagnostic, GpumapError, OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpumap.backends.base import Session
    from gpumap.bench.exchanges import Command, Job
    from gpumap.comm.base import ProcessComm
    from gpumap.model import Binding, Rank

    # makes a rank's work for a job, collectively
    Maker = Callable[[Any, ProcessComm, Session], Any]

_END = "end"
_REST = 0.01  # seconds between two polls for it
_LOOK = 0.3  # seconds in which rank 0 samples the machine, when the devices are open
_WATCHED = 1.0  # seconds in which the watchdog sees a rank of this machine that is gone
_SAMPLE = 0.03  # seconds of a sample: a hundred times as long as a command takes, by gloo
_SHOWN = 200  # characters of an engine's message


def broken(error: Exception) -> str:
    """Return what an engine says of an exchange with a rank that is gone."""
    return f"an exchange with the other ranks failed: {str(error).partition(chr(10))[0][:_SHOWN]}"


class RankExchange(Summand):
    """One rank's part of an exchange."""

    def __init__(self, job: Job, comm: ProcessComm, session: Session) -> None:
        """Take memory."""
        super().__init__(session, comm.rank, comm.size, job.length)
        self._exchange = comm.summing(job.algorithm, self.buffer)

    def run(self, iterations: int) -> None:
        """Exchange `iterations` times."""
        with np.errstate(all="ignore"):  # sums of sums run over
            once = self._exchange
            for _ in range(iterations):
                once()
        if not self._session.device.in_host_memory:
            self._session.synchronize()


class Member:
    """A rank that executes the commands of rank 0."""

    def __init__(self, comm: ProcessComm, opener: Callable[[], Session], maker: Maker) -> None:
        """Join `comm`; `opener` opens this rank's device, and `maker` makes its works."""
        self.comm, self._opener, self._maker = comm, opener, maker
        self.session: Session | None = None
        self._works: dict[int, Any] = {}

    def follow(self) -> None:
        """Execute the commands of rank 0 until the last one.

        Before the first command it sleeps: waiting in MPI keeps a core busy, and rank 0 samples
        how busy the machine is. A message wakes it.
        """
        while not self.comm.waiting():
            time.sleep(_REST)
        self.comm.receive()
        while (command := self.comm.broadcast())[0] != _END:
            self.do(*command)
        self.close()

    def do(self, what: str, number: int, *arguments: Any) -> list[Any]:
        """Do what a work does, or this rank as number 0; return the answers of all ranks.

        A run is timed, and its end is a meeting of all: it has no answers.
        """
        doer = self._works[number] if number else self
        # a rank may have no part in a work
        action = partial(getattr(doer, what), *arguments) if doer is not None else lambda: None
        if what == "run":
            action()
            return []
        answers = self._answers(action)
        if what == "open" and self.comm.rank:
            time.sleep(_LOOK)
        return answers

    def open(self) -> None:
        """Open this rank's device."""
        self.session = self._opener()

    def begin(self) -> None:
        """Release the buffers of all works."""
        self._works.clear()

    def make(self, number: int, job: Any) -> None:
        """Take memory for a work; it is none where this rank has no part in it."""
        assert self.session is not None  # it was opened
        self._works[number] = self._maker(job, self.comm, self.session)

    def close(self) -> None:
        """Give this rank's device back."""
        self._works.clear()
        if self.session is not None:
            self.session.close()

    def _answers(self, action: Callable[[], Any]) -> list[Any]:
        """Gather what each rank's action comes to, or its error: kind, text and fix."""
        problem, answer = None, None
        try:
            answer = action()
        except GpumapError as error:
            problem = (type(error), str(error), error.diagnostics[0].hint)
        except MemoryError:
            problem = (OutOfMemory, "no room for the buffers", None)
        mine = problem, answer
        every = self.comm.gather(mine if self.comm.rank else (problem, None))
        return [mine, *every[1:]]  # what rank 0 answers may be large, and is here


class ProcessRanks(Ranks):
    """Rank 0's view of all ranks."""

    algorithms = ("native", "host", "ring")
    shortest = _SAMPLE

    def __init__(self, member: Member, table: Sequence[Rank], here: Iterable[str]) -> None:
        """Lead all ranks; `table` is the rank table, `here` the names of this node."""
        self.comm = member.comm.name
        self.table = tuple(table)
        self.busy = False  # a command is under way: until it ends, no other one can be
        self._member = member
        self._here = frozenset(here)
        self._made = 0
        self._awake = False

    def open(self) -> Session:
        """Open the device of every rank, and return that of this one.

        Raises:
            DeviceError: one cannot be opened, by the name of its rank.
        """
        self._wake()
        self._results("open", 0)
        assert self._member.session is not None  # no rank has a problem
        return self._member.session

    def local_bindings(self, bindings: Iterable[Binding]) -> list[Binding]:
        """Return the bindings whose memory is on this machine."""
        return [binding for binding in bindings if binding.name in self._here]

    def begin(self) -> None:
        """Release the buffers of every rank."""
        self._results("begin", 0)

    def command(self, job: Any) -> Command:
        """Take memory for a job on every rank; return what lets all of them do something.

        Raises:
            OutOfMemory: a rank has no room, by its name.
        """
        self._made += 1
        number = self._made
        self._results("make", 0, number, job.spec)
        return lambda what, *arguments: self._results(what, number, *arguments)

    def call(self, *command: Any) -> list[Any]:
        """Execute a command on every rank, this one too; return the answers.

        Raises:
            AbsentError: a command before it was broken off here, and the others are still in it;
                or another rank is gone, and the watchdog did not name it and end this process.
        """
        if self.busy:
            raise AbsentError("the other ranks wait in an exchange that failed on rank 0")
        self.busy = True
        try:
            self._member.comm.broadcast(command)
            answers = self._member.do(*command)
        except self._member.comm.failures as error:
            time.sleep(_WATCHED)
            raise AbsentError(broken(error), "look at the output of the other ranks") from error
        self.busy = False  # not where it was broken off: the others wait for its end
        return answers

    def _results(self, *command: Any) -> list[Any]:
        """Execute a command; return what it comes to on each rank.

        Raises:
            GpumapError: it failed: of the kind that the first such rank raised, with its name.
        """
        answers = self.call(*command)
        for rank, (problem, _) in zip(self.table, answers, strict=False):
            if problem is not None:
                kind, text, hint = problem
                raise kind((Diagnostic(kind.code, f"{rank.label}: {text}", hint=hint),))
        return [answer for _, answer in answers]

    def end(self) -> None:
        """End the other ranks."""
        self._wake()
        self._member.comm.broadcast((_END,))
        self._member.close()

    def _wake(self) -> None:
        """Wake the other ranks, if they sleep."""
        for rank in () if self._awake else self.table[1:]:
            self._member.comm.send(None, rank.number)
        self._awake = True
