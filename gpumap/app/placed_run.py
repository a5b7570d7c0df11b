"""A command, run once for each name of a map, on its device and on its cores."""

from __future__ import annotations

import os
import shlex
import sys
from _socket import socket  # what socket.socket is made of, without 5 ms of names
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpumap import sources
from gpumap.app.command import find_program, tell
from gpumap.app.launching import Job, Launching, by_mpirun
from gpumap.app.output import say
from gpumap.app.own_entry import inventory
from gpumap.app.program import Ended
from gpumap.distributed import without_ranks
from gpumap.errors import Diagnostic, GpumapError, MapError, QuestionError, SourceError
from gpumap.escape import written
from gpumap.files import read_text
from gpumap.launch import launch_config, placement
from gpumap.launch.placement import TOKEN
from gpumap.launch.process import Order
from gpumap.launch.visibility import kept
from gpumap.machine.topology import read
from gpumap.model import replace
from gpumap.parse import parse_map
from gpumap.resolve import resolve
from gpumap.text import width
from gpumap.units import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gpumap.app.program import Program
    from gpumap.launch.launch_config import Node, Session
    from gpumap.launch.placement import Place
    from gpumap.machine.topology import Topology
    from gpumap.model import Resolution

    Planned = Sequence[tuple[Place, Mapping[str, str]]]

_NO_MAP = (
    'give one: gpumap run "dev0->cuda0;dev1->cuda1" -- COMMAND; `gpumap devices` lists devices'
)
_NO_COMMAND = 'write it behind "--": gpumap run MAP -- COMMAND ARG...'
_COLUMNS = ("name", "device", "PCI", "node", "cores", "how that is known")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """On which devices a command runs, and how its processes are started and ended."""

    argument: str | None
    option: str | None
    map_file: Path | None
    backend: str | None
    launcher: str
    no_bind: bool
    dry_run: bool
    output_dir: Path | None
    timeout: float | None
    grace: float
    quiet: bool
    watch: bool = False
    expect_used: bool = False


def run_names(program: Program, request: RunRequest) -> None:
    """Run the command after "--" once for each name.

    Raises:
        Ended: it ended with an error.
    """
    if not program.command:
        raise QuestionError("no command is given", _NO_COMMAND)
    path = find_program(program.command[0], program)
    topology = read()
    resolution = _resolved(program, topology, request)
    planned = _planned(program, topology, resolution, request.backend, bind=not request.no_bind)
    if request.launcher == "mpi":
        found = by_mpi(program, path, planned)
    else:
        found = jobs(program, path, planned)
    if request.dry_run:
        _show(program, planned, found)
        return
    if not request.quiet:
        tell(program, *_report(place for place, _ in planned))
    launching = Launching(program, found, quiet=request.quiet)
    if request.output_dir is not None:
        launching.to_files(request.output_dir)
    token = planned[0][1][TOKEN].rpartition(":")[2]
    if request.watch or request.expect_used:
        from gpumap.app.watched_programs import WatchOutput, run_watched

        live = request.watch and not request.quiet and request.launcher == "local"
        shown = WatchOutput(live, request.quiet, request.expect_used)
        run_watched(program, launching, (token, request.grace, request.timeout), resolution, shown)
    elif code := launching.go(token, request.grace, request.timeout):
        raise Ended(code)


# --- what is requested


def _resolved(program: Program, topology: Topology, request: RunRequest) -> Resolution:
    """Find the map and its devices; say what is wrong with it, with the place."""
    env, cwd = program.env, program.cwd
    source = sources.find(request.argument, request.option, request.map_file, env=env, cwd=cwd)
    if source is None:
        say(sources.ignored(env=env, cwd=cwd), program)
        raise MapError((Diagnostic("no-map", "no map is given", hint=_NO_MAP),))
    try:
        context_map = parse_map(source.text)
        resolution = resolve(context_map, inventory(program, topology, request.backend))
    except GpumapError as error:
        say(error.diagnostics, program, source.text)
        raise Ended(error.exit_code) from error
    if not request.quiet:
        say((*source.notes, *context_map.notes, *resolution.notes), program, source.text)
    return resolution


def _planned(
    program: Program,
    topology: Topology,
    resolution: Resolution,
    backend: str | None,
    *,
    bind: bool,
) -> Planned:
    """Return for each name its place, and the variables of its process."""
    found = placement.places(resolution.bindings, topology, bind=bind)
    return with_ranks(program, found, backend)


def with_ranks(
    program: Program, found: Sequence[Place], backend: str | None, token: str | None = None
) -> Planned:
    """Return each place with the variables of its process, which is a rank of a new job."""
    sought = socket()
    sought.bind(("127.0.0.1", 0))
    token = token or os.urandom(16).hex()
    shared = placement.Shared(token, sought.getsockname()[1], backend=backend)
    sought.close()
    return list(zip(found, placement.environments(found, shared, program.env), strict=True))


def jobs(program: Program, path: str, planned: Planned) -> list[Job]:
    """Return a process for each name."""
    found, given = [], without_ranks(program.env)
    for rank, (place, variables) in enumerate(planned):
        env = {**kept([place.device], given), **variables}
        order = Order(path, program.command or (), env, place.cores)
        found.append(Job(place.name, f"rank {rank}, {place.device.ref}", order, place))
    return found


def by_mpi(program: Program, path: str, planned: Planned) -> list[Job]:
    """Return the one process that what is planned is as mpirun does it."""
    places = [place for place, _ in planned]
    if "=" in path and not all(place.cores for place in places):
        fix = "give it another path, or put the command into a script"
        raise QuestionError(
            f'env, which sets the variables, takes {path} for one: it has a "="', fix
        )
    contexts = placement.mpirun_contexts(planned, (path, *(program.command or ())[1:]), program.env)
    helpers = ("env", *(["taskset"] if any(place.cores for place in places) else []))
    return [by_mpirun(program, contexts, planned[0][1][TOKEN], helpers)]


# --- what is said before


def _report(planned: Iterable[Place]) -> Iterator[str]:
    rows = [
        (
            place.name,
            str(place.device.ref),
            place.device.pci or "-",
            "-" if place.node is None else str(place.node),
            ranges(place.cores) or "any",
            place.why,
        )
        for place in planned
    ]
    columns = list(zip(_COLUMNS, *rows, strict=True))
    widths = [max(map(width, cells)) for cells in columns]
    lines = (
        "  ".join(cell + " " * (w - width(cell)) for cell, w in zip(row, widths, strict=True))
        for row in (_COLUMNS, *rows)
    )
    return (line.rstrip() for line in lines)


def _show(program: Program, planned: Planned, jobs: Sequence[Job]) -> None:
    """Print what would be started."""
    if jobs[0].place:
        show(program, planned)
        return
    lines = (*_report(place for place, _ in planned), "", shlex.join(jobs[0].order.argv))
    program.stdout.write(written(lines))
    program.stdout.flush()


def show(program: Program, planned: Planned) -> None:
    """Print where each process would run, and the variables that it would get."""
    lines = [*_report(place for place, _ in planned)]
    for place, variables in planned:
        lines += ("", place.name, *(f"  {k}={shlex.quote(v)}" for k, v in variables.items()))
    program.stdout.write(written(lines))
    program.stdout.flush()


# --- a launch config of Theano-MPI

_SOURCE = 1 << 22  # bytes of a module
_LIMIT = 1 << 16  # bytes: six keys, and thousands of devices
_AVERAGES = {"cdd": "gradients", "avg": "parameters"}
# ar is a sum in host memory, which MPI does itself; nccl exchanges by itself
_ALGORITHMS = {"ar": "host", **dict.fromkeys(("asa32", "asa16", "copper", "copper16"), "ring")}
_HALVES = ("nccl16", "asa16", "copper16")
_NETWORKS = ("--preset", "--network", "--sweep")  # options of bench train that choose one
_ITS_OWN = "the session file names the devices: DEVICES"
_REFUSED = {  # by the option's name in the program: how it is written, why, and the fix
    "argument": ("MAP", _ITS_OWN, "omit one of them"),
    "option": ("--map", _ITS_OWN, "omit one of them"),
    "map_file": ("--map-file", _ITS_OWN, "omit one of them"),
    "no_bind": ("--no-bind", "bench train places its workers itself", "omit it"),
    "output_dir": ("--output-dir", "bench train prints one report for all devices",
                   "give it a file behind --: -- --output report.json"),
}  # fmt: skip
_ALONE = {  # where no launcher stays that could heed them
    "timeout": ("--timeout", "bench train has a time limit of its own",
                "give it behind --: -- --timeout 60s"),
    "grace": ("--grace", "bench train ends on its own", "omit it, or add --launcher mpi"),
}  # fmt: skip
_ELSEWHERE = {
    "launcher": ("--launcher local", "the session has devices on other hosts",
                 "omit --launcher: mpirun starts it"),
}  # fmt: skip


def start(program: Program, file: Path, request: RunRequest, written: frozenset[str]) -> None:
    """Start what a session file says: in the place of this process, or by mpirun.

    `written` are the parameters that the command line itself has; a variable may be for others.

    Raises:
        QuestionError: the file, or an option beside it, is wrong.
        Ended: mpirun has ended, not well.
    """
    _refuse(_REFUSED, written)
    session = _read(program, file)
    elsewhere = any(not node.here for node in session.nodes)
    if (trains := _is_model_class(program, session)) and (elsewhere or program.command):
        message = f"{session.modelclass} is a ModelClass, which is trained on this machine alone"
        raise QuestionError(message, "name devices of this one, and no options of bench train")
    by_mpi = request.launcher == "mpi"
    mpi = (by_mpi or elsewhere) and not trains
    _refuse({} if by_mpi else _ELSEWHERE if elsewhere else _ALONE, written)
    if not request.quiet:
        say(_notes(session, program.command or (), mpi=mpi), program)
    if mpi:
        limit = request.timeout if "timeout" in written else None  # the variable's is bench train's
        _start_ranks(program, session, request, limit)
        return
    call = _call(program, session, session.nodes[0], request, mpi=False)
    if not _announced(program, call, request):
        _become(program, call)


def _refuse(options: dict[str, tuple[str, str, str]], written: frozenset[str]) -> None:
    """Refuse what was written in the command line."""
    for name, (option, why, fix) in options.items():
        if name in written:
            raise QuestionError(f"--cfg and {option}: {why}", fix)


def _read(program: Program, file: Path) -> Session:
    """Return what the file says; the grammar of its devices is that of maps."""
    text = read_text(program.cwd / file, "session file", _LIMIT)
    session = launch_config.read(text, str(file), os.uname().nodename)
    for node in session.nodes:
        try:
            parse_map(node.map)
        except MapError as error:
            where = f"{file}, DEVICES"
            problems = [replace(d, message=f"{where}: {d.message}") for d in error.diagnostics]
            say(problems, program, node.map)
            raise Ended(error.exit_code) from error
    return session


def _call(
    program: Program, session: Session, node: Node, request: RunRequest, *, mpi: bool
) -> tuple[str, ...]:
    """Return the call of bench train for the devices of a host; of a ModelClass it is trained."""
    gpumap = (sys.executable, "-P", "-m", "gpumap")  # -P: nothing of this folder
    if _is_model_class(program, session):
        about = {"name": (session.rule or "BSP").lower(), "average": "parameters"}
        network = (str(session.modelfile), str(session.modelclass))
        return (*gpumap, *launch_config.training(node.map, about, network))
    return (
        *(*gpumap, "bench", "train"),
        *("--map", node.map),
        *_options(session, mpi=mpi),
        *(("--backend", request.backend) if request.backend is not None else ()),
        *(("--quiet",) if request.quiet else ()),
        *(program.command or ()),
    )


def _is_model_class(program: Program, session: Session) -> bool:
    """Return whether the session's class is Theano-MPI's: it is read, and not executed."""
    if session.modelfile is None or session.modelclass is None:
        return False
    try:
        path = Path(program.cwd) / f"{session.modelfile.replace('.', '/')}.py"
        return launch_config.is_model_class(
            read_text(path, "model file", _SOURCE), session.modelclass
        )
    except SourceError:
        return False


def _options(session: Session, *, mpi: bool) -> Iterator[str]:
    """Yield the options that say what the session does."""
    nccl = (session.strategy or "").startswith("nccl")
    yield from ("--comm", "mpi" if mpi else "nccl" if nccl else "local")
    if session.rule is not None:
        yield from ("--rule", session.rule.lower())
    if session.modelfile is not None:
        yield from ("--network", f"{session.modelfile}:{session.modelclass}")
    if session.sync_type is not None:
        yield from ("--average", _AVERAGES[session.sync_type])
    if mpi and (nccl or session.strategy == "ar"):
        yield from ("--algorithm", "native")
    elif session.strategy in _ALGORITHMS:
        yield from ("--algorithm", _ALGORITHMS[session.strategy])


def _notes(session: Session, further: Sequence[str], *, mpi: bool) -> Iterator[Diagnostic]:
    """Yield what neither the file nor the options behind -- decide, and what Theano-MPI does not.

    The training differs there from its.
    """
    chosen = any(word.partition("=")[0] in _NETWORKS for word in further)
    yield from (
        note for note in session.notes if not (chosen and note.code == launch_config.PRESET)
    )
    strategy = session.strategy or ""
    if strategy in _HALVES:
        yield _note(f"{strategy} sends float16 in Theano-MPI; here float32 is sent")
    if _ALGORITHMS.get(strategy) == "ring":
        yield _note(f"{strategy} is an exchange of Theano-MPI's own: a ring takes its place")
    if mpi and strategy.startswith("nccl"):
        message = f"{strategy} is for devices of one process: MPI's own exchange takes its place"
        yield _note(message, "as it does in Theano-MPI with several hosts")


def _announced(program: Program, call: Sequence[str], request: RunRequest) -> bool:
    """Tell what is started; return whether that is all that was requested."""
    line = shlex.join(call)
    if request.dry_run:
        program.stdout.write(written((line,)))
        program.stdout.flush()
    elif not request.quiet:
        tell(program, f"note: starting {line}")
    return request.dry_run


def _become(program: Program, call: tuple[str, ...]) -> None:
    """Replace this process: the terminal, the exit code and signals are bench train's own."""
    try:
        os.execve(call[0], call, program.env)  # noqa: S606 - a program, not a shell
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        message = f"cannot start {call[0]}: {why}"
        raise QuestionError(message, "name fewer devices, in plain letters") from error


def _start_ranks(
    program: Program, session: Session, request: RunRequest, limit: float | None
) -> None:
    """Let mpirun start the ranks of each host."""
    token = program.env.get(TOKEN, "")
    fresh = os.urandom(16).hex()
    contexts = []
    for node in session.nodes:
        host = None if node.here and len(session.nodes) == 1 else node.host
        call = _call(program, session, node, request, mpi=True)
        contexts.append(placement.MpiContext(call, len(node.devices), host))
    job = by_mpirun(program, contexts, f"{token}:{fresh}" if token else fresh)
    if _announced(program, job.order.argv, request):
        return
    if code := Launching(program, [job], quiet=request.quiet).go(fresh, request.grace, limit):
        raise Ended(code)


def _note(message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic("session", message, hint=hint, severity="note")
