"""Options that make a command a gate: what its figures must be, and what becomes of a maybe."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from gpumap.commands.options import FileType, setting, wrapped_by
from gpumap.commands.terms import NAMES, terms_options
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpumap.errors import Diagnostic
    from gpumap.judge.compare import Against, Terms
    from gpumap.judge.limits import Limit

    F = TypeVar("F", bound=Callable[..., Any])

_EXAMPLE = "write it as dot.many.speedup>=1.8 or 'transfer.h2d[size_name=small].time<1ms'"


def gate_options(*benches: str, base: bool = True) -> Callable[[F], F]:
    """Say what the figures must be; handed on as one `Gate`.

    Args:
        benches: what the command measures. Limits on other benchmarks are an error on the command
            line; a variable or a file has those of all commands, and each takes its own.
        base: whether what it measures can be held against a saved report.
    """

    def decorate(command: F) -> F:
        def collected(*, limit: tuple[Limit, ...], **others: Any) -> Any:
            from gpumap.judge.gate import Gate

            words = {key: others.pop(key) for key in ("inconclusive", "if_absent", "strict")}
            if words["strict"]:  # it fails what the other option lets pass
                words["inconclusive"] = "fail"
            words["against"] = _against(others.pop("base"), others.pop("terms")) if base else None
            return command(gate=Gate(_own(limit, benches), **words), **others)

        wrapped = wrapped_by(collected, command)
        for decorated in (
            *((terms_options, base_option) if base else ()),
            setting("--strict", is_flag=True,
                    help="Treat warnings (exit 1) and inconclusive results (exit 5) as failures."),
            setting("--if-absent", type=click.Choice(["fail", "skip"]), default="fail",
                    show_default=True,
                    help="skip: where a device or backend of the map is not there, the report is "
                    "skipped (exit 0), and nothing has passed."),
            setting("--inconclusive", type=click.Choice(["fail", "pass"]), default="fail",
                    show_default=True,
                    help="pass: where the figures are too uncertain for a verdict, exit 0 and say "
                    "so."),
            setting("--limit", metavar="LIMIT", multiple=True, type=LimitType(),
                    help="What a figure must be: 'dot.many.speedup>=1.8'; repeatable."),
        ):  # fmt: skip
            wrapped = decorated(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate


base_option = setting("--base", metavar="FILE", type=FileType(),
                      help="Hold the result against this saved report (JSON).")  # fmt: skip


def _against(path: Path | None, terms: Terms) -> Against | None:
    """Return the base and how it is held against; terms without a base are for nothing.

    Raises:
        QuestionError: it cannot be read, or compared.
    """
    from gpumap.judge.compare import Against

    if path is None:
        _refuse_terms()
        return None
    from gpumap import saved
    from gpumap.commands.comparing import refuse_broken

    base = saved.read(path)
    refuse_broken(base, "base")
    return Against(str(path), base, terms)


def _refuse_terms() -> None:
    """Refuse options on the command line that nothing comes of: a gate that is none."""
    context = click.get_current_context()
    for name in NAMES:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} is for --base; say which, or leave it away")


def _own(limits: tuple[Limit, ...], benches: Sequence[str]) -> tuple[Limit, ...]:
    """Return the limits on what the command measures."""
    others = [limit for limit in limits if limit.selector.bench not in benches]
    source = click.get_current_context().get_parameter_source("limit")
    if others and source is ParameterSource.COMMANDLINE:
        first = others[0]
        what = f"{first.text} is a limit on {first.selector.bench}"
        known = " and ".join(benches)
        message = f"{what}, and this command measures {known}; leave it to the command that does"
        raise click.BadParameter(message, param_hint="'--limit'")
    return tuple(limit for limit in limits if limit not in others)


def _whole(diagnostic: Diagnostic) -> Diagnostic:
    """Return what is wrong with the selector of a limit: its example has to be a limit too."""
    from gpumap.judge.select import EXAMPLE

    example = diagnostic.hint == EXAMPLE
    return replace(diagnostic, hint=_EXAMPLE) if example else diagnostic


class LimitType(click.ParamType):  # type: ignore[type-arg] # generic since click 8.4 only
    """``dot.many.speedup>=1.8``; several in a variable have ";" or line breaks between."""

    name = "limit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Limit:
        """Return what is asked; fail with the place of what cannot be, before anything runs."""
        from gpumap.judge.limits import Limit

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
