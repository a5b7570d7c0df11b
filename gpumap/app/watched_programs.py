"""A program that runs as a shell would run it, and is looked at from outside: `watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpumap.app.command import requested
from gpumap.app.given_map import Where, read_map
from gpumap.app.guard import guard
from gpumap.app.launching import Launching
from gpumap.app.own_entry import inventory
from gpumap.app.recording import Draft, Recording
from gpumap.errors import Diagnostic, Exit
from gpumap.judge.uses import names, of
from gpumap.launch.process import Job
from gpumap.launch.watching import Watch
from gpumap.machine.topology import read
from gpumap.model import Problem, Resolution, Utilisation, Watched
from gpumap.resolve import default_map, resolve
from gpumap.text import ended

if TYPE_CHECKING:
    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.launch.supervisor import Ending

GRACE = 5.0
_PLACE = "let the program place work there; `gpumap doctor` says whether it could"
_SEE = "the table says what was seen of each name, and why no more"


def watch_program(program: Program, *, where: Where, expect_used: bool, output: Output) -> None:
    """Run a program as a shell would, and report what it did with the devices of a map.

    Raises:
        Ended: with the program's own exit code, where it is not 0.
    """
    path, env = requested(program, "watch [MAP]"), dict(program.env)
    guard(program)
    settings = {"expect_used": expect_used}
    with Recording(Draft("watch", Watched(), program, settings), output) as record:
        record.draft.resolution = resolved(program, record, where)
        if record.draft.source and record.draft.source.origin != "default":
            env["GPUMAP_CONTEXTS"] = record.draft.source.text
        watch = Watch(record.draft.resolution.bindings)
        ending, code = run_alone(program, Job("program", path, program.command, env), watch)
        found = watch.found(program.command, code)
        record.draft.result = Watched(utilisation=found)
        record.own = ending.code if code else 0
        _judge(record, ending, found, expect_used=expect_used)


def resolved(program: Program, record: Recording, where: Where) -> Resolution:
    """Find the map, a benchmark's where none is given, and its devices."""
    found = inventory(program, read(), where.backend)
    return resolve(read_map(record.draft, where, lambda: default_map(found)), found)


def run_alone(program: Program, job: Job, watch: Watch | None = None) -> tuple[Ending, int | None]:
    """Return how a program ended, and its own code; None: it did not come to its end."""
    ending = Launching(program, [job]).run(GRACE, None, [None], watch)
    done = 0 if ending.why == "done" else None
    return ending, ending.process.code if ending.process else done


def _judge(record: Recording, ending: Ending, found: Utilisation, *, expect_used: bool) -> None:
    """Say in the report how the program ended, and whether what was expected is true."""
    if ending.why == "interrupted":
        record.draft.account(None, stopped=True)
    elif found.code:
        message = f"the program {ended(found.code)}"
        record.draft.refuse(Diagnostic("program", message, hint="its own output says why"))
    elif expect_used and (unused := _unused(found)) is not None:
        record.draft.problems.append(unused)


def _unused(found: Utilisation) -> Problem | None:
    """Return what --expect-used makes of names that were not used, or may not have been."""
    if uses := of("not-used", found):
        return Problem(Diagnostic("not-used", f"{names(uses)} not used", hint=_PLACE), Exit.NO)
    if uses := of("unknown", found):
        message = f"cannot tell whether {names(uses)} used"
        return Problem(Diagnostic("inconclusive", message, hint=_SEE), Exit.INCONCLUSIVE)
    return None
