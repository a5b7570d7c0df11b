"""Asynchronous EASGD and GOSGD between processes (`gpumap.training.asynchronous`).

A thread of rank 0 is the server: it hands out examples, a few steps' worth at a time, and
exchanges the center with a rank. Before that it answers, so that waiting is not booked as
moving the parameters. Gossip is sent without waiting, and blended in before the first step that
finds it there; when all steps are taken, each rank learns how many messages are still to come.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from gpumap.comm.mpi import load
from gpumap.dtypes import Array, np
from gpumap.kernels import blend, elastic
from gpumap.training.asynchronous import Supply, gossip, receiver
from gpumap.training.steps import Account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpumap.training.steps import Config

_REQUEST, _ANSWER, _CENTER, _GOSSIP = 11, 12, 13, 14  # tags
_CENTER_REQUEST = 0  # requests the center; any other number requests so many steps
_REST = 1e-4  # seconds between two polls for a request
_TAKEN = 5e-3  # seconds that the steps of one request should last
_HEAD = 16  # bytes of a message before its parameters: weight, and examples taken when it was sent
_UNDER_WAY = 2  # sends of a rank that are not received: then it stops, as a rank may hang


class Member(Protocol):
    """Parameters of a rank, and a receive buffer for those of another rank."""

    weights: Any  # of a buffer: its `array` on the host, `read` and `put`

    def room(self) -> Array:
        """Return an array for the parameters that another rank sends."""


class AsynchronousRank:
    """One rank's part of an asynchronous training."""

    def __init__(self, config: Config, comm: Any, group: Member) -> None:
        """Take memory; every rank of `comm` trains."""
        self._config, self._comm, self._group = config, comm, group
        self._rank = int(comm.Get_rank())
        self._elastic = config.rule.kind == "easgd"
        self._supply = Supply(config)  # rank 0's
        self._lock = threading.Lock()  # of rank 0's center
        self.center: Array | None = None
        if self._elastic and not self._rank:
            self.center = np.empty_like(group.weights.array)
        self._inbox = np.empty(0 if self._elastic else _HEAD + group.weights.array.nbytes, np.uint8)
        self._sending: deque[tuple[Any, Array]] = deque()
        self.account = Account()
        self.begin()

    def begin(self) -> None:
        """Reset, with the current parameters of the worker."""
        count = self._config.workers
        self._steps, self._first, self._pace = 0, 0, _TAKEN
        self.weight = 1.0 / count
        self._random = gossip(self._config.seed, self._rank)
        self._supply.begin()
        self._exchanges, self._last = 0, [0] * count  # of all; at each rank's last one
        if self.center is not None:
            self.center[:] = self._group.weights.read()

    def run(self, steps: int, take: Callable[[int], object], spend: Callable[[str], None]) -> None:
        """Take this rank's share of `steps` steps; return when all messages are blended in.

        Args:
            steps: of all workers.
            take: a step on the examples from a place on.
            spend: account the time since its last call to a phase.
        """
        self._supply.extend(steps)
        self._sent = np.zeros(self._config.workers, np.int64)
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
        weighted = self._group.weights.read() * np.float32(self.weight)
        mean: Array = np.empty_like(weighted)
        self._comm.Reduce(weighted, mean)
        return mean

    def _work(self, take: Callable[[int], object], spend: Callable[[str], None]) -> None:
        rule, each = self._config.rule, self._config.counts[self._rank]
        while True:
            self._first, steps = self._request_steps(max(int(_TAKEN / self._pace), 1))
            spend("sync")
            if not steps:
                return
            began = time.perf_counter()
            for _ in range(steps):
                if not self._elastic:
                    while self._comm.Iprobe(tag=_GOSSIP):
                        self._blend()
                    spend("comm")
                take(self._first)
                self._first += each
                self._steps += 1
                if not self._elastic:
                    self._push()
                    spend("comm")
                elif self._steps % rule.tau == 0:
                    self._exchange_center(spend)
            self._pace = max((time.perf_counter() - began) / steps, 1e-9)

    def _request_steps(self, steps: int) -> tuple[int, int]:
        """Return the first example of this rank's next steps, and how many steps."""
        if not self._rank:
            return self._supply.take(0, steps)
        self._comm.Send(np.array([steps], np.int64), 0, _REQUEST)
        answer = np.empty(2, np.int64)
        self._comm.Recv(answer, 0, _ANSWER)
        return int(answer[0]), int(answer[1])

    @contextmanager
    def _serving(self) -> Iterator[None]:
        """Run the server thread of rank 0 until no rank has steps left."""
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
        left, status, request = comm.Get_size() - 1, mpi.Status(), np.empty(1, np.int64)
        while left:
            if not comm.Iprobe(mpi.ANY_SOURCE, _REQUEST, status):
                time.sleep(_REST)
                continue
            rank = status.Get_source()
            comm.Recv(request, rank, _REQUEST)
            if request[0] == _CENTER_REQUEST:
                self._serve_center(rank)
                continue
            first, steps = self._supply.take(rank, int(request[0]))
            comm.Send(np.array([first, steps], np.int64), rank, _ANSWER)
            left -= not steps

    def _serve_center(self, rank: int) -> None:
        """Serve a rank's exchange with the center, which rank 0 has."""
        assert self.center is not None  # this is rank 0, by easgd
        received = self._group.room()
        with self._lock:
            self._comm.Send(np.array([self._missed(rank), 0], np.int64), rank, _ANSWER)
            self._comm.Recv(received, rank, _CENTER)
            elastic(received, self.center, self._config.rule.alpha)
            self._comm.Send(received, rank, _CENTER)

    def _missed(self, rank: int) -> int:
        """Count a center exchange; return those of others since this rank's last one."""
        missed = self._exchanges - self._last[rank]
        self._exchanges += 1
        self._last[rank] = self._exchanges
        return missed

    def _exchange_center(self, spend: Callable[[str], None]) -> None:
        """Exchange with the center: `sync` until the server answers, `comm` from there on."""
        weights = self._group.weights
        array = weights.read()
        if self.center is not None:
            with self._lock:
                spend("sync")
                missed = self._missed(0)
                elastic(array, self.center, self._config.rule.alpha)
        else:
            answer = np.empty(2, np.int64)
            self._comm.Send(np.array([_CENTER_REQUEST], np.int64), 0, _REQUEST)
            self._comm.Recv(answer, 0, _ANSWER)
            spend("sync")
            self._comm.Send(array, 0, _CENTER)
            self._comm.Recv(array, 0, _CENTER)
            missed = int(answer[0])
        weights.put()
        spend("comm")
        self.account.exchanged(missed)

    def _push(self) -> None:
        """Send this rank's parameters to a random other one, with probability p; do not wait."""
        while self._sending and self._sending[0][0].Test():
            self._sending.popleft()
        chance, workers = self._config.rule.chance, self._config.workers
        to = receiver(self._random, chance, self._rank, workers)
        if to is None or len(self._sending) >= _UNDER_WAY:
            return
        self.weight /= 2
        message = np.empty(self._inbox.size, np.uint8)
        message[:_HEAD] = np.array([self.weight, self._first]).view(np.uint8)
        message[_HEAD:].view(np.float32)[:] = self._group.weights.read()
        self._sending.append((self._comm.Isend(message, to, _GOSSIP), message))
        self._sent[to] += 1

    def _blend(self) -> None:
        """Receive a message, and blend it in."""
        self._comm.Recv(self._inbox, tag=_GOSSIP)
        weight, sent = self._inbox[:_HEAD].view(np.float64).tolist()
        self.weight += weight
        weights = self._group.weights
        received = self._inbox[_HEAD:].view(np.float32)
        blend(weights.read(), received, weight / self.weight)
        weights.put()
        self._blended += 1
        each = self._config.counts[self._rank]
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
