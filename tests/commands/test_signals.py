"""A signal at a random time: 130 or the run's own code, a whole report, and no hang."""

import os
import random
import shlex
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from report_schema import checked
from shell import LIMIT, until
from tables import table

JOBS_ENDED = int(os.environ.get("GPUMAP_SIGNALS", "30"))
SEED = os.environ.get("GPUMAP_SIGNAL_SEED", "1")
JOBS = {name: shlex.split(line) for name, line in table(__file__).items()}
LENGTH = 5.0  # seconds in which the signal comes
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def hears(pid):
    """Return whether a process catches SIGTERM: Python itself does not, gpumap does at once."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = status.partition("SigCgt:")[2].split()[0]
    return int(caught, 16) >> (signal.SIGTERM - 1) & 1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
@pytest.mark.timeout(LIMIT + 60)
@pytest.mark.parametrize("number", range(JOBS_ENDED))
def test_a_signal_ends_a_job_at_any_time(gpumap, number):
    """Whichever it is, and wherever it meets it; a number is one signal, at any time again."""
    rng = random.Random(f"{SEED} {number}")  # noqa: S311 - of times, not of secrets
    job, ending = rng.choice(list(JOBS)), rng.choice(SIGNALS)
    wait = rng.uniform(0.0, LENGTH)
    process = gpumap.start([gpumap.command, *JOBS[job]])
    until(partial(hears, process.pid), process)
    time.sleep(wait)
    process.send_signal(ending)
    out, _ = process.communicate(timeout=LIMIT)
    own = (0,) if job == "run" else (0, 1, 5)  # a busy machine may decide nothing, or wrongly
    assert process.returncode in (130, *own), (job, ending, wait)
    if out:
        report = checked(out)
        assert report["exit_code"] == process.returncode
    assert out or job == "run" or process.returncode == 130
