"""Nothing is looked at before it was waited for: on devices that are as late as a queue may be."""

from functools import partial

import pytest
from worlds import SETTINGS, copies_on, dot_on, gpu, rows_on, world

from gpumap.backends.fake.session import FakeSession
from gpumap.bench.copies import Ends, HostCopy
from gpumap.bench.dot import Params
from gpumap.model import replace


class Late(FakeSession):
    """A device that does what it was given when it is waited for, and nothing before."""

    def __init__(self, *given):
        super().__init__(*given)
        self.queued, self.fetched = [], []  # and the bytes of each copy to the host
        for name in ("upload", "download", "copy", "gemm", "run"):
            setattr(self, name, partial(self._later, name))

    def _later(self, name, *arguments, **others):
        if name == "download":
            self.fetched.append(arguments[1].nbytes)
        self.queued.append(partial(getattr(FakeSession, name), self, *arguments, **others))
        return "peer"

    def synchronize(self):
        queued, self.queued = self.queued, []
        for work in queued:
            work()
        super().synchronize()


@pytest.mark.parametrize("features", [("kernels", "pinned", "mapped"), ()])
@pytest.mark.parametrize(
    "benchmark", [partial(dot_on, params=Params((300,))), lambda here: copies_on(here, 400, 5000)]
)
def test_every_case_is_right_though_its_device_is_late(benchmark, features):
    here = world(gpu(0, features=features), gpu(1, features=features), kind=Late)
    rows = rows_on(here, benchmark(here), replace(SETTINGS, blocks=2))
    assert {r.case.id: r.reason for r in rows if r.status != "ok" and not r.case.skip} == {}
    assert any(row.status == "ok" for row in rows)


def test_what_a_late_device_counts_is_waited_for():
    """An upload is proved there: an answer that had not come would send all bytes to the host."""
    session = world(gpu(0), kind=Late).sessions["a"]
    ends = Ends("a", session, 5000, "pageable", (1, 0))
    work = HostCopy([ends.cut(5000)], "h2d", sync=True)
    assert ends.proved
    work.poison()
    assert session.fetched == [5001, 4, 1]  # what was uploaded, a count, and the last byte
    work.queue()
    work.finish()
    assert work.check().passed
    assert session.fetched == [5001, 4, 1, 4]
