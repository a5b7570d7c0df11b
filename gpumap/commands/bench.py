"""`gpumap bench`: measure a benchmark on the devices of a map."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import click

from gpumap.bench.registry import BENCHMARKS


class _Group(click.Group):
    """The benchmarks of the registry that have a file bench_NAME.py here, imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return every benchmark that has a command of its own, by the alphabet."""
        return sorted(name for name in BENCHMARKS if find_spec(_module(name)))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = getattr(import_module(_module(cmd_name)), cmd_name)
        return command


def _module(name: str) -> str:
    return f"gpumap.commands.bench_{name}"


@click.group(cls=_Group, invoke_without_command=True, no_args_is_help=False)
@click.pass_context
def bench(ctx: click.Context) -> None:
    """Measure a benchmark on the devices of a map."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    ctx.default_map = dict.fromkeys(BENCHMARKS, ctx.default_map)  # gpumap.toml is for each
