"""`gpumap bench`: measure a benchmark on the devices of a map."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from gpumap.bench.registry import BENCHMARKS

if TYPE_CHECKING:
    from collections.abc import Iterator


def _commands() -> Iterator[click.Command]:
    """Yield the command of each benchmark of the registry that has a file bench_NAME.py here."""
    for name in BENCHMARKS:
        module = f"gpumap.commands.bench_{name}"
        if find_spec(module) is not None:
            yield getattr(import_module(module), name)


@click.group(commands=list(_commands()), invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def bench(ctx: click.Context) -> None:
    """Measure a benchmark on the devices of a map."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    ctx.default_map = dict.fromkeys(BENCHMARKS, ctx.default_map)  # gpumap.toml is for each
