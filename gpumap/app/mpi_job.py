"""The ranks of a command that MPI has started: who has which device, and who speaks.

Every rank runs the same command line. The local rank i of a node takes the entry i of the map. Rank
0 hears from all of them, measures and reports; the others do as it says, in silence, and end in
exit code 0, so that mpirun's is that of rank 0. A rank that never hears from rank 0 fails alone.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from gpumap.app.benchmark import Opened
from gpumap.app.own_rank import OURS, TURN, local_rank, place_of, refused, several, unbound
from gpumap.app.program import leave_signals
from gpumap.bench.mpi_ranks import Member, MpiRanks
from gpumap.distributed.mpi import load
from gpumap.distributed.ranks import Seat, Signs, Watch, state, stopped_beside
from gpumap.errors import AbsentError, Diagnostic, Exit, GpumapError, QuestionError
from gpumap.escape import written
from gpumap.launch.process import reap
from gpumap.machine.process_control import pin
from gpumap.model import Binding, Rank, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from gpumap.app.program import Program
    from gpumap.app.recording import Recording
    from gpumap.backends.base import Session
    from gpumap.bench.mpi_ranks import Works
    from gpumap.distributed.ranks import Launch
    from gpumap.model import Device, Resolution
    from gpumap.resolve import Inventory

    # MAP, --map, --map-file and --backend
    Where = tuple[str | None, str | None, Path | None, str | None]

_LATE = 10.0  # seconds beyond its time limit, after which rank 0 is given up
_STDERR = 2
_LETTING_GO = 1.0  # seconds that a child has to end: it may be stopped
_LOST = "look at its output and at dmesg: what has no memory left is killed"


def join(program: Program, limit: float) -> Any:
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
        time.sleep(TURN)  # of what all ranks lack the first one has spoken by then
        who = f"rank {launch.rank} on {socket.gethostname()}"
        kind = type(error)
        raise kind(
            tuple(replace(d, message=f"{who}: {d.message}") for d in error.diagnostics)
        ) from None


def start(program: Program, limit: float) -> Any:
    """Do the same, without waiting for what rank 0 has to say of an error."""
    launch = several(program)
    rank = launch.rank if launch else 0
    # who sends Ctrl-C to every rank means the run, which rank 0 ends: with its report
    before = signal.signal(signal.SIGINT, lambda *_: None) if rank else None
    said = f"the time limit of {limit:g} s was reached" if rank < 2 else ""  # noqa: PLR2004 - one may be stopped
    try:
        with Starting(limit + (_LATE if rank else 0.0), said):
            comm = load().COMM_WORLD
        if comm.Get_size() == 1:
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
    said = f"{launch.by} has started {launch.size} processes, and MPI knows of one of them"
    if launch.by == OURS:
        fix = f"let mpirun start them: gpumap run --launcher mpi MAP -- {command}"
        return QuestionError(said, fix)
    fix = f"start them by the launcher of this MPI: {start}; under Slurm srun --mpi=pmix"
    return QuestionError(said, fix)


# --- a rank but the first


def follow(program: Program, comm: Any, where: Where, limit: float, works: Works) -> None:
    """Be a rank but the first, to the end of the run; `works` makes what it has to do.

    `where` are the map, its file and the backend, as the command line has them.
    """
    leave_signals()
    first: list[Seat] = []

    def late() -> None:
        who = first[0].words if first else "rank 0"
        how = "is stopped" if first and state(first[0].process) == "T" else "does not end the run"
        if comm.Get_rank() == 1:
            program.stderr.write(written((f"error: {who} {how}, and its time is over",)))
            program.stderr.flush()
        os._exit(Exit.TIMEOUT)

    with Signs(comm.Dup(), limit + _LATE, late):
        try:
            answer, member = _looked(program, comm, where, works)
            comm.gather(answer)
            first += comm.bcast(None)
            if first:
                member.follow()
        except BaseException:  # noqa: BLE001 - whatever it was, the others must not wait for this one
            sys.excepthook(*sys.exc_info())
            program.stderr.flush()
            os._exit(Exit.INTERNAL)


def _looked(program: Program, comm: Any, where: Where, works: Works) -> tuple[Answer, Member]:
    """Find this rank's device by the options that rank 0 has too."""
    from gpumap import sources
    from gpumap.parse import parse_map
    from gpumap.resolve import Inventory, default_map, resolve

    argument, option, file, backend = where
    inventory = Inventory(program.host(), backend)
    try:
        found = sources.find(
            argument=argument, option=option, map_file=file, env=program.env, cwd=program.cwd
        )
        if found is None:
            context_map = default_map(inventory)
        else:
            context_map = parse_map(found.text)
            place = place_of([entry.name for entry in context_map.entries], program)
            inventory.expect([str(context_map.entries[place].ref)])
        binding = own(resolve(context_map, inventory), program)
    except GpumapError as error:
        seat = seated_at(comm, "?")
        return Answer(seat, None, error.diagnostics, error.exit_code), Member(comm, None, works)
    member = Member(comm, opener(binding, inventory), works)
    return Answer(seated_at(comm, binding.name), binding, local=local_rank(program)), member


def own(resolution: Resolution, program: Program) -> Binding:
    """Return the binding of this rank: that of its place on its node.

    Raises:
        QuestionError: there are more ranks on this node than names in the map.
    """
    bindings = resolution.bindings
    place = place_of([binding.name for binding in bindings], program)
    return bindings[place]


def opener(binding: Binding, inventory: Inventory) -> Callable[[], Session]:
    """Return what opens a rank's device, and binds the rank to its cores if it is one."""

    def opening() -> Session:
        clock = inventory.backend(binding.device.backend).clock()
        session = inventory.open(binding.device, clock)
        if binding.device.in_host_memory and binding.device.cores:
            pin(binding.device.cores)  # the exchange is this thread's work
        return session

    return opening


def seated_at(comm: Any, name: str) -> Seat:
    """Return this rank, as the one that has a name of the map."""
    return Seat(comm.Get_rank(), name, socket.gethostname(), os.getpid())


# --- rank 0


class Crew:
    """All ranks, as rank 0 leads them; whatever happens, the others are let go or ended."""

    def __init__(self, comm: Any, record: Recording, works: Works, local: int) -> None:
        me = os.getpid()  # until it is known who sits where, only the processes can be named
        record.limit.silent = lambda: [f"process {each}, stopped" for each in stopped_beside(me)]
        self._comm, self._works = comm, works
        self._signs = comm.Dup()  # so do the others: what they show has nothing to do with the rest
        self._record, self._local = record, local
        self._gathered = False
        self._led: MpiRanks | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the others go, wherever they wait."""
        if not self._gathered:
            self._comm.gather(None)
            self._comm.bcast([])
        elif self._led is not None and self._led.telling:  # they wait in the middle of an exchange
            self._record.ending.broken = True
        elif self._led is not None:
            self._led.end()

    def muster(
        self, binding: Binding, inventory: Inventory, names: Iterable[str]
    ) -> tuple[tuple[Binding, ...], MpiRanks]:
        """Return the binding of each rank, by node where there are several, and their lead.

        `names` are those of the map.

        Raises:
            QuestionError: two ranks have one device, or there are more of them than names.
            AbsentError: the device of a rank is not there.
        """
        mine = Answer(seated_at(self._comm, binding.name), binding, local=self._local)
        answers = self._comm.gather(mine)
        self._gathered = True
        try:
            refuse(answers)
        except GpumapError:
            self._comm.bcast([])
            raise
        seats = [answer.seat for answer in answers]
        self._comm.bcast(seats)
        self._record.draft.remarks += [*left(names, answers), *nodes(seats)]
        bindings = tuple(named(answers))
        self._record.draft.ranks = ranks(answers)
        here = [b.name for b, s in zip(bindings, seats, strict=True) if s.host == seats[0].host]
        member = Member(self._comm, opener(binding, inventory), self._works)
        self._led = MpiRanks(member, seats, here)
        return bindings, self._led

    @contextmanager
    def opened(self, binding: Binding, inventory: Inventory) -> Iterator[Opened]:
        """Open the device of every rank, and look after the ranks until they are closed."""
        assert self._led is not None  # they have answered
        backend = inventory.backend(binding.device.backend)
        with Watch(self._signs, self._led.seats, self._lost) as watch:
            self._record.limit.silent = lambda: [seat.words for seat in watch.silent()]
            session = self._led.open()
            yield Opened({binding.name: session}, backend.clock(), lambda _: session)

    def _lost(self, dead: Sequence[Seat], *, asked: bool) -> None:
        """End the run: a rank is gone."""
        if asked:  # mpirun ends them all, this one too
            self._record.end(
                Diagnostic("interrupted", "interrupted"), Exit.INTERRUPTED, "interrupted"
            )
        who = ", ".join(seat.words for seat in dead)
        self._record.end(Diagnostic("rank-lost", f"{who} died", hint=_LOST), Exit.ABSENT, "error")


class Starting:
    """Kills this process where MPI has not started in time, and says so before.

    MPI has started when every rank has come, and the call that waits for them holds Python's lock:
    neither a thread nor a handler of a signal would run in it. So a child waits beside it, which
    ends with this process however that ends.
    """

    def __init__(self, limit: float, said: str) -> None:
        """Allow `limit` seconds; `said` are the first words of the message, empty for none."""
        self._limit, self._said = limit, said
        self._child, self._pipe = 0, 0

    def __enter__(self) -> Self:
        reading, self._pipe = os.pipe()
        process = os.getpid()
        self._child = os.fork()
        if not self._child:
            try:
                os.close(self._pipe)
                self._wait(reading, process)
            finally:
                os._exit(0)
        os.close(reading)
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._pipe)  # it waits for this
        reap(self._child, _LETTING_GO)

    def _wait(self, reading: int, process: int) -> None:
        """Be the child."""
        if select.select([reading], [], [], self._limit)[0]:
            return
        if self._said:
            which = ", ".join(f"process {number}" for number in stopped_beside(process))
            fix = f"continue or end {which}: stopped" if which else "look at the other ranks"
            said = f"error: {self._said}: MPI waits for a rank that does not come"
            with suppress(OSError):
                os.write(_STDERR, written((said, f"  fix: {fix}")).encode())
        os.kill(process, signal.SIGKILL)


# --- which rank has which device


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rank says when it has looked for its device."""

    seat: Seat
    binding: Binding | None
    problems: tuple[Diagnostic, ...] = ()
    code: Exit = Exit.OK
    local: int = 0  # its number among the ranks of its machine


def ranks(answers: Sequence[Answer]) -> tuple[Rank, ...]:
    """Return each rank, with its device."""
    bindings = iter(named(answers))
    return tuple(
        Rank(
            a.seat.rank, a.local, a.seat.host, a.seat.process, next(bindings) if a.binding else None
        )
        for a in answers
    )


def refuse(answers: Sequence[Answer]) -> None:
    """Refuse ranks of which one has no device, or two have the same.

    Raises:
        QuestionError: two ranks have one device, or there are more of them than names.
        AbsentError: the device of a rank is not there.
    """
    if problems := tuple(problem for answer in answers for problem in told(answer)):
        code = max(answer.code for answer in answers)
        kind = AbsentError if code == Exit.ABSENT else QuestionError
        raise kind(problems)
    if clashes := tuple(twice(answers)):
        raise QuestionError(clashes)


def told(answer: Answer) -> Iterator[Diagnostic]:
    """Yield what is wrong with a rank, with its name."""
    for problem in answer.problems:
        message = f"{answer.seat.words}: {problem.message}"
        yield replace(problem, message=message, span=None, entry=None)


def twice(answers: Iterable[Answer]) -> Iterator[Diagnostic]:
    """Yield each device that two ranks have."""
    found: defaultdict[Hashable, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.binding is not None:
            found[answer.seat.host, _identity(answer.binding.device)].append(answer)
    for sharing in found.values():
        if len(sharing) > 1:
            who = " and ".join(answer.seat.words for answer in sharing)
            device = sharing[0].binding.device if sharing[0].binding else None
            which = device and (device.uuid or device.pci or device.id)
            fix = "map each name to a device of its own"
            yield Diagnostic("question", f"{who} have one device, {which}", hint=fix)


def _identity(device: Device) -> Hashable:
    """Return what tells a device from the others of its machine, whoever looks at it."""
    if (
        device.in_host_memory
    ):  # cores: where a rank may run on some alone, their numbers are its own
        return device.hardware or device.id
    if device.ref.part is None and (known := device.uuid or device.pci):
        return known
    return device.id


def left(names: Iterable[str], answers: Sequence[Answer]) -> Iterator[Diagnostic]:
    """Yield which names of the map no rank has taken: nothing is known of them."""
    taken = {answer.seat.name for answer in answers}
    if free := [name for name in names if name not in taken]:
        said = f"no rank was started for {', '.join(free)}: not measured"
        yield Diagnostic(
            "unassigned-names", said, hint="start a rank for each name", severity="note"
        )


def nodes(seats: Sequence[Seat]) -> Iterator[Diagnostic]:
    """Yield which host each node of the names is, where there are several."""
    hosts = list(dict.fromkeys(seat.host for seat in seats))
    if len(hosts) > 1:
        which = ", ".join(f"node{number} is {host}" for number, host in enumerate(hosts))
        yield Diagnostic("nodes", which, severity="note")


def named(answers: Sequence[Answer]) -> Iterator[Binding]:
    """Yield the binding of each rank that has one, by names and ids that no other one has.

    On several machines the number of its node stands before them; and that of the rank before the
    id of a device that is another one than a rank before calls so.
    """
    hosts = list(dict.fromkeys(answer.seat.host for answer in answers))
    seen: dict[str, Hashable] = {}
    for answer in answers:
        if answer.binding is None:
            continue
        name, device = answer.binding.name, answer.binding.device
        if len(hosts) > 1:
            node = f"node{hosts.index(answer.seat.host)}"
            hardware = frozenset(f"{node}/{part}" for part in device.hardware)
            name = f"{node}/{name}"
            device = replace(device, id=f"{node}/{device.id}", hardware=hardware)
        known = (answer.seat.host, _identity(answer.binding.device))
        if seen.setdefault(device.id, known) != known:
            device = replace(device, id=f"rank{answer.seat.rank}/{device.id}")
        yield Binding(name, device)
