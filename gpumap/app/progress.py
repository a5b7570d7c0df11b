"""A progress bar on stderr, with the time left: on a terminal only, and never in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from gpumap.bench.registry import loaded
from gpumap.escape import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpumap.app.output import Output
    from gpumap.app.program import Program
    from gpumap.bench.seen import Seen
    from gpumap.model import Group, Measurement, Plan

_WIDE = 10.0  # a half width of ten times the median tells nothing more
_NARROW, _ROOMY = 60, 80  # columns of a terminal, below which less is told
_NAMED = 4  # devices whose shares a line has room for


class Progress:
    """An observer that shows how much is done; a context manager that cleans up its line."""

    def __init__(self, program: Program, output: Output, precision: float) -> None:
        """Watch a run that stops at `precision`, a share."""
        self._precision = 100 * precision
        self._shown = program.stderr.isatty() and not output.quiet
        self._program = program
        self._bar: Any = None
        self._task: Any = None
        self._done = 0

    def planned(self, plan: Plan) -> None:
        """Begin a bar with one step for each group of cases."""
        self._done = 0
        if self._bar is not None:
            self._task = self._bar.add_task("", total=len(plan.groups))

    def block(self, seen: Seen) -> None:
        """Move the bar within a group, and tell how well it is known."""
        if self._bar is not None:
            words = f"{_described(seen.group)}{self._standing(seen)}"
            self._bar.update(self._task, completed=self._done + seen.done, description=words)

    def _standing(self, seen: Seen) -> str:
        """Return how many blocks there are, how wide their intervals, how busy the devices."""
        columns = self._bar.console.width
        if columns < _NARROW:
            return ""
        parts = [f"{seen.blocks} block{'s' * (seen.blocks > 1)}"]
        if seen.width is None:
            parts.append(f"interval at {seen.look:.0%} of the time")
        else:
            wide = f"±{seen.width:.1%}" if seen.width < _WIDE else "wide"
            parts.append(f"{wide} of ±{self._precision:g}%")
        if columns >= _ROOMY:
            parts += (f"{printable(name)} {share:.0%} busy" for name, share in busy(seen).items())
        return f": {', '.join(parts)}"

    def ended(self, measurements: Sequence[Measurement]) -> None:
        """Count a group as done."""
        del measurements
        self._done += 1

    def __enter__(self) -> Self:
        if self._shown:
            self._bar = _bar(self._program)
            self._bar.start()
            self._bar.console.show_cursor()  # the time limit ends the process without a stop
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def busy(seen: Seen) -> dict[str, float]:
    """Return which share of the last sample of most devices each of them worked."""
    most = max(seen.taken.values(), key=lambda taken: len(taken.parts), default=None)
    if most is None or not 1 < len(most.parts) <= _NAMED:
        return {}
    first = min(part.start for part in most.parts.values())
    spent = max(part.stop for part in most.parts.values()) - first
    if not spent > 0.0:
        return {}
    return {name: (part.stop - part.start) / spent for name, part in most.parts.items()}


def _bar(program: Program) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=program.stderr, no_color="NO_COLOR" in program.env)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
    )
    return Progress(*columns, console=console, transient=True)


def _described(group: Group) -> str:
    case = group.cases[0]
    units = {"rows": " rows", "bytes": " B"}
    keys = (key for key in loaded(case.bench).telling if key in case.params)
    what = next((f"{case.params[key]}{units.get(key, '')}" for key in keys), case.name)
    return f"{case.bench} {printable(what)}"
