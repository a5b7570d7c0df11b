"""`gpumap bench`: measure a benchmark on the devices of a map."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from gpumap.bench.registry import BENCHMARKS

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Commands(Mapping[str, click.Command]):
    """The benchmarks of the registry that have a file bench_NAME.py here, imported on demand."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in BENCHMARKS or find_spec(_module(name)) is None:
            raise KeyError(name)
        command: click.Command = getattr(import_module(_module(name)), name)
        return command

    def __iter__(self) -> Iterator[str]:
        return (name for name in BENCHMARKS if find_spec(_module(name)))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _module(name: str) -> str:
    return f"gpumap.commands.bench_{name}"


@click.group(commands=_Commands(), invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def bench(ctx: click.Context) -> None:
    """Measure a benchmark on the devices of a map."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    ctx.default_map = dict.fromkeys(BENCHMARKS, ctx.default_map)  # gpumap.toml is for each
