"""The time of doctor's probes: what hangs costs its device alone; too little time is no hang."""

import json
import math
import signal
import time
from types import SimpleNamespace

import pytest
from commands.scripts import script
from shell import ended, until
from tables import table
from test_causes import known, named

from gpumap.backends.probe import Ended
from gpumap.doctor import screening
from gpumap.doctor.gather import with_results
from gpumap.model import Binding, Device, DeviceRef, Kind

HANGING = script({"fault": "hang"}, {}, latency=5e-6, launch=5e-6, rate=1e12, bandwidth=1e11)
STEPS = ("open", "upload", "download", "product", "costs")


@pytest.mark.parametrize(
    ("seconds", "names", "hanging", "takes", "waits", "expected"), table(__file__)["hanging"]
)
def test_what_hangs_leaves_the_others_their_time(
    monkeypatch, seconds, names, hanging, takes, waits, expected
):
    """Its device is not tried again; time in which it waits for a core tells nothing.

    Children answer in so long, or never; `waits` is the share of its time in which one waits.
    """
    refs = [DeviceRef(Kind.CUDA, number) for number in range(len(names))]
    bindings = [Binding(name, Device(str(ref), Kind.CUDA, ref, "A GPU", "cupy"))
                for name, ref in zip(names, refs, strict=True)]  # fmt: skip
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def child(_command, _env, _limit, job, over):
        start, text = clock.now, ""
        for one in json.loads(job)["names"]:
            text += json.dumps({"begin": ["open", one["name"], None]}) + "\n"
            done = math.inf if one["name"] in hanging else clock.now + takes
            while clock.now < done:
                clock.now += 0.1
                if over(text, waits * (clock.now - start)):
                    return Ended(text, None, "")
            for what in STEPS:
                result = {"what": what, "name": one["name"], "other": None, "code": None}
                text += json.dumps({"result": {**result, "text": "", "figures": {}}}) + "\n"
        return Ended(text + json.dumps({"end": True}) + "\n", 0, "")

    monkeypatch.setattr(screening, "time", clock)
    monkeypatch.setattr(screening, "run_child", child)
    results = []
    screening.DeviceRun(bindings, {}, "doctor", seconds, seconds, results.append).run()
    assert clock.now <= seconds + 0.2
    evidence = known(*(named(one.device, one.name) for one in bindings))
    failures = [one.failure for one in with_results(evidence, bindings, results).names]
    assert [failure and failure.code for failure in failures] == expected


def quiet(log):
    """Wait until a log has something, and for five seconds nothing more: its device hangs."""
    seen = {}

    def still():
        size = log.exists() and log.stat().st_size
        return size and time.monotonic() - seen.setdefault(size, time.monotonic()) > 5.0

    until(still)


def test_an_interrupt_loses_nothing(gpumap):
    """What is known by then is in the report, and the text says that it was interrupted."""
    gpumap.fake(f'log = "commands.log"\n{HANGING}')
    command = [gpumap.command, "doctor", "i->cuda1;h->cuda0", "--timeout", "90s",
               "--format", "plain", "--output", "report.json"]  # fmt: skip
    process = gpumap.start(command)
    quiet(gpumap.folder / "commands.log")  # the first name has ended, the other never will
    process.send_signal(signal.SIGINT)
    answer = ended(process)
    assert answer.code == 130
    report = json.loads((gpumap.folder / "report.json").read_text())
    first, second = report["result"]["diagnoses"]
    assert (first["verdict"], second["findings"][0]["code"]) == ("used", "GM409")
    assert "i->cuda1: used" in answer.out
    assert "\ninterrupted: " in answer.out
