"""Ranks of a command that MPI has started: the rank table, the devices, and rank 0's lead.

Every rank runs the same command line. The local rank i of a node takes the entry i of the map. Rank
0 gathers all answers, measures and reports; the others follow it, print nothing, and end in
exit code 0, so that mpirun's is that of rank 0. A rank without an answer of rank 0 fails.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from gpumap.app.program import (
    OURS,
    TURN,
    entry_index,
    leave_signals,
    local_rank,
    refused,
    several,
    unbound,
)
from gpumap.app.rank_table import (
    Answer,
    node_names,
    rank_info,
    ranks,
    refuse,
    unassigned,
    unique_bindings,
)
from gpumap.bench.process_ranks import Member, ProcessRanks
from gpumap.comm.mpi import Mpi, load
from gpumap.comm.watchdog import Heartbeat, Watch, state, stopped_siblings
from gpumap.engine.base import OpenDevices
from gpumap.errors import Diagnostic, Exit, GpumapError, QuestionError
from gpumap.escape import written
from gpumap.machine.process_control import pin, reap
from gpumap.model import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from gpumap.app.program import Program
    from gpumap.app.recording import Recording
    from gpumap.backends.base import Session
    from gpumap.bench.process_ranks import WorkFactory
    from gpumap.comm.base import Comm, RankInfo
    from gpumap.comm.ranks import Launch
    from gpumap.inventory import Inventory
    from gpumap.model import Binding, Resolution

    # MAP, --map, --map-file and --backend
    Where = tuple[str | None, str | None, Path | None, str | None]

_LATE = 10.0  # seconds beyond its time limit, after which rank 0 is given up
_STDERR = 2
_EXIT_GRACE = 1.0  # seconds that the watchdog has to end: it may be stopped
_LOST = "look at its output and at dmesg: what has no memory left is killed"


def join(program: Program, limit: float) -> Comm:
    """Start MPI within `limit` seconds, and return its communicator of all ranks.

    Raises:
        AbsentError: there is no MPI.
        QuestionError: it knows of one rank.
    """
    launch = several(program)
    try:
        return start(program, limit)
    except GpumapError as error:
        if launch is None or not launch.rank:
            raise
        time.sleep(TURN)  # rank 0 has reported by then what all ranks lack
        who = f"rank {launch.rank} on {socket.gethostname()}"
        found = (replace(d, message=f"{who}: {d.message}") for d in error.diagnostics)
        raise type(error)(tuple(found)) from None


def start(program: Program, limit: float) -> Comm:
    """Do the same, without waiting for rank 0 to report an error."""
    launch = several(program)
    rank = launch.rank if launch else 0
    # Ctrl-C, sent to every rank, is for the run, which rank 0 ends: with its report
    before = signal.signal(signal.SIGINT, lambda *_: None) if rank else None
    message = f"the time limit of {limit:g} s was reached" if rank < 2 else ""  # noqa: PLR2004 - one may be stopped
    try:
        with StartTimeout(limit + (_LATE if rank else 0.0), message):
            comm = Mpi(load().COMM_WORLD)
        if comm.size == 1:
            raise unknown_to_mpi(launch, program)
    except GpumapError:
        if rank:
            signal.signal(signal.SIGINT, before)
        raise
    unbound(program)
    return comm


def refuse_several(program: Program, comm: str) -> None:
    """Refuse to measure in one of several processes what one process measures alone.

    Raises:
        QuestionError: a launcher has started several; each would disturb the others.
    """
    if launch := several(program):
        fix = "ask for --comm mpi, or start it without a launcher"
        raise refused(launch, f"--comm {comm} is for one process", fix)


def unknown_to_mpi(launch: Launch | None, program: Program) -> QuestionError:
    """Return the refusal to be one of several processes that MPI has not started."""
    bench = program.argv[:1] == ("bench",)  # and which; what else joins has no --comm
    command = f"gpumap {' '.join(program.argv[: 1 + bench])}"
    start = f"mpirun -n 2 {command} {'--comm mpi' if bench else '...'}"
    if launch is None:
        return QuestionError("one rank has nothing to exchange", f"start several: {start}")
    message = f"{launch.by} has started {launch.size} processes, and MPI knows of one of them"
    if launch.by == OURS:
        fix = f"let mpirun start them: gpumap run --launcher mpi MAP -- {command}"
        return QuestionError(message, fix)
    fix = f"start them by the launcher of this MPI: {start}; under Slurm srun --mpi=pmix"
    return QuestionError(message, fix)


# --- a rank but the first


def follow(program: Program, comm: Comm, where: Where, limit: float, works: WorkFactory) -> None:
    """Run as a rank but the first, to the end of the run; `works` makes its work.

    `where` are the map, its file and the backend, as the command line has them.
    """
    leave_signals()
    first: list[RankInfo] = []

    def late() -> None:
        who = first[0].label if first else "rank 0"
        how = "is stopped" if first and state(first[0].process) == "T" else "does not end the run"
        if comm.rank == 1:
            program.stderr.write(written((f"error: {who} {how}, and its time is over",)))
            program.stderr.flush()
        os._exit(Exit.TIMEOUT)

    with Heartbeat(comm.beats(), limit + _LATE, late):
        try:
            answer, member = _find(program, comm, where, works)
            comm.gather(answer)
            first += comm.broadcast()
            if first:
                member.follow()
        except BaseException:  # noqa: BLE001 - whatever it was, the others must not wait for this one
            sys.excepthook(*sys.exc_info())
            program.stderr.flush()
            os._exit(Exit.INTERNAL)


def _find(program: Program, comm: Comm, where: Where, works: WorkFactory) -> tuple[Answer, Member]:
    """Resolve this rank's device by the options that rank 0 has too."""
    from gpumap import sources
    from gpumap.inventory import Inventory
    from gpumap.parse import parse_map
    from gpumap.resolve import default_map, resolve

    argument, option, file, backend = where
    inventory = Inventory(program.host(), backend)
    try:
        source = sources.find(argument, option, file, env=program.env, cwd=program.cwd)
        if source is None:
            context_map = default_map(inventory)
        else:
            context_map = parse_map(source.text)
            index = entry_index([entry.name for entry in context_map.entries], program)
            inventory.expect([str(context_map.entries[index].ref)])
        binding = rank_binding(resolve(context_map, inventory), program)
    except GpumapError as error:
        info = rank_info(comm, "?")
        return Answer(info, None, error.diagnostics, error.exit_code), Member(comm, None, works)
    member = Member(comm, opener(binding, inventory), works)
    return Answer(rank_info(comm, binding.name), binding, local=local_rank(program)), member


def rank_binding(resolution: Resolution, program: Program) -> Binding:
    """Return the binding of this rank, by its number on its node.

    Raises:
        QuestionError: there are more ranks on this node than names in the map.
    """
    bindings = resolution.bindings
    index = entry_index([binding.name for binding in bindings], program)
    return bindings[index]


def opener(binding: Binding, inventory: Inventory) -> Callable[[], Session]:
    """Return a function that opens a rank's device, and pins the rank if that is cores."""

    def opening() -> Session:
        clock = inventory.backend(binding.device.backend).clock()
        session = inventory.open(binding.device, clock)
        if binding.device.in_host_memory and binding.device.cores:
            pin(binding.device.cores)  # the exchange is this thread's work
        return session

    return opening


# --- rank 0


class ProcessJob:
    """All ranks of a job, led by rank 0; the others are ended, whatever happens."""

    def __init__(self, comm: Comm, record: Recording, works: WorkFactory, local: int) -> None:
        me = os.getpid()  # without a rank table, only the processes can be named
        record.limit.silent = lambda: [f"process {each}, stopped" for each in stopped_siblings(me)]
        self._comm, self._works = comm, works
        self._beats = comm.beats()  # so do the others: heartbeats have a communicator of their own
        self._record, self._local = record, local
        self._gathered = False
        self._ranks: ProcessRanks | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the others, wherever they wait."""
        if not self._gathered:
            self._comm.gather(None)
            self._comm.broadcast([])
        elif self._ranks is not None and self._ranks.busy:  # they wait in the middle of an exchange
            self._record.ending.broken = True
        elif self._ranks is not None:
            self._ranks.end()

    def gather_ranks(
        self, binding: Binding, inventory: Inventory, names: Iterable[str]
    ) -> tuple[tuple[Binding, ...], ProcessRanks]:
        """Gather the rank table; return the binding of each rank, and the ranks.

        `names` are those of the map.

        Raises:
            QuestionError: two ranks have one device, or there are more of them than names.
            AbsentError: the device of a rank is not there.
        """
        mine = Answer(rank_info(self._comm, binding.name), binding, local=self._local)
        answers = self._comm.gather(mine) or []
        self._gathered = True
        try:
            refuse(answers)
        except GpumapError:
            self._comm.broadcast([])
            raise
        table = [answer.info for answer in answers]
        self._comm.broadcast(table)
        self._record.draft.remarks += [*unassigned(names, answers), *node_names(table)]
        bindings = tuple(unique_bindings(answers))
        self._record.draft.ranks = ranks(answers)
        here = [b.name for b, s in zip(bindings, table, strict=True) if s.host == table[0].host]
        member = Member(self._comm, opener(binding, inventory), self._works)
        self._ranks = ProcessRanks(member, table, here)
        return bindings, self._ranks

    @contextmanager
    def opened(
        self, binding: Binding, resolution: Resolution, inventory: Inventory
    ) -> Iterator[OpenDevices]:
        """Open the device of every rank, this one's by `binding`; watch them until it is closed."""
        assert self._ranks is not None  # they have answered
        backend = inventory.backend(binding.device.backend)
        with Watch(self._beats, self._ranks.table, self._lost) as watch:
            self._record.limit.silent = lambda: [info.label for info in watch.silent()]
            session = self._ranks.open()
            sessions, cpus = {binding.name: session}, len(inventory.host.topology.cpus)
            clock = backend.clock()
            yield OpenDevices(resolution.bindings, sessions, clock, lambda _: session, cpus)

    def _lost(self, dead: Sequence[RankInfo], *, stop: bool) -> None:
        """End the run: a rank is gone."""
        if stop:  # mpirun ends them all, this one too
            self._record.end(
                Diagnostic("interrupted", "interrupted"), Exit.INTERRUPTED, "interrupted"
            )
        who = ", ".join(info.label for info in dead)
        self._record.end(Diagnostic("rank-lost", f"{who} died", hint=_LOST), Exit.ABSENT, "error")


class StartTimeout:
    """Time limit for the start of MPI: prints an error, and kills this process.

    MPI has started when every rank has, and the call that waits for them holds Python's lock:
    neither a thread nor a handler of a signal would run in it. So a subprocess waits, which
    ends with this process however that ends.
    """

    def __init__(self, limit: float, text: str) -> None:
        """Allow `limit` seconds; `text` begins the message, empty for none."""
        self._limit, self._text = limit, text
        self._watchdog, self._pipe = 0, 0

    def __enter__(self) -> Self:
        reading, self._pipe = os.pipe()
        process = os.getpid()
        self._watchdog = os.fork()
        if not self._watchdog:
            try:
                os.close(self._pipe)
                self._wait(reading, process)
            finally:
                os._exit(0)
        os.close(reading)
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._pipe)  # it waits for this
        reap(self._watchdog, _EXIT_GRACE)

    def _wait(self, reading: int, process: int) -> None:
        """Run as the watchdog."""
        if select.select([reading], [], [], self._limit)[0]:
            return
        if self._text:
            which = ", ".join(f"process {number}" for number in stopped_siblings(process))
            fix = f"continue or end {which}: stopped" if which else "look at the other ranks"
            text = f"error: {self._text}: MPI waits for a rank that does not come"
            with suppress(OSError):
                os.write(_STDERR, written((text, f"  fix: {fix}")).encode())
        os.kill(process, signal.SIGKILL)
