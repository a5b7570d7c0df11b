"""`gpumap run` in a run: where other work has both cores, its output was lost in 3 of 8 runs."""

import signal
import sys

from shell import Answer, ended, until

QUIET = ("run", "--quiet")


def test_a_run_in_a_run_hears_a_signal_once(gpumap):
    """It comes to both of its processes, and must not count as a second Ctrl-C, which kills."""
    late = "signal.signal(15, lambda n, f: (time.sleep(0.5), print('asked'), os._exit(0)))"
    code = f"import os, pathlib, signal, time; {late}; pathlib.Path('up').touch(); time.sleep(600)"
    inner = (
        gpumap.command,
        *QUIET,
        "--grace",
        "20s",
        "b->cpu0",
        "--",
        sys.executable,
        "-u",
        "-c",
        code,
    )
    process = gpumap.start([gpumap.command, *QUIET, "--grace", "20s", "a->cpu0", "--", *inner])
    until((gpumap.folder / "up").exists)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == Answer(130, "[a] [b] asked\n", "")
