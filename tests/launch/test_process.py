"""The last lines of a process, which a run that failed shows: whole, in order, and few."""

import io
import os
import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.launch.process import Job, Process
from gpumap.launch.streams import LONGEST, Sink, Stream
from gpumap.launch.supervisor import Run

LINES = st.lists(st.binary(max_size=8).map(lambda b: b.replace(b"\n", b"")), max_size=30)


@pytest.fixture
def sink(tmp_path):
    descriptor = os.open(tmp_path / "out", os.O_CREAT | os.O_RDWR)
    yield Sink(descriptor)
    os.close(descriptor)


def streamed(sink, *chunks, ended=True):
    stream = Stream(io.BytesIO(), sink, b"[a] ")
    for chunk in chunks:
        stream.take(chunk)
    if ended:
        stream.end()
    return stream


def written(sink):
    os.lseek(sink._descriptor, 0, os.SEEK_SET)
    return os.read(sink._descriptor, 1 << 20)


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize("ended", [True, False])
def test_the_last_ten_lines_are_kept_with_one_that_has_no_end(sink, shown, ended):
    """A traceback need not end in a line break; of a long line the beginning is kept."""
    text = b"".join(b"line %d\n" % number for number in range(20)) + b"x" * 400
    found = streamed(sink if shown else None, text[:33], text[33:], ended=ended).last
    assert found == [*(b"line %d" % number for number in range(11, 20)), b"x" * 300]


@pytest.mark.parametrize(("out", "err", "shown"), [
    (b"o\n", b"e\n", [b"e"]), (b"o\n", b"", [b"o"]), (b"", b"", []), (b"", b"e", [b"e"]),
])  # fmt: skip
def test_what_a_process_said_last_is_on_its_stderr(sink, out, err, shown):
    process = Process(Job("a", "true", (), {}), 1, (streamed(sink, out), streamed(sink, err)))
    assert process.last == shown


class Late(io.BytesIO):
    """A pipe whose bytes are read when the run has looked at it once."""

    def __init__(self, data):
        super().__init__(data)
        self.waited_for, self.seen = threading.Event(), threading.Event()

    def read(self, count):
        self.waited_for.set()
        self.seen.wait()
        return super().read(count)


def test_what_a_long_silent_process_printed_at_its_end_is_not_lost(sink):
    """Where other work has the cores, its thread has not read it yet when the process is gone."""
    pipe = Late(b"last\n")
    stream, running = Stream(pipe, sink, b"[a] "), Run(grace=0.0, limit=None)
    stream.start()
    pipe.waited_for.wait()
    stream.since = 1.0  # since the machine was started
    running._streams, running._once = [stream], lambda _seconds: pipe.seen.set()
    running._drain()
    found = written(sink)
    pipe.seen.set()
    assert found == b"[a] last\n"


@given(lines=LINES, cuts=st.lists(st.integers(0, 300), max_size=5))
def test_each_line_has_its_name_however_it_comes(tmp_path_factory, lines, cuts):
    folder = tmp_path_factory.mktemp("lines")
    descriptor = os.open(folder / "out", os.O_CREAT | os.O_RDWR)
    text = b"\n".join(lines)
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    sink = Sink(descriptor)
    streamed(sink, *(text[a:b] for a, b in pairwise(ends)))
    whole = text.split(b"\n")
    whole = whole[:-1] if not whole[-1] else whole
    assert written(sink) == b"".join(b"[a] " + line + b"\n" for line in whole)
    os.close(descriptor)


def test_a_line_without_an_end_is_passed_on_in_pieces(sink):
    streamed(sink, b"x" * LONGEST, b"y\n", ended=False)
    assert written(sink) == b"[a] " + b"x" * LONGEST + b"\n[a] y\n"


def test_what_two_streams_write_to_one_pipe_is_not_mixed():
    """The second waits until the first has written all, however slow the reader is."""
    reading, writing = os.pipe()
    texts = b"a" * (1 << 20), b"b"
    writers = [threading.Thread(target=Sink(writing).write, args=(text,)) for text in texts]
    writers[0].start()
    got = os.read(reading, 1)
    writers[1].start()
    while len(got) < len(texts[0]) + 1:
        got += os.read(reading, 4096)
    assert got == texts[0] + texts[1]
    for end in (reading, writing):
        os.close(end)
