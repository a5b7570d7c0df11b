"""`gpumap bench dot`: exact on scripted devices, verified on real ones, told whatever happens."""

import pytest
from scripts import RATE, asked, exact, figures, report, rows, script
from shell import SIMULATED

TWO = "a->cuda0;b->cuda1"
SIZE = 64
OPERATIONS = 2 * SIZE**3
SOLO = OPERATIONS / RATE
FETCH = 2.0**-10 + SIZE * SIZE * 4 / 2**24


def dot(gpumap, *arguments, size=SIZE, map_=TWO, **env):
    """Run `bench dot` with time for twenty blocks, and ask for JSON."""
    given = ("--size", str(size), "--map", map_, "--format", "json", "--budget", "12s", *arguments)
    return gpumap("bench", "dot", *given, **env)


def test_two_equal_devices_are_twice_as_fast(gpumap):
    """Time, rate, speed-up, ideal, efficiency and overlap of every case."""
    answer = dot(gpumap.fake(script()))

    found = report(answer)
    actual = {key: figures(row) for key, row in rows(found).items()}
    one, many = 2 * SOLO + 2 * FETCH, SOLO + 2 * FETCH
    gain, whole = one / many, {"ideal": 2, "overlap": 1}
    assert {
        ("solo", "a"): exact(time=SOLO, device_time=SOLO, rate=RATE),
        ("solo", "b"): exact(time=SOLO, device_time=SOLO, rate=RATE),
        ("one", "a"): exact(time=2 * SOLO, device_time=2 * SOLO, rate=RATE),
        ("many", "a+b"): exact(time=SOLO, rate=2 * RATE, speedup=2, efficiency=1, **whole),
        ("one+fetch", "a"): exact(time=one, device_time=2 * SOLO, rate=2 * OPERATIONS / one),
        ("many+fetch", "a+b"): exact(
            time=many, rate=2 * OPERATIONS / many, speedup=gain, efficiency=gain / 2,
            speedup_over_one=2 * SOLO / many, fetch=2 * FETCH, **whole,
        ),
        ("many+fetch+threads", "a+b"): exact(
            time=SOLO + FETCH, rate=2 * OPERATIONS / (SOLO + FETCH), speedup=2, efficiency=1,
            fetch=FETCH, **whole,
        ),
    } == actual  # fmt: skip
    assert (
        answer.code, found["status"], found["simulated"], answer.err,
    ) == (0, "ok", True, SIMULATED)  # fmt: skip
    assert {(27, "budget")} == {  # its half, the last look but one, came before 20 blocks
        (len(row["samples"]), row["stop"]["why"]) for row in found["measurements"]
    }
    assert all(row["check"]["passed"] for row in found["measurements"])


UNEQUAL = ({}, {"rate": RATE // 2})
GAIN = (2 * SOLO + 2 * FETCH) / (2 * SOLO + FETCH)


@pytest.mark.parametrize(("fake", "case", "expected"), [
    # an equal split of unequal devices gives 1.00, a balanced one would give 1.50
    (script(*UNEQUAL), "many", {"speedup": 1, "ideal": 1, "efficiency": 1, "ideal_balanced": 1.5}),
    # two fetches of one device against one beside each product
    (script(*UNEQUAL), "many+fetch+threads", {"speedup": GAIN, "ideal": GAIN, "efficiency": 1}),
    # one engine for both: the placement could do more, and the efficiency says so
    (script(engine="bus 0"), "many", {"speedup": 1, "ideal": 2, "efficiency": 0.5}),
], ids=["unequal", "fetches", "turns"])  # fmt: skip
def test_a_split_gains_what_its_devices_allow(gpumap, fake, case, expected):
    """Speed-up, what it could be, and the share of it that was reached."""
    found = report(dot(gpumap.fake(fake)))
    row = rows(found)[case, "a+b"]["metrics"]
    assert {name: row[name]["value"] for name in expected} == exact(**expected)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("--size", value) for value in ("0", "-1", "abc", "1e9")),
        *(("--cases", value) for value in ("two", "")),
        *(("--dtype", value) for value in ("int8", "float32,float64")),
        *(("--budget", value) for value in ("0", "-1")),
        ("--timeout", "abc"), ("--precision", "2"), ("--seed", "-1"), ("--format", "pdf"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(gpumap, option, value):
    """On stderr only; nothing was looked for."""
    answer = gpumap.fake(script())("bench", "dot", option, value)
    assert (answer.code, answer.out) == (2, "")
    assert value.partition(",")[0] in answer.err


@pytest.mark.parametrize("arguments", [("dott",), ("",), ("dot", "--cases", "many")])
def test_what_cannot_be_measured_at_all(gpumap, arguments):
    """No such benchmark, and a case that was asked for and would be skipped."""
    answer = gpumap("bench", *arguments, *(("--map", "a->cpu0") if arguments[1:] else ()))
    assert (answer.code, answer.out) == (2, "")


@pytest.mark.parametrize("map_", ["a->cpu0", "a->cpu0;b->cpu0"])
def test_too_much_memory_is_told_before_it_is_taken(gpumap, map_):
    """A million rows: exit 2, at once."""
    answer = dot(gpumap, size=1_000_000, map_=map_)
    assert answer.code == 2
    assert {"too-much-memory"} == {error["code"] for error in report(answer)["errors"]}


def test_an_element_type_that_the_device_has_not(gpumap):
    """NumPy's float16 is no product of a device; a script says what its devices lack."""
    answers = [
        dot(gpumap, "--dtype", "float16", map_="a->cpu0"),
        dot(gpumap.fake(script(features=["float64"])), "--dtype", "float16"),
    ]
    assert [answer.code for answer in answers] == [2, 2]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "tf32", "float64"])
def test_every_element_type_is_verified_against_its_own_rounding(gpumap, dtype):
    """The bound of a narrow type is wider, and a wrong product is wrong all the same."""
    good = report(dot(gpumap.fake(script()), "--dtype", dtype))
    bad = dot(gpumap.fake(script(fault="wrong-product")), "--dtype", dtype)
    assert good["exit_code"] == 0
    assert all(row["check"]["passed"] for row in good["measurements"])
    assert {row["params"]["dtype"] for row in asked(good)} == {dtype}
    assert bad.code == 4


@pytest.mark.parametrize("bench", ["dot", "chain"])
def test_the_reference_is_the_requested_name(gpumap, bench):
    """Also in a dry run; a name that the map does not have is exit 2."""
    gpumap.fake(script())

    def run(name, *more):
        words = ("--map", "a->cuda0;b->cuda1", "--reference", name, "--format", "json", *more)
        return gpumap("bench", bench, "--budget", "2s", *words)

    for found in (report(run("b")), report(run("b", "--dry-run"))):
        rows = [row for row in found["measurements"] if row["case"] in ("one", "fused")]
        assert rows
        assert all(row["names"] == ["b"] for row in rows)
    assert run("x\x1b[31m").code == 2
    assert "\x1b" not in run("x\x1b[31m").err
