"""Ranks of a command that a launcher has started: the devices, and rank 0's lead.

Every rank runs the same command line. The local rank i of a node takes the entry i of the map. Rank
0 gathers all answers, measures and reports; the others follow it, print nothing, and end in
exit code 0, so that the launcher's is that of rank 0. A rank without an answer of rank 0 fails.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from gpumap import sources
from gpumap.app import rank_table
from gpumap.app.command import tell
from gpumap.app.engines import LATE
from gpumap.app.own_entry import index_of_rank
from gpumap.app.program import TURN, Program, TimeLimit, leave_signals
from gpumap.app.rank_table import Answer, refuse, this_rank
from gpumap.bench.process_ranks import Member, ProcessRanks, broken
from gpumap.comm.watchdog import Watch, heartbeats, stopped_siblings
from gpumap.engine.base import OpenDevices
from gpumap.errors import Diagnostic, Exit, GpumapError
from gpumap.inventory import Inventory
from gpumap.machine.process_control import pin
from gpumap.parse import parse_map
from gpumap.resolve import default_map, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpumap.app.given_map import Where
    from gpumap.app.recording import Recording
    from gpumap.backends.base import Session
    from gpumap.bench.process_ranks import Maker
    from gpumap.comm.base import ProcessComm
    from gpumap.model import Binding, Rank, Resolution

_LOST = "look at its output and at dmesg: what has no memory left is killed"


# --- a rank but the first


def follow(program: Program, comm: ProcessComm, where: Where, limit: float, maker: Maker) -> None:
    """Run as a rank but the first, to the end of the run; `maker` makes its work."""
    leave_signals()
    first: list[Rank] = []

    def late(_: Diagnostic) -> None:
        who = first[0].label if first else "rank 0"
        if comm.rank == 1:
            tell(program, f"error: {who} does not end the run, and its time is over")
        os._exit(Exit.TIMEOUT)

    time_limit = TimeLimit(limit + LATE, late)
    time_limit.start()
    with heartbeats(comm.part(comm.size)):
        try:
            answer, opening = _find(program, comm, where)
            comm.gather(answer)
            first += comm.broadcast()
            if first and opening:
                Member(comm, opening, maker).follow()
            comm.close()
            time_limit.cancel()
        except comm.failures as error:
            time.sleep(TURN)  # rank 0 names who is gone, and the launcher ends this one
            tell(program, f"error: rank {comm.rank}: {broken(error)}")
            os._exit(Exit.ABSENT)
        except BaseException:  # noqa: BLE001 - whatever it was, the others must not wait for this one
            sys.excepthook(*sys.exc_info())
            program.stderr.flush()
            os._exit(Exit.INTERNAL)


def _find(
    program: Program, comm: ProcessComm, where: Where
) -> tuple[Answer, Callable[[], Session] | None]:
    """Resolve this rank's device by the options that rank 0 has too; return what opens it."""
    try:
        inventory = Inventory(program.host(), where.backend)
        source = sources.find(where.argument, where.option, env=program.env, cwd=program.cwd)
        context_map = default_map(inventory) if source is None else parse_map(source.text)
        index = index_of_rank([entry.name for entry in context_map.entries], program)
        inventory.expect([str(context_map.entries[index].ref)])
        binding = resolve(context_map, inventory).bindings[index]
    except GpumapError as error:
        return Answer(this_rank(comm, program), error.diagnostics, error.exit_code), None
    return Answer(this_rank(comm, program, binding)), opener(binding, inventory)


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

    def __init__(self, comm: ProcessComm, record: Recording, maker: Maker) -> None:
        me = os.getpid()  # without a rank table, only the processes can be named
        record.limit.silent = lambda: [f"process {each}, stopped" for each in stopped_siblings(me)]
        self._comm, self._maker = comm, maker
        self._beats = comm.part(comm.size)  # so do the others, for heartbeats alone
        self._record = record
        self._gathered = False
        self._ranks: ProcessRanks | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """End the others, wherever they wait."""
        if self._ranks is None:
            if not self._gathered:
                self._comm.gather(None)
            self._comm.broadcast([])
        elif self._ranks.busy:  # they wait in the middle of an exchange
            self._record.broken = True
        else:
            self._ranks.end()
            self._comm.close()

    def gather_ranks(
        self, binding: Binding, inventory: Inventory, names: Iterable[str]
    ) -> tuple[tuple[Binding, ...], ProcessRanks]:
        """Gather the rank table; return the binding of each rank, and the ranks.

        `names` are those of the map.

        Raises:
            QuestionError: two ranks have one device, or there are more of them than names.
            AbsentError: the device of a rank is not there.
        """
        mine = this_rank(self._comm, self._record.draft.program, binding)
        answers = self._comm.gather(Answer(mine))
        self._gathered = True
        refuse(answers)
        table = [answer.rank for answer in answers]
        self._comm.broadcast(table)
        bindings = rank_table.record(self._record.draft, names, table)
        here = [b.name for b, s in zip(bindings, table, strict=True) if s.host == table[0].host]
        member = Member(self._comm, opener(binding, inventory), self._maker)
        self._ranks = ProcessRanks(member, table, here)
        return bindings, self._ranks

    @contextmanager
    def opened(
        self, binding: Binding, resolution: Resolution, inventory: Inventory
    ) -> Iterator[OpenDevices]:
        """Open the device of every rank, this one's by `binding`; watch them until it is closed."""
        assert self._ranks is not None  # they have answered
        backend = inventory.backend(binding.device.backend)
        with Watch(self._beats, self._ranks.table, self._lost, self._late) as watch:
            self._record.limit.silent = lambda: [info.label for info in watch.silent()]
            cpus, clock = len(inventory.host.topology.cpus), backend.clock()
            try:
                session = self._ranks.open()
                sessions = {binding.name: session}
                yield OpenDevices(resolution.bindings, sessions, clock, lambda _: session, cpus)
            except KeyboardInterrupt:
                if dead := watch.dead():  # its launcher ends all ranks where one has died
                    self._lost(dead)
                raise

    def _late(self, silent: Sequence[Rank]) -> None:
        """Warn at once of ranks that no longer answer: all others wait for them."""
        who = ", ".join(info.label for info in silent)
        message, fix = f"no answer from {who}: all ranks wait", "continue or end it; see its output"
        self._record.warn(Diagnostic("rank-late", message, hint=fix, severity="warning"))

    def _lost(self, dead: Sequence[Rank]) -> None:
        """End the run: a rank is gone, or all of them are to end."""
        if not dead:  # mpirun ends them all, this one too
            self._record.end(
                Diagnostic("interrupted", "interrupted"), Exit.INTERRUPTED, "interrupted"
            )
        who = ", ".join(info.label for info in dead)
        self._record.end(Diagnostic("rank-lost", f"{who} died", hint=_LOST), Exit.ABSENT, "error")
