"""`gpumap selftest`: can what gpumap says on this machine be believed?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpumap.commands.options import benchmark_options

if TYPE_CHECKING:
    from gpumap.app.benchmark import Request

_BUDGET = 60.0  # seconds


@click.command()
@benchmark_options(_BUDGET, "selftest", base=False)
def selftest(request: Request) -> None:
    """Test gpumap on this machine: round trips of data, and false alarms.

    4 KiB go to each device of the map and back, verified, then to one device of each other usable
    backend, unless --backend names one. On each device of the map the same product is measured as
    A and as B, and judged in several runs at 5 %: an alarm is false (exit 1). Where runs are
    inconclusive, noise hides a change of 5 % (exit 5).
    """
    from gpumap.app.local_benchmarks import test_machine

    test_machine(request)
