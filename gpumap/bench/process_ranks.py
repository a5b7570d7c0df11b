"""Processes as the ranks of `bench allreduce`: rank 0 measures, the others do as it says.

Rank 0 runs gpumap's own runner, whose iterations are commands here: each is broadcast to every
rank, and every rank does the same. What a command costs is in the first exchange of a sample, and
so samples are long enough for that to be a small share.

A core's array is the host's own, and its process is pinned to it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gpumap.bench.exchanges import Exchanging, Summand
from gpumap.dtypes import np
from gpumap.engine.base import COMPARABLE
from gpumap.errors import AbsentError, Diagnostic, GpumapError, OutOfMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from gpumap.backends.base import Session
    from gpumap.bench.exchanges import Command, Job
    from gpumap.comm.base import ProcessComm, RankInfo
    from gpumap.engine.base import Iteration
    from gpumap.model import Binding, Reason

    # makes a rank's work for a job, collectively; for each group of cases there is another one
    Maker = Callable[[Any, ProcessComm, Session], Any]

_END = "end"
_REST = 0.01  # seconds between two polls for it
_LOOK = 0.3  # seconds in which rank 0 samples the machine, when the devices are open
_WATCHED = 1.0  # seconds in which the watchdog sees a rank of this machine that is gone
_COMMAND = 0.01  # share of a sample that its command takes, at most
_LONGEST = 0.05  # seconds of a sample for that: a command that takes longer meets other work
_TRIES = 5
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

    def __init__(
        self,
        comm: ProcessComm,
        opener: Callable[[], Session] | None,
        maker: Callable[[], Maker],
    ) -> None:
        """Join `comm`; `opener` opens this rank's device, if it has one."""
        self.comm = comm
        self._maker, self._make_work = maker, maker()
        self.session: Session | None = None
        self._opener = opener
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
            self.do(command)
        self.close()

    def close(self) -> None:
        """Give this rank's device back."""
        self._begin()
        if self.session is not None:
            self.session.close()

    def do(self, command: tuple[Any, ...]) -> list[Any]:
        """Execute a command; return the answers of all ranks, those of rank 0 on itself."""
        name, *arguments = command
        answers: list[Any] | None = getattr(self, f"_{name}")(*arguments)
        return answers or []

    def _open(self) -> Any:
        def opened() -> None:
            self.session = self._opener() if self._opener else None

        answers = self._answers(opened)
        if self.comm.rank:
            time.sleep(_LOOK)
        return answers

    def _meet(self) -> None:
        self.comm.barrier()

    def _begin(self) -> None:
        self._works.clear()
        self._make_work = self._maker()  # what the works have shared is released

    def _make(self, number: int, job: Any) -> Any:
        def made() -> None:
            assert self.session is not None  # it was opened
            self._works[number] = self._make_work(job, self.comm, self.session)

        return self._answers(made)

    def _run(self, number: int, *arguments: Any) -> None:
        if self._works[number] is not None:
            self._works[number].run(*arguments)

    def _query(self, number: int, what: str, *arguments: Any) -> Any:
        work = self._works[number]  # None: this rank has no part in it
        return self._answers(lambda: work and getattr(work, what)(*arguments))

    def _answers(self, action: Callable[[], Any]) -> Any:
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


class ProcessRanks:
    """Rank 0's view of all ranks."""

    algorithms = ("native", "host", "ring")

    def __init__(self, member: Member, table: Sequence[RankInfo], here: Iterable[str]) -> None:
        """Lead all ranks; `table` is the rank table, `here` the names of this node."""
        self.comm = member.comm.name
        self.table = tuple(table)
        self.busy = False  # a command is under way: until it ends, no other one can be
        self.shortest = COMPARABLE  # seconds of a sample
        self._awake = False
        self._member = member
        self._here = frozenset(here)
        self._made = 0

    def open(self) -> Session:
        """Open the device of every rank, and return that of this one.

        Raises:
            DeviceError: one cannot be opened, by the name of its rank.
        """
        self._wake()
        self._results("open")
        assert self._member.session is not None  # no rank has a problem
        command = min(self._command() for _ in range(_TRIES))
        self.shortest = max(COMPARABLE, min(command / _COMMAND, _LONGEST))
        return self._member.session

    def _command(self) -> float:
        """Return the seconds that a command takes to be everywhere."""
        start = time.perf_counter()
        self.call("meet")
        return time.perf_counter() - start

    def local_bindings(self, bindings: Iterable[Binding]) -> list[Binding]:
        """Return the bindings whose memory is on this machine."""
        return [binding for binding in bindings if binding.name in self._here]

    def skip(self, work: Any) -> Reason | None:  # noqa: ARG002 - the contract's
        """Return None: the engine carries, and a device that cannot train says so itself."""
        return None

    def begin(self) -> None:
        """Release the buffers of every rank."""
        self.call("begin")

    def iteration(self, job: Job) -> Exchanging:
        """Take memory on every rank; raises OutOfMemory, by the name of the rank."""
        return Exchanging(self.command(job))

    def sessions(self, job: Any) -> Sequence[Session]:  # noqa: ARG002 - the contract's
        """Return none: a command that works ends when its devices are done."""
        return ()

    def played(self, work: Iteration, job: Any) -> Iteration:  # noqa: ARG002 - the contract's
        """Return a training's iteration: what ranks exchange is on the host, and real."""
        return work

    def command(self, job: Any) -> Command:
        """Take memory for a job on every rank; return what lets all of them do something."""
        self._made += 1
        number = self._made
        self._results("make", number, job.spec)

        def command(name: str, *arguments: Any) -> list[Any]:
            if name == "run":  # it is timed, and its end is a meeting of all: no answer is awaited
                return self.call("run", number, *arguments)
            return self._results("query", number, name, *arguments)

        return command

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
            answers = self._member.do(command)
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
        for info, (problem, _) in zip(self.table, answers, strict=True):
            if problem is not None:
                kind, text, hint = problem
                raise kind((Diagnostic(kind.code, f"{info.label}: {text}", hint=hint),))
        return [answer for _, answer in answers]

    def end(self) -> None:
        """End the other ranks."""
        self._wake()
        self._member.comm.broadcast((_END,))
        self._member.close()

    def _wake(self) -> None:
        """Wake the other ranks, if they sleep."""
        for info in () if self._awake else self.table[1:]:
            self._member.comm.send(None, info.rank)
        self._awake = True
