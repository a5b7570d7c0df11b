"""Options that say how a report is held against a base."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from gpumap.commands.measure import ShareType
from gpumap.commands.options import setting, wrapped_by

if TYPE_CHECKING:
    from collections.abc import Callable

    F = TypeVar("F", bound=Callable[..., Any])

NAMES = ("threshold", "confirm", "allow_missing", "other_machine")  # of the parameters


def terms_options(command: F) -> F:
    """Say which change counts, and what is let pass; handed on as one `Terms`."""

    def collected(**others: Any) -> Any:
        from gpumap.judge.compare import Terms

        terms = Terms(**{name: others.pop(name) for name in NAMES})
        return command(terms=terms, **others)

    wrapped = wrapped_by(collected, command)
    for decorate in (
        setting("--other-machine", is_flag=True,
                help="Show how a base of another machine differs, without verdicts (else exit 2)."),
        setting("--allow-missing", is_flag=True,
                help="Let rows pass that only one of both reports has."),
        setting("--confirm", is_flag=True,
                help="Measure once more in a fresh process, with the same budget, where a row is "
                "slower or inconclusive, and judge all samples."),
        setting("--threshold", type=ShareType(), default="5%", show_default=True,
                help="The slowdown that counts."),
    ):  # fmt: skip
        wrapped = decorate(wrapped)
    return wrapped  # type: ignore[no-any-return]
