"""Rows of copies, made by hand: on devices that are plugged in, and on cores."""

from cases import planned_case, thin

from gpumap import model
from gpumap.bench.transfer_causes import copies_explained

MB = 1 << 20


def exactly(value, unit="1", spread=0.0):
    """Return a figure and its interval, as a share of it on either side."""
    return model.Estimate(value, value * (1 - spread), value * (1 + spread), unit)


def gpu(number, **more):
    hardware = more.pop("hardware", (f"pci:{number}",))
    address = f"0000:{number:02x}:00.0"
    ref = model.DeviceRef(model.Kind.CUDA, number)
    keys = {"pci": address, "cores": (0, 1), "hardware": frozenset(hardware)} | more
    return model.Device(f"cuda:{number}", model.Kind.CUDA, ref, "A GPU", "cupy", **keys)


def core(number, *hardware):
    own = frozenset(hardware or {f"core:{number}"})
    ref = model.DeviceRef(model.Kind.CPU, number)
    return model.Device(
        f"cpu:{number}", model.Kind.CPU, ref, "A CPU", "numpy", cores=(number,), hardware=own
    )


def named(*devices):
    return [model.Binding(name, device) for name, device in zip("abcdefgh", devices, strict=False)]


def copy(case, bindings, seconds, *, mode="sync", pattern="alone", memory="pinned", nbytes=MB,
         spread=0.0, queue=0.0, n=6, **more):  # fmt: skip
    """Return a row of copies, measured; `speedup`, `share` of a ceiling and a route, if given."""
    bindings = tuple(bindings)
    ends = 2 if case == "bidir" else 1 if case == "d2d" else len(bindings)
    params = {"bytes": nbytes, "memory": memory, "mode": mode, "pattern": pattern}
    rate = ends * nbytes / seconds
    time = "time" if mode == "sync" else "issue_interval"
    metrics = {time: exactly(seconds, "s", spread), "bandwidth": exactly(rate, "B/s", spread)}
    if "speedup" in more:
        metrics["speedup"] = exactly(more.pop("speedup"), spread=spread)
    if "share" in more:
        top = rate / more["share"]
        more["ceiling"] = model.Ceiling(
            "bandwidth", top, "B/s", more.pop("share"), "reported: PCIe 5 x16", "reported"
        )
    if n < 6:
        metrics = thin(metrics)
    work = model.Work(bytes_to_device=ends * nbytes)
    made = planned_case("transfer", case, params, bindings, work, ordered=case == "d2d")
    return model.Measurement(made, "ok", metrics=metrics,
                       samples=model.Samples((seconds,) * n, tuple(range(n)), queue=(queue,) * n),
                       **more)  # fmt: skip


def only(rows):
    """Return the explanation of the last row; no other row has one."""
    found = copies_explained(rows)
    assert [row.case for row in found] == [row.case for row in rows]
    assert [row.case.id for row in found[:-1] if row.explanation] == []
    return found[-1].explanation
