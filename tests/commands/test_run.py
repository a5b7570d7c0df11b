"""`gpumap run`: one process per name, where it is to be, and none that is left."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from flat_report import loads
from ranks import ALLOWED, SHOW, lives, two_cores
from shell import LIMIT, Answer, ended, until
from tables import table

TEXTS = table(__file__)
PYTHON = sys.executable
TWO = "a->cpu0;b->cpu0"  # works on one core, too
QUIET = ("run", "--quiet")
SLEEP = "import time; time.sleep(600)"
# Writes its process to a file named after it, so that a test can look whether it lives.
NOTE = "import os, pathlib; pathlib.Path(f'pid-{os.getpid()}').touch(); "


def noted(gpumap, count):
    files = until(lambda: len(found := list(gpumap.folder.glob("pid-*"))) >= count and found)
    return [int(file.name.removeprefix("pid-")) for file in files]


def started(gpumap, *arguments, **streams):
    return gpumap.start([gpumap.command, *arguments], **streams)


def variables(gpumap, *arguments, **env):
    answer = gpumap(*QUIET, *arguments, "--", PYTHON, "-c", SHOW, **env)
    assert (answer.code, answer.err) == (0, "")
    found = [loads(line.partition("] ")[2]) for line in answer.out.splitlines()]
    return sorted(found, key=lambda each: int(each["RANK"]))


@two_cores
def test_each_process_has_its_core_its_rank_and_its_entry(gpumap):
    """GPUMAP_CONTEXTS is true inside: a bound process has one core, and that is its first."""
    first, second = variables(gpumap, "a->cpu0;b->cpu1")
    assert [x["GPUMAP_NAME"] for x in (first, second)] == ["a", "b"]
    assert (first["GPUMAP_CONTEXTS"], second["GPUMAP_CONTEXTS"]) == ("a->cpu0", "b->cpu0")
    assert [x["cores"] for x in (first, second)] == [[core] for core in ALLOWED[:2]]
    assert (first["CUDA_VISIBLE_DEVICES"], first["OMP_NUM_THREADS"]) == ("", "1")
    assert [(x["RANK"], x["LOCAL_RANK"]) for x in (first, second)] == [("0", "0"), ("1", "1")]
    sizes = {(x["WORLD_SIZE"], x["LOCAL_WORLD_SIZE"], x["MASTER_ADDR"]) for x in (first, second)}
    assert sizes == {("2", "2", "127.0.0.1")}
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    assert 0 < int(first["MASTER_PORT"]) < 65536
    unbound = variables(gpumap, "a->cpu0;b->cpu1", "--no-bind", OMP_NUM_THREADS="7")
    assert [x["GPUMAP_CONTEXTS"] for x in unbound] == ["a->cpu0", "b->cpu1"]
    assert {x["OMP_NUM_THREADS"] for x in unbound} == {"7"}


def test_a_process_has_none_of_the_places_of_a_job_around_it(gpumap):
    """A rank of another launcher may start a run: rank, size and devices are those of the map."""
    job = {"RANK": "3", "WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4",
           "OMPI_COMM_WORLD_LOCAL_RANK": "3", "CUDA_VISIBLE_DEVICES": "5"}  # fmt: skip
    (found,) = variables(gpumap, "a->cpu0", **job)
    assert not [name for name in found if name.startswith("OMPI_")]
    assert (found["RANK"], found["WORLD_SIZE"], found["CUDA_VISIBLE_DEVICES"]) == ("0", "1", "")


def test_what_stands_behind_the_first_dashes_is_the_commands_own(gpumap):
    code = "import sys; print(sys.argv[1:])"
    answer = gpumap(*QUIET, "a->cpu0", "--", PYTHON, "-c", code, "--help", "--", "--quiet")
    assert answer == Answer(0, "[a] ['--help', '--', '--quiet']\n", "")


@pytest.mark.parametrize("ignored", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"])
def test_the_first_that_fails_ends_the_rest_and_is_named(gpumap, ignored):
    """With its code, which is gpumap's, and its last lines; who ignores SIGTERM is killed."""
    code = TEXTS["fails"].format(ignored=ignored, note=NOTE)
    answer = gpumap(*QUIET, "--grace", "200ms", TWO, "--", PYTHON, "-c", code)
    assert answer.code == 3
    error = "error: b (rank 1, cpu0) ended with exit code 3\n  no luck\n"
    assert answer.err == f"[b] no luck\n{error}"  # and no warning that one cannot be ended
    assert not any(map(lives, noted(gpumap, 1)))


@pytest.mark.parametrize(("code", "ended", "said"), TEXTS["ends"], ids=["signal", "code"])
def test_who_fails_is_named_with_its_signal_or_its_last_five_lines(gpumap, code, ended, said):
    answer = gpumap(*QUIET, "--output-dir", "logs", "a->cpu0", "--", PYTHON, "-c", code)
    assert (answer.code, answer.err) == (ended, f"error: a (rank 0, cpu0) {said}")


def test_what_was_there_before_is_left_alone(gpumap):
    """Who was a child of the shell that became gpumap is none of its business."""
    script = f"{PYTHON} -c '{SLEEP}' >/dev/null 2>&1 & echo $! > other; "
    answer = gpumap.run(["sh", "-c", f"{script} exec gpumap run --quiet 'a->cpu0' -- true"])
    pid = int((gpumap.folder / "other").read_text())
    alive = lives(pid)
    os.kill(pid, signal.SIGKILL)
    assert (answer.code, alive) == (0, True)


def living(mark):
    every = psutil.process_iter(["cmdline"])
    return [each.pid for each in every if mark in (each.info["cmdline"] or ())]


@pytest.mark.parametrize("number", range(int(os.environ.get("GPUMAP_KILLS", "3"))))
def test_nothing_is_left_of_a_run_that_is_killed(gpumap, number):
    """At any moment, by any signal: no child, and no daemon without an environment."""
    rng = random.Random(f"few {number}")  # noqa: S311 - of times, not of secrets
    kills = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    how, wait, mark = rng.choice(kills), rng.uniform(0.0, 1.5), f"{9000 + number}.{time.time_ns()}"
    words = (*QUIET, "--grace", "200ms", TWO, "--", "sh", "-c", TEXTS["leaver"], "sh", mark)
    process = started(gpumap, *words, stdout=None, stderr=None)
    time.sleep(wait)
    process.send_signal(how)
    process.wait(LIMIT)
    if how == signal.SIGKILL:  # it had no time for them
        until(lambda: not living(mark))
    assert not living(mark), (how, wait, process.returncode)


def test_nothing_is_left_where_the_process_that_runs_it_all_is_killed(gpumap):
    """Its parent ends what it has left, and says so."""
    mark = f"9999.{os.getpid()}"
    process = started(gpumap, *QUIET, "a->cpu0", "--", "sh", "-c", TEXTS["leaver"], "sh", mark)
    until(lambda: living(mark)[5:])
    (worker,) = psutil.Process(process.pid).children()
    worker.kill()
    answer = ended(process)
    assert (answer.code, living(mark)) == (137, [])
    assert answer.err.startswith("error: gpumap was ended by SIGKILL: ")


@pytest.mark.parametrize(("text", "many", "times"), [
    (b"x" * 1023 + b"\n", 64, 1600), (b"x", 65536, 800),
], ids=["lines", "no end of a line"])  # fmt: skip
def test_a_flood_takes_no_memory(gpumap, text, many, times):
    """A hundred megabytes of each pass through, none is lost, and the launcher stays as it is."""
    code = f"import os\nfor _ in range({times}): os.write(1, {text!r} * {many})"
    process = started(gpumap, *QUIET, TWO, "--", PYTHON, "-c", code, stderr=None)
    (worker,) = until(psutil.Process(process.pid).children)
    peak, got = 0, 0
    while chunk := process.stdout.read1(1 << 20):
        got += chunk.count(b"x")
        with suppress(OSError):  # it has ended
            status = Path(f"/proc/{worker.pid}/status").read_text()
            if found := re.search(r"VmHWM:\s+(\d+) kB", status):
                peak = int(found[1])
    process.stdout.close()
    assert process.wait(LIMIT) == 0
    assert got == 2 * times * many * text.count(b"x")
    assert 0 < peak < 64 * 1024


def test_each_stream_goes_where_it_belongs(gpumap):
    """As the bytes that it is; a last line without its end is ended. Nothing is read."""
    code = r"import os; os.write(1, b'\xff\xfe\x00\x80\n'); os.write(2, b'err'); os.read(0, 1)"
    process = started(gpumap, *QUIET, "a->cpu0", "--", PYTHON, "-c", code)
    assert process.communicate(timeout=LIMIT) == (b"[a] \xff\xfe\x00\x80\n", b"[a] err\n")
    assert process.returncode == 0


def test_lines_of_both_streams_are_whole_and_none_is_lost(gpumap):
    """Written by the byte, or more than a pipe takes, to a reader that begins after their end."""
    code = NOTE + TEXTS["both"]
    both = started(gpumap, *QUIET, "a->cpu0", "--", PYTHON, "-c", code, stderr=subprocess.STDOUT)
    (pid,) = noted(gpumap, 1)
    until(lambda: not lives(pid))
    time.sleep(0.5)  # in which gpumap could end before it is read
    out, _ = both.communicate(timeout=LIMIT)
    many = {b"[a] " + byte * 999: 100 for byte in (b"o", b"e")}
    assert Counter(out.splitlines()) == {b"[a] slow": 1} | many


def test_a_file_for_each_stream(gpumap):
    """Bytes as they came; names that are no names of files are written so that they are."""
    (gpumap.folder / "logs").mkdir()
    (gpumap.folder / "logs" / "a.out").write_text("of an earlier run")
    code = r"import os, sys; os.write(1, b'\xffout'); print('err', file=sys.stderr)"
    answer = gpumap(*QUIET, "--output-dir", "logs", "a->cpu0;../b->cpu0", "--", PYTHON, "-c", code)
    assert answer == Answer(0, "", "")
    found = {f.name: f.read_bytes() for f in (gpumap.folder / "logs").iterdir()}
    names = ("a", "%2E.%2Fb")
    assert found == {f"{n}.out": b"\xffout" for n in names} | {f"{n}.err": b"err\n" for n in names}


@pytest.mark.parametrize(("files", "given", "said"), TEXTS["limited"])
def test_more_files_than_may_be_open(gpumap, files, given, said):
    (gpumap.folder / "many").write_text(";".join(f"n{number}->cpu0" for number in range(40)))
    limited = ("sh", "-c", f'ulimit -n {files}; exec "$@"', "sh")
    answer = gpumap.run([*limited, gpumap.command, *QUIET, *given, "--", "true"])
    assert answer.code == 2
    assert re.search(rf"^error: {said}.*Too many open files\n  fix: ", answer.err)


def test_more_than_a_process_can_be_told(gpumap):
    """A variable of the system is 128 KiB at most, and one of them has the map."""
    (gpumap.folder / "long").write_text(f"{'x' * 200_000}->cpu0")
    assert gpumap(*QUIET, "@long", "--", "true").code == 126


def interrupt(process, times=1):
    for _ in range(times):
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)


def read_no_more(stream):
    stream.read(10)
    stream.close()


FLOOD = f"{NOTE}\nwhile True: print('x' * 1000)"
ERRORS = f"{NOTE}import sys\nwhile True: print('x' * 1000, file=sys.stderr)"
DEAF = f"import signal, time; signal.signal(2, signal.SIG_IGN); {NOTE}{SLEEP}"
PARENT = f"import subprocess; subprocess.Popen({['setsid', PYTHON, '-c', NOTE + SLEEP]}); {NOTE}"
ENDS = {  # options, what the processes run, how many there are, what is done, exit code, words
    "a reader that goes away": ((), FLOOD, 2, lambda p: read_no_more(p.stdout), 141, b""),
    "a reader of errors": ((), ERRORS, 2, lambda p: read_no_more(p.stderr), 141, None),
    "Ctrl-C where no one reads": (("--grace", "200ms"), FLOOD, 2, interrupt, 130, None),
    "a second Ctrl-C": (("--grace", "10m"), DEAF, 2, lambda p: interrupt(p, 2), 130, b""),
    "the time limit": (("--timeout", "9s"), NOTE + SLEEP, 2, None, 124, b"of 9 s was reached"),
    "SIGKILL": ((), PARENT + SLEEP, 4, subprocess.Popen.kill, -signal.SIGKILL, b""),
}


@pytest.mark.parametrize("how", ENDS)
def test_whatever_ends_a_run_ends_all_of_it(gpumap, how):
    """No process is left; a reader that stands still holds them up, and never the launcher."""
    options, code, count, act, expected, said = ENDS[how]
    process = started(gpumap, *QUIET, *options, TWO, "--", PYTHON, "-c", code)
    pids = noted(gpumap, count)
    if act is not None:
        act(process)
    found = process.wait(LIMIT)
    readable = found > 0 and not process.stderr.closed  # else its children have it open
    err = process.stderr.read() if readable else b""
    if found < 0:
        until(lambda: not any(map(lives, pids)))  # it had no time for them
    assert found == expected
    assert said is None or (said in err and bool(err) == bool(said))  # None: what they say
    assert not any(map(lives, pids))
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_all(gpumap, number):
    """Each process gets the same one; the exit code is that of Ctrl-C."""
    code = TEXTS["heard"].format(number=int(number), note=NOTE)
    process = started(gpumap, *QUIET, TWO, "--", PYTHON, "-c", code)
    pids = noted(gpumap, 2)
    process.send_signal(number)
    answer = ended(process)
    assert (answer.code, answer.err) == (130, "")
    assert sorted(answer.out.splitlines()) == ["[a] got it", "[b] got it"]
    assert not any(map(lives, pids))


ASKED = 'trap "echo asked; exit 1" TERM; touch up; while :; do sleep 600; done'


def test_a_signal_reaches_who_is_waited_for(gpumap):
    """A shell heeds it only when its own child has ended: both get it."""
    command = ("--grace", "20s", "a->cpu0", "--", "sh", "-c", ASKED)
    process = started(gpumap, *QUIET, *command)
    below = psutil.Process(process.pid).children
    until(lambda: "sleep" in [each.name() for each in below(recursive=True)])
    process.send_signal(signal.SIGTERM)
    answer = ended(process)
    assert (answer.code, "[a] asked\n" in answer.out) == (130, True)


def test_a_run_in_a_run_hears_a_signal_once(gpumap):
    """It comes to both of its processes, and must not count as a second Ctrl-C, which kills."""
    late = "signal.signal(15, lambda n, f: (time.sleep(0.5), print('asked'), os._exit(0)))"
    code = f"import signal, time; {NOTE}{late}; pathlib.Path('up').touch(); time.sleep(600)"
    inner = (gpumap.command, *QUIET, "--grace", "20s", "b->cpu0", "--", PYTHON, "-u", "-c", code)
    process = started(gpumap, *QUIET, "--grace", "20s", "a->cpu0", "--", *inner)
    until((gpumap.folder / "up").exists)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == Answer(130, "[a] [b] asked\n", "")


def test_a_daemon_that_is_left_is_asked_to_end(gpumap):
    """Though it made a session of its own, dropped its environment, and was orphaned."""
    code = f"(setsid env -i sh -c '{ASKED}' &); while [ ! -e up ]; do sleep 0.01; done"
    answer = gpumap(*QUIET, "--grace", "20s", "a->cpu0", "--", "sh", "-c", code)
    assert (answer.code, "[a] asked\n" in answer.out) == (0, True)


def test_a_fifo_in_place_of_an_output_is_refused(gpumap):
    """Nobody may ever read it, and a run must not wait for that."""
    (gpumap.folder / "logs").mkdir()
    os.mkfifo(gpumap.folder / "logs" / "a.out")
    answer = gpumap(*QUIET, "--output-dir", "logs", "a->cpu0", "--", "true")
    assert (answer.code, "cannot write" in answer.err) == (2, True)


def test_the_default_signals_are_the_programs(gpumap):
    """Python ignores SIGPIPE; what is started must not inherit that."""
    answer = gpumap(*QUIET, "a->cpu0", "--", "grep", "SigIgn", "/proc/self/status")
    (mask,) = re.findall(r"SigIgn:\s+([0-9a-f]+)", answer.out)
    assert not int(mask, 16) >> (signal.SIGPIPE - 1) & 1
