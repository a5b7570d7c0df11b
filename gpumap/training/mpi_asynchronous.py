"""EASGD and GOSGD between processes, each at its own pace (`gpumap.training.asynchronous`).

A thread of rank 0 serves whoever comes: it hands out examples, a few steps' worth at a time, and
lets a rank meet the center. Before that it answers, so that waiting is not booked as
moving the parameters. Gossip is sent without waiting, and blended in before the first step that
finds it there; when all steps are taken, each rank learns how many messages are still to come.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from gpumap.distributed.mpi import load
from gpumap.dtypes import Array, np
from gpumap.kernels import training
from gpumap.training.asynchronous import Supply, gossip, receiver
from gpumap.training.steps import Account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.training.steps import Course

_ASK, _ANSWER, _CENTER, _GOSSIP = 11, 12, 13, 14  # tags
_MEET = 0  # asks for the center; any other number asks for so many steps
_REST = 1e-4  # seconds between two looks for a rank that asks
_TAKEN = 5e-3  # seconds that a rank's steps should last, before it asks for more
_HEAD = 16  # bytes of a message before its parameters: weight, and examples taken when it was sent
_UNDER_WAY = 2  # messages of a rank that others have not taken: it sends no more, a rank may hang


class Member(Protocol):
    """What a rank trains: its parameters, and room for those of another rank."""

    weights: Any  # of a buffer: its `array` on the host, `fetch` and `put`

    def room(self) -> Array:
        """Return an array for the parameters that another rank sends."""


class Apart:
    """One rank's part of an asynchronous training."""

    def __init__(self, course: Course, comm: Any, team: Member) -> None:
        """Take memory; every rank of `comm` trains."""
        self._course, self._comm, self._team = course, comm, team
        self._rank = int(comm.Get_rank())
        self._elastic = course.rule.kind == "easgd"
        self._supply = Supply(course)  # rank 0's
        self._lock = threading.Lock()  # of rank 0's center
        self.center: Array | None = None
        if self._elastic and not self._rank:
            self.center = np.empty_like(team.weights.array)
        self._came = np.empty(0 if self._elastic else _HEAD + team.weights.array.nbytes, np.uint8)
        self._sending: deque[tuple[Any, Array]] = deque()
        self.account = Account()
        self.begin()

    def begin(self) -> None:
        """Begin anew, with the parameters that the worker has now."""
        count = self._course.workers
        self._steps, self._first, self._pace = 0, 0, _TAKEN
        self.weight = 1.0 / count
        self._random = gossip(self._course.seed, self._rank)
        self._supply.begin()
        self._meetings, self._met = 0, [0] * count  # of all, and when each rank's last one was
        if self.center is not None:
            self.center[:] = self._team.weights.fetch()

    def run(self, steps: int, take: Callable[[int], object], spend: Callable[[str], None]) -> None:
        """Take this rank's share of so many steps of all; end when all is blended in.

        Args:
            steps: of all workers.
            take: a step on the examples from a place on.
            spend: account the time since its last call to a phase.
        """
        self._supply.extend(steps)
        self._sent = np.zeros(self._course.workers, np.int64)
        self._blended = 0
        with self._serving():
            self._work(take, spend)
        spend("sync")
        under_way = 0 if self._elastic else self._end(spend)
        self.account.ended(under_way)

    def parameters(self) -> Array:
        """Return the center, or by gosgd the mean by weight; on rank 0, to which all ranks come."""
        if self._elastic:
            return np.empty(0, np.float32) if self.center is None else self.center.copy()
        own = self._team.weights.fetch() * np.float32(self.weight)
        mean: Array = np.empty_like(own)
        self._comm.Reduce(own, mean)
        return mean

    def _work(self, take: Callable[[int], object], spend: Callable[[str], None]) -> None:
        rule, each = self._course.rule, self._course.counts[self._rank]
        while True:
            self._first, steps = self._ask(max(int(_TAKEN / self._pace), 1))
            spend("sync")
            if not steps:
                return
            began = time.perf_counter()
            for _ in range(steps):
                if not self._elastic:
                    self._blend_all()
                    spend("comm")
                take(self._first)
                self._first += each
                self._steps += 1
                if not self._elastic:
                    self._push()
                    spend("comm")
                elif self._steps % rule.tau == 0:
                    self._meet(spend)
            self._pace = max((time.perf_counter() - began) / steps, 1e-9)

    def _ask(self, wanted: int) -> tuple[int, int]:
        """Return the first example of this rank's next steps, and how many steps."""
        if not self._rank:
            return self._supply.take(0, wanted)
        self._comm.Send(np.array([wanted], np.int64), 0, _ASK)
        answer = np.empty(2, np.int64)
        self._comm.Recv(answer, 0, _ANSWER)
        return int(answer[0]), int(answer[1])

    @contextmanager
    def _serving(self) -> Iterator[None]:
        """Let a thread of rank 0 serve the others until they have no more to do."""
        failure: list[BaseException] = []

        def serve() -> None:
            try:
                self._serve()
            except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
                failure.append(error)

        thread = threading.Thread(target=serve, daemon=True)
        if not self._rank:
            thread.start()
        yield
        if not self._rank:
            thread.join()
        if failure:
            raise failure[0]

    def _serve(self) -> None:
        comm, mpi = self._comm, load()
        left, status, asked = comm.Get_size() - 1, mpi.Status(), np.empty(1, np.int64)
        while left:
            if not comm.Iprobe(mpi.ANY_SOURCE, _ASK, status):
                time.sleep(_REST)
                continue
            rank = status.Get_source()
            comm.Recv(asked, rank, _ASK)
            if asked[0] == _MEET:
                self._let_meet(rank)
                continue
            first, steps = self._supply.take(rank, int(asked[0]))
            comm.Send(np.array([first, steps], np.int64), rank, _ANSWER)
            left -= not steps

    def _let_meet(self, rank: int) -> None:
        """Let a rank meet the center, which rank 0 has."""
        assert self.center is not None  # this is rank 0, by easgd
        came = self._team.room()
        with self._lock:
            self._comm.Send(np.array([self._missed(rank), 0], np.int64), rank, _ANSWER)
            self._comm.Recv(came, rank, _CENTER)
            training.elastic(came, self.center, self._course.rule.alpha)
            self._comm.Send(came, rank, _CENTER)

    def _missed(self, rank: int) -> int:
        """Count a meeting; return those of others since this rank's last one."""
        missed = self._meetings - self._met[rank]
        self._meetings += 1
        self._met[rank] = self._meetings
        return missed

    def _meet(self, spend: Callable[[str], None]) -> None:
        """Meet the center: `sync` until it is this rank's turn, `comm` from there on."""
        weights = self._team.weights
        array = weights.fetch()
        if self.center is not None:
            with self._lock:
                spend("sync")
                missed = self._missed(0)
                training.elastic(array, self.center, self._course.rule.alpha)
        else:
            answer = np.empty(2, np.int64)
            self._comm.Send(np.array([_MEET], np.int64), 0, _ASK)
            self._comm.Recv(answer, 0, _ANSWER)
            spend("sync")
            self._comm.Send(array, 0, _CENTER)
            self._comm.Recv(array, 0, _CENTER)
            missed = int(answer[0])
        weights.put()
        spend("comm")
        self.account.exchanged(missed)

    def _push(self) -> None:
        """Send this rank's parameters to another one, now and then; wait for nothing."""
        while self._sending and self._sending[0][0].Test():
            self._sending.popleft()
        chance, workers = self._course.rule.chance, self._course.workers
        to = receiver(self._random, chance, self._rank, workers)
        if to is None or len(self._sending) >= _UNDER_WAY:
            return
        self.weight /= 2
        message = np.empty(self._came.size, np.uint8)
        message[:_HEAD] = np.array([self.weight, self._first]).view(np.uint8)
        message[_HEAD:].view(np.float32)[:] = self._team.weights.fetch()
        self._sending.append((self._comm.Isend(message, to, _GOSSIP), message))
        self._sent[to] += 1

    def _blend_all(self) -> None:
        """Blend in the messages that are there."""
        while self._comm.Iprobe(tag=_GOSSIP):
            self._blend()

    def _blend(self) -> None:
        """Take in a message, and blend it in."""
        self._comm.Recv(self._came, tag=_GOSSIP)
        weight, sent = self._came[:_HEAD].view(np.float64).tolist()
        self.weight += weight
        weights = self._team.weights
        came = self._came[_HEAD:].view(np.float32)
        training.blend(weights.fetch(), came, weight / self.weight)
        weights.put()
        self._blended += 1
        each = self._course.counts[self._rank]
        self.account.exchanged(max(self._first - sent, 0) / each)

    def _end(self, spend: Callable[[str], None]) -> int:
        """Blend in what is under way when every rank has taken its steps; return how many."""
        coming = np.empty_like(self._sent)
        self._comm.Alltoall(self._sent, coming)
        spend("sync")
        under_way = int(coming.sum()) - self._blended
        for _ in range(under_way):
            self._blend()
        for request, _ in self._sending:
            request.Wait()
        self._sending.clear()
        spend("comm")
        return under_way
