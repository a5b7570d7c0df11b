"""Cases as benchmarks plan them: their role is that of their name, their pattern tells a sweep."""

from gpumap import model


def planned_case(bench, name, params, *others, **more):
    """Return a case; `others` as those of `model.Case`, behind its parameters."""
    own = name if name in ("solo", "host") else "measured"
    role = "control" if bench == "control" else own
    more = {"role": role, "swept": params.get("pattern") == "ladder"} | more
    return model.Case(bench, name, params, *others, **more)


def thin(metrics):
    """Return figures as they are of too few samples: without intervals."""
    return {k: model.Estimate.without_interval(f.value, f.unit) for k, f in metrics.items()}


def driven(case, backend, *places):
    """Return a case as if another backend drove its devices, or those at some places."""
    bound = list(case.bindings)
    for n in places or range(len(bound)):
        bound[n] = model.replace(bound[n], device=model.replace(bound[n].device, backend=backend))
    return model.replace(case, bindings=tuple(bound))


def called(bound, *times, resident="false", metrics=None):
    """Return rows of a break-even: the host's and the device's calls of (bytes, seconds, seconds).

    The smallest size has the metrics that follow from all.
    """
    rows = []
    for number, (nbytes, *both) in enumerate(times):
        keys = {"bytes": nbytes, "memory": "pageable", "mode": "sync"}
        others = {**keys, "pattern": "ladder", "workload": "affine"}
        mine = {**keys, "pattern": "ladder" if number else "alone", "resident": resident}
        host = planned_case("transfer", "host", others, (bound,), model.Work())
        call = planned_case("transfer", "affine", mine, (bound,), model.Work(), host.id)
        for case, seconds in zip((host, call), both, strict=True):
            time = {"time": model.Estimate(seconds, seconds, seconds, "s")}
            found = time | (metrics or {}) if case is call and not number else time
            samples, check = model.Samples((seconds,) * 6, tuple(range(6))), model.Check("x", True)  # noqa: FBT003
            rows.append(model.Measurement(case, "ok", None, (), samples, None, check, found))
    return rows
