"""What the text of an option becomes; a text that becomes nothing is refused with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from gpumap.app.output import Target
from gpumap.errors import QuestionError, SourceError
from gpumap.report import FORMATS, SUFFIXES
from gpumap.text import fix

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class FileType(click.Path):
    """A path, made only where one is given: pathlib takes 5 ms of every start."""

    def split_envvar_value(self, rv: str) -> Sequence[str]:
        """Return the words of a variable that names several: ":" may be a part of one."""
        return rv.split()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path as it is: who reads the file says what is wrong with it."""
        from pathlib import Path

        if not str(value):  # as a Path it would be this folder
            self.fail("it is empty\n  fix: name a file or a folder", param, ctx)
        return Path(value)


class TargetType(FileType):
    """``report.json`` (the suffix tells the format) or ``FORMAT=PATH``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return where a report goes; fail before anything is measured if it cannot go there."""
        from pathlib import Path

        format_, found, path = str(value).partition("=")
        if (path if found else format_) in ("", "-", "/dev/stdout"):
            hint = "name a file: report.json, or json=PATH; --format json writes to stdout"
            self.fail(f"no file in {value!r}\n  fix: {hint}", param, ctx)
        if not found:
            format_, path = SUFFIXES.get(Path(value).suffix, ""), str(value)
        if format_ not in FORMATS:
            hint = f"write FORMAT=PATH with one of {', '.join(FORMATS)}"
            begun, known = (format_, FORMATS) if found else (Path(value).suffix, SUFFIXES)
            self.fail(f"no format in {value!r}\n  fix: {fix(begun, known, hint)}", param, ctx)
        if ctx is None or not ctx.resilient_parsing:  # a shell completes words
            self._check_writable(Path(path), param, ctx)
        return Target(format_, Path(path))

    def _check_writable(
        self, path: Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> None:
        from gpumap.files import check_writable

        try:
            check_writable(path)
        except SourceError as error:
            (found,) = error.diagnostics
            self.fail(f"{found.message}\n  fix: {found.hint}", param, ctx)


class UnitType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """A number with its unit: ``500ms``, ``2%``, ``4KiB``; a quantity in one unit is above 0."""

    def __init__(self, name: str, *unit: str) -> None:
        self.name, self._unit = name, unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return seconds, a share of 1, bytes, or the figure in SI units."""
        from gpumap import units

        try:
            found = getattr(units, self.name)(str(value), *self._unit)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if self._unit and found <= 0.0:
            self.fail(f"{value!r} is not above 0: give what it really is", param, ctx)
        return found


class LimitType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``dot.many.speedup>=1.8``; several in a variable have ";" or line breaks between."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what a text asks for; fail with the place of what cannot be."""
        from gpumap.bench import selectors

        try:
            return selectors.limit(str(value))
        except QuestionError as error:
            from gpumap.report.diagnostics import render

            found = render(error.diagnostics, str(value))
            self.fail(found.rstrip("\n").removeprefix("error: "), param, ctx)

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
