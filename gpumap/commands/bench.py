"""`gpumap bench`: measure a benchmark on the devices of a map."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

BENCHMARKS = ("dot", "chain", "allreduce", "train")  # each a module of its name


class _Commands(Mapping[str, click.Command]):
    """The commands by name; one is imported when it is looked at."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in BENCHMARKS:
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"gpumap.commands.{name}"), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(BENCHMARKS)

    def __len__(self) -> int:
        return len(BENCHMARKS)


@click.group(commands=_Commands(), invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def bench(ctx: click.Context) -> None:
    """Measure a benchmark on the devices of a map."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    ctx.default_map = dict.fromkeys(BENCHMARKS, ctx.default_map)  # gpumap.toml is for each
