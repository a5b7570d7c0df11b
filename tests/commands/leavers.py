"""A program that leaves all kinds of processes behind, and who of them lives."""

import random
import signal
import time
from pathlib import Path

from shell import LIMIT, until

# Children, deaf ones, and daemons: orphans with a session of their own and no environment.
LEAVER = """
count=0
while [ $count -lt 4 ]; do
    sleep "$1" &
    (trap '' INT TERM HUP; exec sleep "$1") &
    (setsid env -i sleep "$1" &)
    count=$((count + 1))
    sleep 0.1
done
sleep "$1"
"""
KILLS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def living(mark):
    """Return the processes that have `mark` in their command line."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if mark.encode() in words:
            found.append(int(file.parent.name))
    return found


def kill_at_random(gpumap, number, seed):
    """Start a run of it, and kill gpumap: the number and the seed say when and how."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311 - of times, not of secrets
    how, wait = rng.choice(KILLS), rng.uniform(0.0, 1.5)
    mark = f"{9000 + number}.{time.time_ns()}"
    words = ("run", "--quiet", "--grace", "200ms", "a->cpu0;b->cpu0")
    command = [gpumap.command, *words, "--", "sh", "-c", LEAVER, "sh", mark]
    process = gpumap.start(command, stdout=None, stderr=None)
    time.sleep(wait)
    process.send_signal(how)
    process.wait(LIMIT)
    if how == signal.SIGKILL:  # it had no time for them
        until(lambda: not living(mark))
    return how, wait, process.returncode, living(mark)
