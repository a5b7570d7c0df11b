"""Options that every measuring command takes: how long, how well, on which data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpumap.commands.options import DurationType, setting, wrapped_by
from gpumap.errors import QuestionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    F = TypeVar("F", bound=Callable[..., Any])
    T = TypeVar("T")

_TIMEOUTS = 10.0  # budgets after which a run has gone wrong
_MOST = 1e9  # seconds: a timer takes no more
_LEAST = 60.0  # seconds, however small the budget: a driver may take that long to start


def measure_options(budget: float) -> Callable[[F], F]:
    """Say how long and how well to measure; handed on as one `Settings`."""

    def decorate(command: F) -> F:
        def collected(
            *,
            budget: float,
            timeout: float | None,
            precision: float,
            seed: int,
            dry_run: bool,
            require_idle: bool,
            **others: Any,
        ) -> Any:
            from gpumap.bench.base import Settings

            limit = timeout or min(max(_TIMEOUTS * budget, _LEAST), _MOST)
            settings = Settings(
                budget,
                limit,
                seed=seed,
                precision=precision,
                dry_run=dry_run,
                require_idle=require_idle,
            )
            return command(settings=settings, **others)

        wrapped = wrapped_by(collected, command)
        for decorated in (
            setting("--dry-run", is_flag=True,
                    help="Show the cases, their memory and time; open no device, measure nothing."),
            setting("--require-idle", is_flag=True,
                    help="Measure nothing (exit 3) while others use the cores or the GPUs."),
            setting("--seed", type=click.IntRange(0), default=1, show_default=True,
                    help="Of the data and of the order of the cases."),
            setting("--precision", type=ShareType(), default="2%", show_default=True,
                    help="Stop once every half-interval is within this share; with --limit or "
                    "--base, once those are decided."),
            setting("--timeout", type=DurationType(),
                    help="End the process after this time.  [default: ten budgets, at least 60s]"),
            setting("--budget", type=DurationType(), default=f"{budget:g}s", show_default=True,
                    help="Time for the whole command, with warm-up and checks."),
        ):  # fmt: skip
            wrapped = decorated(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate


def chosen(text: str, known: Sequence[T], what: str, option: str, most: int = 0) -> tuple[T, ...]:
    """Return the comma-separated words of `text`, each of which must be known.

    Raises:
        QuestionError: one is not; the message names those that are.
    """
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known or (most and len(words) > most):
            hint = f"{option} takes {'one' if most else 'some'} of {', '.join(map(str, known))}"
            raise QuestionError(f'no {what} is called "{word}"', hint)
    return tuple(item for item in known if item in words)


class ShareType(click.ParamType):  # type: ignore[type-arg]
    """``2%``: shares need the sign."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return a share of 1."""
        from gpumap import units

        try:
            return value if isinstance(value, float) else units.share(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
