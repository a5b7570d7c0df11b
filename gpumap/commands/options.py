"""Options that several commands share, each group one decorator."""

from __future__ import annotations

from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from gpumap.app.output import Output
from gpumap.commands.option_types import FileType, LimitType, TargetType, UnitType
from gpumap.report import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpumap.app.program import Program
    from gpumap.judge.compare import Baseline
    from gpumap.judge.exit_status import Gate
    from gpumap.judge.limits import Limit

    F = TypeVar("F", bound=Callable[..., Any])

_TIMEOUTS = 10.0  # budgets after which a run has gone wrong
_MOST = 1e9  # seconds: a timer takes no more
_LEAST = 60.0  # seconds, however small the budget: a driver may take that long to start
_SETTINGS = ("seed", "precision", "dry_run", "require_idle")  # of the parameters


def setting(name: str, *others: str, **settings: Any) -> Callable[[F], F]:
    """Return click's option; `--help` shows its variable, which is named as it is, and default."""
    word = name.partition("/")[0].removeprefix("--")  # of --model/--no-model the first
    variable = f"GPUMAP_{word.replace('-', '_').upper()}"
    settings.setdefault("show_default", "default" in settings)
    return click.option(name, *others, envvar=variable, show_envvar=True, **settings)


def combined(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return several options as one decorator, in the order in which `--help` lists them."""

    def decorate(command: F) -> F:
        for option in reversed(options):  # as Python applies decorators
            command = option(command)
        return command

    return decorate


# --- which devices


_map_argument = click.argument("argument", metavar="[MAP]", required=False)
map_option = click.option(
    "--map", "option", metavar="MAP", help='The map: "dev0->cuda0;dev1->cuda1", or @FILE.'
)


def backend_option(help_: str) -> Callable[[F], F]:
    """Name the backend that drives the devices."""
    return setting("--backend", metavar="NAME", help=help_)


def map_options(help_: str) -> Callable[[Callable[..., Any]], Any]:
    """Take MAP, --map and --backend; handed on as one `Where`."""
    parameters = combined(_map_argument, map_option, backend_option(help_))

    def decorate(command: Callable[..., Any]) -> Any:
        def collected(**options: Any) -> Any:
            from gpumap.app.given_map import Where  # what parses a map, a help does not need

            where = Where(*map(options.pop, Where._fields))
            return command(where=where, **options)

        return parameters(update_wrapper(collected, command))

    return decorate


def cases_option(help_: str) -> Callable[[F], F]:
    """Choose among the cases of a benchmark."""
    return setting("--cases", metavar="NAMES", help=help_)


# --- how long, how well, on which data


def timeout_option(seconds: float) -> Callable[[F], F]:
    """End a command that only looks: a driver may hang in any call."""
    return setting(
        "--timeout",
        type=UnitType("duration"),
        default=f"{seconds:g}s",
        help="End the process after this time.",
    )


def benchmark_options(
    budget: float, *benches: str, test: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Take what every measuring command takes; handed on as one `Request`.

    Args:
        budget: the seconds that it has by default.
        benches: what the command measures. Limits on other benchmarks are an error on the command
            line; a variable or a file has those of all commands, and each takes its own.
        test: whether it tests gpumap itself, and leaves nothing to choose but the time.
    """

    def decorate(command: Callable[..., Any]) -> Any:
        def collected(program: Program, /, *, budget: float, output: Output, **options: Any) -> Any:
            from gpumap.app.benchmark import Request
            from gpumap.engine.base import Settings

            most = options.pop("timeout", None) or min(max(_TIMEOUTS * budget, _LEAST), _MOST)
            chosen = {} if test else {name: options.pop(name) for name in _SETTINGS}
            settings, gate = Settings(budget, most, **chosen), _gate(options, benches, test=test)
            request = Request(program, options.pop("where"), settings, gate, output)
            return command(request, **options)

        return where_and_time(output_options(update_wrapper(collected, command)))

    help_ = "Drive the devices with this backend; a,b or all: measure each."
    where_and_time = combined(
        map_options(help_),
        setting("--budget", type=UnitType("duration"), default=f"{budget:g}s",
                help="Time for the whole command, with warm-up and checks."),
        *(() if test else (_settings_options, _gate_options)),
    )  # fmt: skip
    return decorate


_settings_options = combined(
    setting("--timeout", type=UnitType("duration"),
            help="End the process after this time.  [default: ten budgets, at least 60s]"),
    setting("--precision", type=UnitType("share"), default="2%",
            help="Stop once every half-interval is within this share; with --limit or "
            "--base, once those are decided."),
    setting("--seed", type=click.IntRange(0, 10**18 - 1), default=1,
            help="Random seed for the input data and the order of cases."),
    setting("--require-idle", is_flag=True,
            help="Measure nothing (exit 3) while others use the cores or the GPUs."),
    setting("--dry-run", is_flag=True,
            help="Show the cases, their memory and time; open no device, measure nothing."),
)  # fmt: skip

reference_option = setting(
    "--reference",
    metavar="NAME",
    help="Name of the device that speed-ups are relative to. [default: the baseline's with --base,"
    " else the first name, or the fastest of several models]",
)
comm_option = setting(
    "--comm",
    type=click.Choice(["local", "mpi", "torch", "nccl", "psum"]),
    help="local: between the devices of this process; nccl and psum: the same, by NCCL and by "
    "JAX; mpi: between processes, by MPI; torch: the same, by torch.distributed. [default: by the "
    "launcher, else local]",
)


# --- what the figures must be

if_absent_option = setting(
    "--if-absent", type=click.Choice(["fail", "skip"]), default="fail",
    help="skip: where a device or backend of the map is not there, the report is skipped (exit 0), "
    "and nothing has passed.",
)  # fmt: skip

inconclusive_option = setting(
    "--inconclusive", type=click.Choice(["fail", "pass"]), default="fail",
    help="pass: inconclusive results exit 0, with a warning.",
)  # fmt: skip


def _gate(options: dict[str, Any], benches: Sequence[str], *, test: bool) -> Gate:
    """Take from the options what the figures must be."""
    from gpumap.judge.exit_status import Gate

    if test:
        return Gate()
    words = {key: options.pop(key) for key in ("inconclusive", "if_absent")}
    return Gate(_own(options.pop("limit"), benches), against=_against(options), **words)


_threshold_option = setting("--threshold", type=UnitType("share"), default="5%",
                            help="The slowdown that counts.")  # fmt: skip
terms_options = combined(
    _threshold_option,
    setting("--judge", metavar="PATTERN", multiple=True,
            help="Judge these metrics, 'dot.many+fetch.*', or all; repeatable. [default: what the "
            "headline claims]  Others are shown, and fail if certainly slower."),
    setting("--allow-missing", is_flag=True,
            help="Let rows pass that only one of both reports has."),
)  # fmt: skip


_gate_options = combined(
    setting("--limit", metavar="LIMIT", multiple=True, type=LimitType(),
            help="What a metric must be: 'dot.many.speedup>=1.8'; repeatable."),
    inconclusive_option,
    if_absent_option,
    setting("--base", metavar="FILE", type=FileType(),
            help="Compare the result with this baseline report (JSON)."),
    _threshold_option,
)  # fmt: skip


def _against(options: dict[str, Any]) -> Baseline | None:
    """Take the base from the options, and how it is compared; terms without one are an error.

    Raises:
        QuestionError: it cannot be read, or compared.
    """
    path, threshold = options.pop("base"), options.pop("threshold")
    if path is not None:
        from gpumap.app.comparison import base_of
        from gpumap.judge.compare import Terms

        return base_of(path, Terms(threshold))
    context = click.get_current_context()
    if context.get_parameter_source("threshold") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--threshold is for --base; say which, or omit it")
    return None


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


# --- where the report goes


def output_options(command: Callable[..., Any]) -> Any:
    """Say in which form the report comes out, and where; handed on as one `Output`.

    The program comes with it: who reports has both.
    """

    @click.pass_obj
    def collected(program: Program, /, **options: Any) -> Any:
        given = (options.pop(name) for name in ("format_", "output", "quiet", "verbose"))
        return command(program, output=Output(*given), **options)

    return _output_parameters(update_wrapper(collected, command))


_output_parameters = combined(
    setting("--format", "format_", metavar="FORMAT", type=click.Choice(["auto", *FORMATS]),
            default="auto", help=f"The form of the report on stdout: auto, {', '.join(FORMATS)}."),
    setting("--output", metavar="[FORMAT=]PATH", multiple=True, type=TargetType(),
            help="Write the report to a file too; repeatable."),
    setting("--quiet", is_flag=True, help="No notes and no progress on stderr."),
    setting("--verbose", "-v", is_flag=True,
            help="Tables with every row, column and flag, as wide as they come."),
)  # fmt: skip
