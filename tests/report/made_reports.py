"""Reports as runs leave them, made by hand: one for each way in which a run can end."""

from functools import partial
from itertools import permutations

from cases import called, planned_case, thin
from judge.copy_rows import copy

from gpumap import model
from gpumap.errors import Diagnostic
from gpumap.model import replace
from gpumap.model.measurements import PHASES
from gpumap.predict import given_link, predicted
from gpumap.published import with_metrics
from gpumap.results import headline

RESULTS = {  # of kinds; of others what was measured
    "check": model.Checked, "devices": model.Listed, "compare": model.Compared,
    "selftest": model.Tested, "doctor": model.Diagnosed, "trace": model.Watched,
    "watch": model.Watched, "scale": model.Scaled, "predict": model.Predicted,
}  # fmt: skip
SETTINGS = {"seed": 1, "precision": 0.02, "confidence": 0.95, "budget_s": 8.0, "timeout_s": 80.0,
            "require_idle": False, "inconclusive": "fail", "if_absent": "fail"}  # fmt: skip
HASH = "sha256:" + "5f0c" * 16


def device(index=0, name="Fake device", driver="1.0"):
    ref = model.DeviceRef(model.Kind.CUDA, index)
    hardware = frozenset((f"gpu {index}",))
    return model.Device(
        f"cuda:{index}", model.Kind.CUDA, ref, name, "fake", hardware=hardware, driver=driver
    )


def bindings(names=("a", "b"), text="Fake device"):
    return tuple(model.Binding(name, device(n, text, text)) for n, name in enumerate(names))


def figure(value, unit="s", spread=0.01):
    return model.Estimate(value, value * (1 - spread), value * (1 + spread), unit)


def case(name="one", bound=None, dtype="float32", **more):
    bound = bindings()[:1] if bound is None else bound
    return planned_case(
        "dot", name, {"size": 64, "dtype": dtype}, bound, model.Work(1, 2 * 64**3), **more
    )


def ok(of, seconds=0.5, speedup=None, flags=(), **more):
    figures = {"time": figure(seconds), "rate": figure(2 * 64**3 / seconds, "FLOP/s")}
    if speedup is not None:
        figures["speedup"] = figure(speedup, "1")
    samples = model.Samples((seconds,) * 6, tuple(range(6)), 2)
    stop = model.Stop("precision", 6, 3, 0.0, 6.0)
    check = model.Check("float64 reference", passed=True, max_error=0.05, bound=1.0)
    return model.Measurement(of, "ok", None, flags, samples, stop, check, figures, **more)


def skipped(of, code="stopped", text="not measured: the time limit was reached"):
    return model.Measurement(of, "skipped", model.Reason(code, text))


def wrong(of, text="the product is wrong"):
    check = model.Check("float64 reference", passed=False, max_error=30.0, bound=1.0)
    samples = model.Samples((0.5,), (0,))
    return model.Measurement(
        of, "failed", model.Reason("wrong-data", text), samples=samples, check=check
    )


def problem(code, message, exit_, hint=None, **more):
    return model.Problem(Diagnostic(code, message, hint=hint, **more), exit_)


def verdict(word, rule="limit", text="dot.many.speedup>=1.8", **more):
    id_ = more.pop("id_", case("many", bindings()).id)
    figures = {"value": 1.5, "low": 1.4, "high": 1.6} | more
    return model.Verdict(rule, text, id_, "speedup", word, **figures)


def made(status="ok", exit_code=0, *, names=("a", "b"), kind="bench", text="x", **parts):
    """Return a report; `text` is what drivers and files say in it."""
    bound = bindings(names, text)
    written = ";".join(f"{b.name}->{b.device.ref}" for b in bound)
    context_map = model.ContextMap(tuple(model.Entry(b.name, b.device.ref) for b in bound), written)
    whole = {
        "settings": SETTINGS, "source": model.MapText(written, "--map"), "map": context_map,
        "bindings": bound,
        "notes": (Diagnostic("unused", f"unused: {text}", hint=text, severity="note"),),
        "devices": tuple(b.device for b in bound),
        "backends": (model.DeviceLibrary("fake", usable=True, version=text),),
        "fingerprint": model.Fingerprint(HASH, text, 2, "Linux", "3.11", {}, ("cuda:0",), {}),
        "environment": {"CUDA_VISIBLE_DEVICES": text}, "before": None, "after": None,
    } | parts  # fmt: skip
    times = ("2026-11-21T10:00:00.000Z", "2026-11-21T10:00:08.000Z", 8.0)
    argv = ("bench", "dot", "--map", written)
    inner = {name: whole.pop(name) for name in list(whole) if name not in model.Report._fields}
    whole["result"] = RESULTS.get(kind, model.Measured)(**inner)
    report = model.Report(kind, argv, *times, status, exit_code, simulated=True, **whole)
    return replace(report, headline=headline(report))


def pair(names=("a", "b"), text="x"):
    bound = bindings(names, text)
    one = case("one", bound[:1], dtype=text)
    return one, case("many", bound, dtype=text, against=one.id)


def matrix(count):
    bound = bindings([f"device number {n}" for n in range(count)])
    rows = [
        copy("d2d", ends, 400 / (2e9 + n), memory="device", nbytes=400)
        for n, ends in enumerate(permutations(bound, 2))
    ]
    return made(kind="transfer-cost", measurements=tuple(rows))


def passed(names=("a", "b"), text="x"):
    one, many = pair(names, text)
    good = verdict("pass", text=f"{text}>=1.8", id_=many.id, value=1.9, low=1.85, high=1.95)
    rows = (ok(one, 1.0), ok(many, speedup=1.9))
    return made(names=names, text=text, measurements=rows, verdicts=(good,))


def few(names=("a", "b"), text="x"):
    """One sample of each row: no interval; and a ratio that was refused, which is no number."""
    one, many = pair(names, text)
    third = replace(many, name="many+fetch")
    rows = [ok(one), ok(many, speedup=1.5), ok(third, flags=("impossible",))]
    rows = [replace(row, metrics=thin(row.metrics)) for row in rows]
    refused = rows[2].metrics | {"speedup": model.Estimate.refused("1")}
    rows[2] = replace(rows[2], metrics=refused)
    return made("inconclusive", names=names, text=text, measurements=tuple(rows))


def regression(names=("a", "b"), text="x"):
    one, many = pair(names, text)
    bad = verdict("regression", "compare", f"{text}.time", id_=many.id, base=1.0, threshold=0.05)
    errors = (problem("regression", f"{text}: slower", 1, text, name=names[0]),)
    rows = (ok(one, 1.0), ok(many, speedup=1.9))
    return made("no", 1, names=names, text=text, measurements=rows, verdicts=(bad,), errors=errors)


def limit_missed(names=("a", "b"), text="x"):
    """It is not fast enough, and another limit cannot be told."""
    one, many = pair(names, text)
    verdicts = (
        verdict("fail", text=f"{text}>=1.8", id_=many.id, limit=1.8),
        verdict("inconclusive", text=f"{text}>=1.5", id_=many.id, limit=1.5),
        verdict("missing", text=f"{text}>=9", id_=None, value=None, low=None, high=None),
    )
    errors = (
        problem("limit", f"{text}>=1.8: not met", 1, text),
        problem("inconclusive", f"{text}>=1.5: it is not known", 5, text),
        problem("missing", f"{text}>=9: no row", 1),
    )
    rows = (ok(one, 1.0), ok(many, speedup=1.5))
    return made(
        "no", 1, names=names, text=text, measurements=rows, verdicts=verdicts, errors=errors
    )


def wrong_data(names=("a", "b"), text="x"):
    one, many = pair(names, text)
    errors = (problem("wrong-data", f"{many.id}: {text}", 4, text, entry=2),)
    rows = (ok(one, 1.0), wrong(many, text))
    return made("wrong-data", 4, names=names, text=text, measurements=rows, errors=errors)


def trained(names=("a", "b"), text="x"):
    """A network was trained on one device and on two; a second rule was not a success."""
    bound = bindings(names, text)
    keys = {"network": text, "scaling": "weak", "comm": "local", "input": "made", "steps": 1}
    how = keys | {"optimizer": "adam", "rule": "bsp", "algorithm": "ring"}
    one = planned_case("train", "step", how | {"batch": 8}, bound[:1], model.Work(0, 1000))
    both = planned_case(
        "train", "step", how | {"batch": 16}, bound, model.Work(0, 2000), against=one.id
    )
    apart = replace(both, params=keys | {"optimizer": "adam", "rule": "easgd", "batch": 16})
    rows = (_trained(one), _trained(both, 1.5), wrong(apart, text))
    errors = (problem("diverged", f"{text}: no longer a number", 3, text),)
    return made("absent", 3, names=names, text=text, measurements=rows, errors=errors)


def _trained(of, speedup=None):
    row, batch = ok(of, speedup=speedup), of.params["batch"]
    each = dict(zip(PHASES, (0.0, 0.0625, 0.25, 0.0625, 0.0625, 0.0625), strict=True))
    phases = {name: (seconds,) * 6 for name, seconds in each.items()}
    figures = {name: figure(seconds * 5120 / batch) for name, seconds in each.items()}
    figures |= {
        "examples_per_s": figure(2.0 * batch, "1/s"),
        "loss": figure(0.125, "1", 0.0),
    }
    if speedup is not None:
        figures["efficiency"] = figure(speedup / 2, "1")
    samples = replace(row.samples, phases=phases)
    return replace(row, samples=samples, metrics={**row.metrics, **figures})


def absent_skipped(names=("a", "b"), text="x"):
    rows = tuple(skipped(each, "absent", text) for each in pair(names, text))
    figures = {"value": None, "low": None, "high": None}
    verdicts = (verdict("skipped", text=text, id_=rows[1].case.id, **figures),)
    errors = (problem("absent", f"{text}: not there", 0, text, severity="note"),)
    return made("skipped", 0, names=names, text=text, measurements=rows, verdicts=verdicts,
                errors=errors)  # fmt: skip


def cut_short(names=("a", "b"), text="x", status="timeout", code=124):
    one, many = pair(names, text)
    errors = (problem(status, f"{status} while {text}", code, text),)
    rows = (ok(one, 1.0), skipped(many, "stopped", text))
    return made(status, code, names=names, text=text, measurements=rows, errors=errors)


def errors_only(names=("a", "b"), text="x"):
    errors = (problem("absent", f"{text}: no such device", 3, text, entry=1, name=names[0]),)
    return made("absent", 3, names=names, text=text, errors=errors, bindings=(), devices=())


def dry_run(names=("a", "b"), text="x"):
    cases = pair(names, text)
    plans = (model.Plan((model.Group(cases),), {text: 4096, "host": 64}, 4096),)
    rows = tuple(skipped(each, "stopped", "a dry run") for each in cases)
    return made(names=names, text=text, measurements=rows, plans=plans)


def copies(names=("a", "b"), text="x"):
    (bound, _) = bindings(names, text)
    params = {"bytes": 400, "memory": text, "mode": "sync", "pattern": "alone"}
    copy = planned_case("transfer", "h2d", params, (bound,), model.Work(bytes_to_device=400))
    figures = {"time": figure(5e-6), "bandwidth": figure(8e7, "B/s")}
    row = replace(ok(copy, 5e-6), metrics=figures, check=model.Check("bytes", True, nbytes=400))  # noqa: FBT003
    found = {"latency": figure(5e-6), "peak_bandwidth": figure(8e7, "B/s")}
    id_ = copy.id.replace("h2d", "h2d.fit").replace("bytes=400,", "")
    fit = model.Fit(id_, copy, True, (64, 512), 0.06, found, (model.Line(5e-6, 1e-9, 64),))  # noqa: FBT003
    from_ = {"break_even": figure(4096.0, "B")}
    calls = called(bound, (2048, 1e-6, 2e-6), (8192, 4e-6, 3e-6), metrics=from_)
    about = {"kind": "transfer-cost", "names": names, "text": text}
    return made(**about, measurements=(row, *calls), fits=(fit,))


def proved(names=("a", "b"), text="x"):
    first = bindings(names, text)[0]
    one = case("one", (first,), dtype=text)
    a, b = (replace(one, bench="selftest", name=name) for name in "ab")
    alarms = (model.Alarms(b.id, "cuda:0", first.name, 0.05, 20, passed=12),)
    errors = (problem("wrong-data", f"{text}: wrong at byte 5", 4, text),)
    rows = (ok(a), ok(b, speedup=1.0))
    return made("wrong-data", 4, kind="selftest", names=names, text=text, measurements=rows,
                alarms=alarms, errors=errors)  # fmt: skip


def checked(names=("a", "b"), text="x"):
    return made(kind="check", names=names, text=text)


def joined(names=("a", "b"), text="x"):
    a, b = bindings(names, text)
    found = (
        model.Rank(0, 0, text, 7, a),
        model.Rank(1, 1, text, 8, None),
        model.Rank(2, 0, f"{text}2", 9, b),
    )
    return made(kind="check", names=names, text=text, ranks=found)


def listed(names=("a", "b"), text="x"):
    backends = (
        model.DeviceLibrary("fake", True, text, notes=(text,)),  # noqa: FBT003
        model.DeviceLibrary("cupy", False, None, text, text),  # noqa: FBT003
    )
    return made(kind="devices", names=names, text=text, bindings=(), backends=backends)


def traced(names=("a", "b"), text="x"):
    a, b = names
    events = (
        model.TraceEvent("upload", a, "transfer", 8, (2,), False, 0.0, 0.5),  # noqa: FBT003 - not implicit
        model.TraceEvent(text, f"{b}->{a}", "transfer", 16, (4,), True, 0.5, 1.0),  # noqa: FBT003 - implicit
        model.TraceEvent(text, a, "operation", 16, (4,), False, 1.0, 1.5),  # noqa: FBT003
        model.TraceEvent(text, b, "operation", 16, (4,), False, 1.25, 1.5),  # noqa: FBT003
        model.TraceEvent(text, "cpu", "operation", 8, (), False, None, None),  # noqa: FBT003
    )
    bound = bindings(names, text)
    traces = (
        model.Trace(1, bound, "visible", True, events),  # noqa: FBT003 - closed
        model.Trace(2, bound[:1], "strict", False),  # noqa: FBT003 - left open
    )
    errors = (problem("script", f"the script ended with {text}", 1, text),)
    return made("no", 1, kind="trace", names=names, text=text, traces=traces, errors=errors)


def watched(names=("a", "b"), text="x"):
    a, b = names
    uses = (
        model.Use(a, "cuda:0", "used", None, 0.5, 0.5),
        model.Use(b, "cuda:1", "unknown", "no-driver"),
    )
    found = model.Utilisation((text, text), -11, 2.0, 20, 1.5, uses)
    errors = (problem("program", f"the program ended with {text}", 1, text),)
    return made("no", 1, kind="watch", names=names, text=text, utilisation=found, errors=errors)


def scaled(names=("a", "b"), text="x"):
    runs = tuple(
        model.TimedRun(n, 1.5, 1.5, 0.25, 1.0, 0.0, 0.25, (1.25, 0.25), 30, 0.0) for n in range(6)
    )
    use = model.Use(names[0], "cuda:0", "used", None, 0.5)
    steps = (
        model.ScaleStep(names[:1], 1, runs, -9, figure(1.5), None, (use,)),
        model.ScaleStep(names, 2, runs, None, figure(1.5), figure(1.0, "1"), (use,)),
    )
    found = model.Scaling((text, text), steps, "one-at-a-time", 0.5, 1.0)
    errors = (problem("program", f"on 1 name the program ended with {text}", 1, text),)
    return made("no", 1, kind="scale", names=names, text=text, scaling=found, errors=errors)


def foreseen(names=("a", "b"), text="x"):
    prediction = predicted(
        model.Prediction(4096, given_link(1e-6, 1e9), "strong", text, 0.25), (2, 64)
    )
    cells = tuple(
        model.Cell(f"{text}{row}", text, devices, train, comm, time, 64 * row)
        for row in (1, 2, 3)
        for devices, train, comm, time in ((1, 10.5, None, "10.5"), (8, 1.2, 0.9, "1.20+0.9"))
    )
    return made(kind="predict", names=names, text=text, prediction=prediction,
                published=model.Published(text, (text,), with_metrics(cells)))  # fmt: skip


def diagnosed(names=("a", "b"), text="x"):
    a, b = names
    first = model.Finding("GM205", "no-driver", text, text)
    behind = model.Finding("GM407", "float64", text, text)
    found = (
        model.Diagnosis(a, "cuda0", "used", text, (), {"call": figure(2e-4)}),
        model.Diagnosis(b, "cuda1", "not used", "no device", (first, behind)),
    )
    errors = (problem("diagnosis", text, 3, text, name=b),)
    return made("absent", 3, kind="doctor", names=names, text=text, diagnoses=found, errors=errors)


ENDS = {
    "trained": trained, "passed": passed, "regression": regression, "limit missed": limit_missed,
    "wrong data": wrong_data, "skipped": absent_skipped, "time limit": cut_short,
    "interrupted": partial(cut_short, status="interrupted", code=130),
}  # fmt: skip
OTHERS = {
    "few samples": few, "errors only": errors_only, "dry run": dry_run, "copies": copies,
    "selftest": proved, "check": checked, "ranks": joined, "devices": listed, "trace": traced,
    "predict": foreseen, "doctor": diagnosed, "program": watched, "scale": scaled,
}  # fmt: skip
EVERY = ENDS | OTHERS
