"""What the text of an option becomes; a text that becomes nothing is refused with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from gpumap.app.output import Target
from gpumap.errors import Diagnostic, QuestionError, SourceError
from gpumap.report import FORMATS, SUFFIXES
from gpumap.text import fix

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpumap.judge.selectors import Limit, Selector

_LIMIT = "write it as dot.many.speedup>=1.8 or 'transfer.h2d[size_name=small].time<1ms'"


class FileType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """A path; `click.Path` would do, but pathlib takes 5 ms of every start."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        """Return the path as it is: who reads the file says what is wrong with it."""
        from pathlib import Path

        return Path(value)


class NewFileType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """A path that a file is to be written to."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; fail before anything is done if no file can be written there."""
        from pathlib import Path

        from gpumap.files import check_writable

        path = Path(value)
        try:
            if ctx is None or not ctx.resilient_parsing:  # a shell completes words
                check_writable(path)
        except SourceError as error:
            (found,) = error.diagnostics
            self.fail(f"{found.message}\n  fix: {found.hint}", param, ctx)
        return path


class TargetType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``report.json`` (the suffix tells the format) or ``FORMAT=PATH``."""

    name = "target"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Target:
        """Return where a report goes; fail before anything is measured if it cannot go there."""
        from pathlib import Path

        format_, found, path = str(value).partition("=")
        if (path if found else format_) in ("", "-"):
            hint = "name a file: report.json, or json=PATH; --format json writes to stdout"
            self.fail(f"no file in {value!r}\n  fix: {hint}", param, ctx)
        if not found:
            format_, path = SUFFIXES.get(Path(value).suffix, ""), str(value)
        if format_ not in FORMATS:
            hint = f"write FORMAT=PATH with one of {', '.join(FORMATS)}"
            begun, known = (format_, FORMATS) if found else (Path(value).suffix, SUFFIXES)
            self.fail(f"no format in {value!r}\n  fix: {fix(begun, known, hint)}", param, ctx)
        return Target(format_, NewFileType().convert(path, param, ctx))


class _UnitType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """A number with its unit; `name` is the function of `units` that reads it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds, or a share of 1."""
        from gpumap import units

        try:
            found: float = getattr(units, self.name)(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return found


class DurationType(_UnitType):
    """``30``, ``30s``, ``500ms`` or ``2m``, in seconds."""

    name = "duration"


class ShareType(_UnitType):
    """``2%``: shares need the sign."""

    name = "share"


class LimitType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``dot.many.speedup>=1.8``; several in a variable have ";" or line breaks between."""

    name = "limit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Limit:
        """Return what is asked; fail with the place of what cannot be, before anything runs."""
        from gpumap.judge.selectors import Limit

        if isinstance(value, Limit):
            return value
        try:
            return Limit.parse(str(value))
        except QuestionError as error:
            from gpumap.report.diagnostics import render

            said = render(map(_whole, error.diagnostics), str(value)).rstrip("\n")
            self.fail(said.removeprefix("error: "), param, ctx)

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Return the limits of a variable: blanks may stand inside of one.

        Raises:
            BadParameter: it is set and has none, so it would turn off those of a file.
        """
        limits = [part for part in re.split(r"[;\n]", rv) if part.strip()]
        if not limits:
            message = "it is set, and holds no limit; write one, or unset it"
            raise click.BadParameter(message)
        return limits


class SelectorType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``dot.many[size=1024].speedup``."""

    name = "selector"

    def convert(
        self, value: str | Selector, param: click.Parameter | None, ctx: click.Context | None
    ) -> Selector:
        """Return what a text selects; fail with the place of what cannot be."""
        from gpumap.judge.selectors import Selector
        from gpumap.report.diagnostics import render

        if isinstance(value, Selector):
            return value
        try:
            return Selector.parse(value)
        except QuestionError as error:
            said = render(error.diagnostics, value).rstrip("\n")
            self.fail(said.removeprefix("error: "), param, ctx)


class QuantityType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``5us``, ``10GB/s``: above 0 and in the unit that is asked for."""

    name = "quantity"

    def __init__(self, unit: str) -> None:
        self.unit = unit

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the figure in SI units."""
        from gpumap import units

        try:
            found = units.quantity(str(value), self.unit)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if found <= 0.0:
            self.fail(f"{value!r} is not above 0: give what it really is", param, ctx)
        return found


class BytesType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``4KiB``, ``1MB`` or ``400``, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes."""
        from gpumap import units

        try:
            return units.nbytes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _whole(diagnostic: Diagnostic) -> Diagnostic:
    """Return what is wrong with the selector of a limit: its example has to be a limit too."""
    from gpumap.judge.selectors import EXAMPLE

    return diagnostic._replace(hint=_LIMIT) if diagnostic.hint == EXAMPLE else diagnostic
