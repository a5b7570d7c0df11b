"""`gpumap transfer-cost`: exact on scripted devices, byte for byte on real ones."""

from __future__ import annotations

import here
import pytest
from scripts import TOL, anchors, asked, figures, report, script
from shell import SIMULATED, timely

from gpumap.backends import load

TWO = "a->cuda0;b->cuda1"
SIZES = (4096, 16384)


def cost(gpumap, *arguments, sizes="4KiB,16KiB", map_=TWO):
    """Run `transfer-cost` and ask for JSON."""
    given = ("--sizes", sizes, "--map", map_, "--format", "json", "--no-model", *arguments)
    return gpumap("transfer-cost", *given)


def seconds(nbytes):
    """Return what a copy takes by the script."""
    return 2.0**-10 + nbytes / 2**24


def by_key(found):
    """Return the rows by size, direction, memory, mode and names."""
    return {
        (r["params"]["bytes"], r["case"], r["params"]["memory"], r["params"]["mode"],
         "+".join(r["names"])): r
        for r in asked(found) if r["status"] != "skipped"
    }  # fmt: skip


@pytest.mark.parametrize(("engine", "gain"), [({}, 2), ({"engine": "bus 0"}, 1)])
def test_every_figure_is_the_scripted_one(gpumap, engine, gain):
    """Time or spacing, bandwidth, and what all at once gain: twice, or nothing on a shared bus."""
    answer = cost(gpumap.fake(script(**engine)), "--cases", "h2d,d2h")

    found = report(answer)
    expected = {}
    for nbytes in SIZES:
        time = seconds(nbytes)
        alone = {"bandwidth": nbytes / time}
        both = {"time": 2 * time / gain, "bandwidth": gain * nbytes / time, "speedup": gain}
        rows = [(mode, name, alone | {word: time}) for name in "ab"
                for mode, word in (("sync", "time"), ("queued", "spacing"))]  # fmt: skip
        for way in ("h2d", "d2h"):
            for memory in ("pageable", "pinned"):
                for mode, names, values in (*rows, ("sync", "a+b", both)):
                    exact = {k: pytest.approx(v, rel=TOL, abs=0.0) for k, v in values.items()}
                    expected[nbytes, way, memory, mode, names] = exact
    assert expected == {key: figures(row) for key, row in by_key(found).items()}
    assert (
        answer.code, found["status"], found["simulated"], answer.err,
    ) == (0, "ok", True, SIMULATED)  # fmt: skip


def test_a_pair_has_its_route_and_an_ordered_id(gpumap):
    """From a to b is another row than from b to a."""
    found = report(cost(gpumap.fake(script()), "--cases", "d2d", sizes="4KiB"))

    rows = {row["id"]: (row["names"], row["route"]) for row in asked(found)}
    keys = "backend=fake,bytes=4096,memory=device,mode={},names={},pattern=alone"
    assert rows == {
        f"transfer.d2d[{keys.format(mode, '>'.join(names))}]": (names, "peer")
        for mode in ("sync", "queued") for names in (["a", "b"], ["b", "a"])
    }  # fmt: skip


def model(gpumap, *arguments, map_="a->cuda0", **device):
    """Run with the model, on a quick device."""
    fake = gpumap.fake(script(latency=5e-6, bandwidth=5e10, rate=1e12, features=[], **device))
    given = ("--map", map_, "--sizes", "small", "--cases", "h2d", *arguments)
    return fake("transfer-cost", *given, "--budget", "1s")


def test_the_model_is_in_the_report(gpumap):
    """Latency and bandwidth as scripted, the half size, and a size that was held back."""
    (sync, queued) = report(model(gpumap, "--format", "json"))["fits"]

    assert sync["id"] == (
        "transfer.h2d.fit[backend=fake,memory=pageable,mode=sync,names=a,pattern=alone]"
    )
    assert (sync["fits"], sync["regimes"], queued["regimes"]) == (True, 1, 1)
    assert sync["sizes_bytes"] == [64 * 8**n for n in range(7)]
    figures = {name: figure["value"] for name, figure in sync["metrics"].items()}
    assert figures == {
        "latency": pytest.approx(5e-6, rel=0.01),
        "peak_bandwidth": pytest.approx(5e10, rel=0.01),
        "half_size": pytest.approx(250e3, rel=0.02),
        "size_90": pytest.approx(2250e3, rel=0.02),
    }
    assert sync["held_back"]["bytes"] == 131072
    assert sync["held_back"]["predicted_s"] == pytest.approx(sync["held_back"]["measured_s"])


MODEL = """\
model: time = latency + bytes / bandwidth
  copy    on    memory    mode                 latency             bandwidth           half at               90% at  lines    misses by
  h2d     a     pageable  sync    5.00 µs [5.00, 5.00]  50.0 GB/s [50, 50]  250 kB [250, 250]  2.25 MB [2.25, 2.25]  1        0%
"""  # noqa: E501 - a table as it is printed


def test_the_model_is_a_table(gpumap):
    """Below what was asked for, with how far it misses, and what it predicts."""
    out = model(gpumap).out

    table = out[out.index("model: time") :].splitlines()
    assert table[1].split() == MODEL.splitlines()[1].split()
    assert table[2].split()[:4] == ["h2d", "a", "pageable", "sync"]
    assert "5.00 µs [5.00, 5.00]  50.0 GB/s [50.0, 50.0]" in " ".join(table[2].split("   "))
    assert "  fitted to 7 sizes, 64 to 16777216 bytes" in table
    held = "  those that fit also predict 131072 bytes, which were held back, within 0%"
    assert held in table


def test_sweep_shows_the_ladder(gpumap):
    """A table for each of its sizes; and alone it stands."""
    out = model(gpumap, "--sizes", "sweep").out

    assert [f"transfer {64 * 8**n} bytes, fake" in out for n in range(7)] == [True] * 7
    answer = gpumap.fake(script())("transfer-cost", "--sizes", "sweep", "--no-model")
    assert (answer.code, answer.err) == (
        2, "error: --sizes sweep is the model's ladder\n  fix: leave --no-model away\n",
    )  # fmt: skip


def test_small_and_large_have_names(gpumap):
    """Theano's matrices of 10 x 10 and 10000 x 10 float32 values are the default."""
    answer = gpumap.fake(script())("transfer-cost", "--map", TWO, "--format", "json", "--no-model")

    params = [row["params"] for row in asked(report(answer))]
    assert {("small", 400), ("large", 400_000)} == {(p["size_name"], p["bytes"]) for p in params}


def test_anchors_stand_beside_every_group(gpumap):
    """Each size has one for each device, verified."""
    found = report(cost(gpumap.fake(script())))

    groups = [(row["params"]["beside"], *row["names"]) for row in anchors(found)]
    assert [(group, name) for group in ("4096B", "16384B") for name in "ab"] == groups
    assert all(row["check"]["passed"] and row["metrics"] for row in anchors(found))


def test_a_flipped_byte_has_no_bandwidth(gpumap):
    """Exit 4; the row says which byte, and has no figures."""
    answer = cost(gpumap.fake(script({}, {"fault": "flip"})), "--cases", "h2d,d2h", sizes="4KiB")

    found = report(answer)
    failed = {key: row for key, row in by_key(found).items() if row["status"] == "failed"}
    assert (answer.code, found["status"]) == (4, "wrong-data")
    assert {"b", "a+b"} == {key[4] for key in failed}
    assert {("wrong-data", "byte 2055 of 4096 is wrong")} == {
        (row["reason"]["code"], row["reason"]["text"]) for row in failed.values()
    }
    assert all(row["metrics"] == {} for row in failed.values())


def test_a_lost_device_keeps_the_rows_before_it(gpumap):
    """Exit 3; what is complete stays."""
    answer = cost(gpumap.fake(script({}, {"fault": "lost", "fault_after": 900})))

    found = report(answer)
    status = [row["status"] for row in asked(found) if "b" in row["names"]]
    assert (answer.code, status[0], status[-1]) == (3, "ok", "failed")
    assert {"ok"} == {
        r["status"]
        for r in found["measurements"]
        if r["names"] == ["a"] and r["params"].get("memory") != "mapped"  # which it has not
    }
    assert anchors(found)[-1]["status"] == "skipped"
    assert "anchor" not in answer.err


def test_no_memory_on_the_device(gpumap):
    """Exit 3, whatever the size."""
    answer = cost(gpumap.fake(script({}, {"fault": "memory"})))

    found = report(answer)
    reasons = {r["reason"]["code"] for r in found["measurements"] if r["status"] == "failed"}
    assert (3, {"out-of-memory"}) == (answer.code, reasons)


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (("--sizes", "small,,large"), "an empty size", "drop one comma, or write small,large"),
        (("--sizes", "-1"), "'-1' is not a size", "write 400, 4KiB or 1MB"),
        (("--sizes", "1K"), "'1K' can mean two sizes", "write 1KiB or 1kB"),
        (("--sizes", "large:small"), "'large:small' is not a range of sizes",
         "write 64B:1GiB:x2"),
        (("--cases", "up"), 'no case is called "up"',
         "--cases takes some of h2d, d2h, bidir, d2d, affine, product"),
    ],
)  # fmt: skip
def test_a_wrong_option_ends_in_its_fix(gpumap, arguments, message, fix):
    """On stderr only; nothing was looked for."""
    answer = gpumap.fake(script())("transfer-cost", *arguments)

    assert (2, "", f"error: {message}\n  hint: {fix}\n") == (
        answer.code, answer.out, answer.err.replace("  fix:", "  hint:"),
    )  # fmt: skip


def test_more_than_the_device_has(gpumap):
    """Told before anything is taken: two buffers and two back, the anchor's three of 1 MiB each."""
    answer = cost(gpumap.fake(script(memory=2**20)), sizes="1MiB")

    (first, second) = report(answer)["errors"]
    assert (
        answer.code, first["code"], second["code"],
    ) == (2, "too-much-memory", "too-much-memory")  # fmt: skip
    assert first["message"] == "cuda0 would need 7.0 MiB, and has 1.0 MiB free"


def real():
    """Return a map of each kind of real device here, or the reason why there is none."""
    yield pytest.param("dev0->cpu0", id="cpu")
    probe = load("pyopencl", here.HOST).probe()
    refs = [str(device.ref) for device in probe.devices if device.cores][:1]
    if refs:
        yield pytest.param(f"dev0->{refs[0]}", id="opencl")
    else:
        yield pytest.param("", id="opencl", marks=pytest.mark.skip(str(probe.reason)))


@pytest.mark.parametrize("map_", list(real()))
def test_real_devices(gpumap, map_):
    """Every byte is right, and every row of the memory that there is has its figures."""
    answer = cost(gpumap, "--budget", "1", sizes="small", map_=map_)

    found = report(answer)
    there = {"pageable", "mapped"} if "opencl" in map_ else {"pageable"}
    assert (answer.code, found["simulated"]) == (0, False)
    for row in timely(asked(found)):
        assert (
            (row["status"] == "ok")
            == (row["params"]["memory"] in there)
            == bool(row["check"] and row["check"]["passed"] and row["metrics"])
        )


def test_memory_that_is_not_to_be_had_is_a_skipped_row(gpumap):
    """Never another kind in its place: the row says why, and the rest is measured. Exit 0."""
    features = ["kernels", "pinned", "mapped"]
    fake = gpumap.fake(script(locked=8000, features=features))
    given = ("--sizes", "4KiB,16KiB", "--cases", "h2d", "--no-model", "--map", "a->cuda0")

    answer = fake("transfer-cost", *given, "--format", "json")
    text = fake("transfer-cost", *given).out

    rows = {
        (r["params"]["memory"], r["params"]["bytes"]): (r["status"], r["reason"])
        for r in asked(report(answer))
    }
    short = "host memory for 16385 bytes: the script locks at most 8000 bytes at a time"
    assert answer.code == 0
    assert rows == {
        **{(memory, 4096): ("ok", None) for memory in ("pageable", "pinned", "mapped")},
        ("pageable", 16384): ("ok", None),
        **{
            (memory, 16384): ("skipped", {"code": "no-host-memory", "text": f"no {memory} {short}"})
            for memory in ("pinned", "mapped")
        },
    }
    assert f"no pinned {short}" in text
    assert f"no mapped {short}" in text


def test_a_plan_of_nothing_is_no_pass(gpumap):
    """One name has no pair to copy between: exit 2, and what to do."""
    answer = cost(gpumap.fake(script()), "--cases", "d2d", map_="a->cuda0")

    assert answer.code == 2
    assert "nothing of what was asked for can be measured with this map" in answer.err
    assert "map a second name" in answer.err


def test_the_longest_budget_is_no_overflow(gpumap):
    """Ten times as much would be more than a timer takes."""
    answer = cost(gpumap.fake(script()), "--cases", "h2d", "--budget", "999999999", sizes="4KiB")

    assert answer.code == 0
    assert report(answer)["settings"]["timeout_s"] == 1e9


def test_a_plan_says_what_it_cannot_list(gpumap):
    """Break-evens are looked for after the rows, at sizes that depend on what is found."""
    plan = ("transfer-cost", "--dry-run", "--map", "a->cuda0", "--cases")
    both = gpumap.fake(script({}))(*plan, "affine,product")

    assert both.code == 0
    assert "note: affine and product are no rows: break-evens are looked for afterwards" in both.err
    assert "afterwards" not in gpumap(*plan, "h2d").err


def test_a_break_even_without_copies_says_what_it_needs(gpumap):
    """A second name would not help."""
    answer = gpumap.fake(script({}))(
        "transfer-cost", "--cases", "affine", "--no-model", "--map", "a->cuda0"
    )

    assert answer.code == 2
    assert "  fix: leave --no-model away, or ask for copies too\n" in answer.err
