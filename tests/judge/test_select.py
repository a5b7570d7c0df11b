"""Selectors: which figures a text means, and what is said of a text that means none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_schema import SCHEMA

from gpumap.bench import allreduce, anchor, chain, dot, selftest, train, transfer
from gpumap.bench.model import fit_id
from gpumap.bench.workloads import WORKLOADS
from gpumap.errors import QuestionError
from gpumap.judge.select import EVERYWHERE, FAMILIES, UNITS, Selector, id_of, taken_apart
from gpumap.judge.topics import TOPICS
from gpumap.model import Binding, Case, Device, DeviceRef, Fit, Kind, Measurement, Work
from gpumap.report.diagnostics import render

METRICS = SCHEMA["$defs"]["metrics"]["properties"]
NAMES = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=";"), min_size=1)
KEYED = st.dictionaries(st.sampled_from(("memory", "mode", "pattern")), st.sampled_from("xyz"))
COPY = {"bytes": 400, "size_name": "small", "memory": "pinned", "mode": "sync", "pattern": "alone"}


def case(bench="dot", name="many", *names, ordered=False, **params):
    """Return a case on devices of these names."""
    device = Device("fake:0", Kind.CUDA, DeviceRef(Kind.CUDA, 0), "Fake", "fake")
    bindings = tuple(Binding(each, device) for each in names or ("a", "b"))
    return Case(bench, name, params or {"size": 64}, bindings, Work(), ordered=ordered)


def row(*arguments, **keywords):
    """Return a row that was measured."""
    return Measurement(case(*arguments, **keywords), "ok")


def fit(name="h2d", **params):
    """Return the model of the ladder that a case is of."""
    of = case("transfer", name, "a", **({**COPY, "pattern": "ladder"} | params))
    return Fit(fit_id(of), of, True, 1, (64,), 0.0, None, {}, ())  # noqa: FBT003 - a model's fields


# --- what is meant


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("dot.many.speedup", "dot.many.speedup"),
        ("dot.many+fetch+threads.time", "dot.many+fetch+threads.time"),
        ("dot.many[size=1024].speedup", "dot.many[size=1024].speedup"),
        (
            " dot . many [ size = 1024 , names = a+b ] . time\n",
            "dot.many[size=1024,names=a+b].time",
        ),
        ("dot.many[].time", "dot.many.time"),
        ("transfer.d2d[names=a>b].time", "transfer.d2d[names=a>b].time"),
        ("transfer.h2d[bytes=4KiB].time", "transfer.h2d[bytes=4096].time"),
        ("transfer.h2d.latency", "transfer.h2d.latency"),
        ("transfer.h2d.fit[memory=pinned].latency", "transfer.h2d[memory=pinned].latency"),
        ("transfer.affine[resident=true].from_bytes", "transfer.affine[resident=true].from_bytes"),
        ("dot.solo[name=my gpu].rate", "dot.solo[name=my gpu].rate"),
        ("anchor.product.time", "anchor.product.time"),
    ],
)
def test_a_selector_is_bench_case_keys_and_metric(text, canonical):
    """Blanks around the parts are no part of them; written again it means the same."""
    found = Selector.parse(text)

    assert canonical == str(found)
    assert found == Selector.parse(canonical)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("dot.many.speedup", True),
        ("dot.many[size=64].speedup", True),
        ("dot.many[size=64,names=a+b,backend=fake].speedup", True),
        ("dot.many[size=6].speedup", False),
        ("dot.many[names=a].speedup", False),
        ("dot.many[names=b+a].speedup", False),
        ("dot.many[name=a].speedup", False),
        ("dot.many[dtype=float32].speedup", False),  # the row does not say
        ("dot.many+fetch.speedup", False),
        ("dot.one.rate", False),
        ("selftest.a.time", False),
    ],
)
def test_bench_and_case_are_exact_and_any_keys_will_do(text, meant):
    """What the selector does not name may be anything."""
    assert Selector.parse(text).matches(row()) is meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("transfer.h2d[size_name=small].time", True),
        ("transfer.h2d[size_name=large].time", False),
        ("transfer.h2d[bytes=400].time", True),
        ("transfer.h2d[bytes=0.4kB].time", True),
        ("transfer.h2d[bytes=4KiB].time", False),
        ("transfer.h2d[memory=pinned,mode=sync,pattern=alone].time", True),
    ],
)
def test_a_size_has_a_name_and_a_unit(text, meant):
    """An id has bytes alone."""
    assert Selector.parse(text).matches(row("transfer", "h2d", "a", **COPY)) is meant


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("dev0", ["name=dev0", "names=dev0"]),
        ("my gpu", ["name=my gpu", "names=my gpu"]),
        ("a+b", ["name=a+b", "name=a%2bb", "names=a%2bb"]),
        ("a>b", ["name=a>b", "names=a%3eb"]),
        ("50%", ["name=50%", "name=50%25", "names=50%25"]),
    ],
)
def test_a_name_selects_what_runs_on_it_alone(name, texts):
    """As the map writes it, or as ids do; who runs on it beside another is another row."""
    alone, both = row("dot", "solo", name), row("dot", "solo", name, "b")

    for text in texts:
        selector = Selector.parse(f"dot.solo[{text}].time")
        assert (selector.matches(alone), selector.matches(both)) == (True, False)


@given(NAMES)
def test_every_name_is_selected_as_ids_write_it(name):
    """Whatever a map may call a device."""
    made = row("dot", "solo", name)
    written = taken_apart(made.case.id)[1]["names"]

    for key in ("name", "names"):
        assert Selector.parse(f"dot.solo[{key}={written}].time").matches(made)


@given(KEYED, KEYED)
def test_more_keys_select_fewer_rows(has, more):
    """A row's own keys select it; another value of one, or one it does not have, never does."""
    params = {"bytes": 1, **has}
    made = row("transfer", "h2d", "a", **params)
    keys = ",".join(f"{key}={value}" for key, value in {**has, **more}.items())

    meant = all(has.get(key) == value for key, value in more.items())
    assert Selector.parse(f"transfer.h2d[{keys}].time").matches(made) is meant


def test_the_ladder_is_selected_by_its_pattern_alone():
    """Who asks for the time of copies does not mean those behind the model."""
    ladder = row("transfer", "h2d", "a", **{**COPY, "pattern": "ladder"})

    assert not Selector.parse("transfer.h2d.time").matches(ladder)
    assert not Selector.parse("transfer.h2d[bytes=400].time").matches(ladder)
    assert Selector.parse("transfer.h2d[pattern=ladder].time").matches(ladder)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("transfer.h2d.latency", True),
        ("transfer.h2d[memory=pinned,name=a].peak_bandwidth", True),
        ("transfer.h2d[memory=pageable].latency", False),
        ("transfer.d2h.latency", False),
        ("transfer.h2d.time", False),
        ("transfer.h2d[pattern=ladder].time", False),
    ],
)
def test_a_metric_of_the_model_selects_models(text, meant):
    """And no row of copies, as their metrics select no model."""
    selector = Selector.parse(text)

    assert selector.matches(fit()) is meant
    assert not (meant and selector.matches(row("transfer", "h2d", "a", **COPY)))


def test_true_is_how_a_switch_is_written():
    """Whether an id has a word or Python's own."""
    for resident in (True, "true"):
        made = row("transfer", "affine", "a", resident=resident)
        assert Selector.parse("transfer.affine[resident=true].from_bytes").matches(made)
        assert not Selector.parse("transfer.affine[resident=false].from_bytes").matches(made)


def test_ids_are_taken_apart():
    """Bench, case and keys; a row without keys has none."""
    assert taken_apart("dot.solo[names=a%2cb,size=64]") == (
        "dot.solo", {"names": "a%2cb", "size": "64"},
    )  # fmt: skip
    assert taken_apart("x.y[]") == ("x.y", {})
    assert id_of(fit()) == fit().id


# --- what is not


WRITE = "  fix: write it as dot.many.speedup or dot.many[size=1024].speedup\n"
BENCHES = "there are dot, transfer, chain, allreduce, bind, train, selftest, anchor\n"
CASES = "there are solo, one, many, one+fetch, many+fetch, many+fetch+threads\n"
LAST = (
    "there are time, rate, speedup, speedup_over_one, efficiency, ideal, ideal_balanced, overlap, "
    "fetch, device_time\n"
)
KEYS = "there are size, dtype, backend, names, name\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"bench, case and metric have dots between\n{WRITE}"),
        ("speedup", f"bench, case and metric have dots between\n  speedup\n  ^~~~~~~\n{WRITE}"),
        ("dot.many", f'"dot" has no case\n  dot.many\n  ^~~\n{WRITE}'),
        (
            "dott.many.time",
            (
                'no benchmark is called "dott"\n  dott.many.time\n  ^~~~\n  fix: write dot; '
                f"{BENCHES}"
            ),
        ),
        (
            "dot.mny.time",
            f'dot has no case "mny"\n  dot.mny.time\n      ^~~\n  fix: write many; {CASES}',
        ),
        (
            "dot.many.fit.time",
            (
                'dot has no case "many.fit"\n  dot.many.fit.time\n      ^~~~~~~~\n'
                f"  fix: write many+fetch; {CASES}"
            ),
        ),
        (
            "dot.many.qqqq",
            f'dot.many has no metric "qqqq"\n  dot.many.qqqq\n           ^~~~\n  fix: {LAST}',
        ),
        (
            "transfer.h2d[bytes=1].latency",
            (
                'no row has a key "bytes"\n  transfer.h2d[bytes=1].latency\n               ^~~~~\n'
                "  fix: there are memory, mode, pattern, backend, names, name\n"
            ),
        ),
        (
            "dot.many[size].time",
            f'"size" is not key=value\n  dot.many[size].time\n           ^~~~\n{WRITE}',
        ),
        (
            "dot.many[size=].time",
            f"size has no value\n  dot.many[size=].time\n                ^\n{WRITE}",
        ),
        (
            "dot.many[size=4,size=5].time",
            (
                "size stands twice\n  dot.many[size=4,size=5].time\n                  ^~~~\n"
                f"{WRITE}"
            ),
        ),
        (
            "dot.many[size=4",
            f'no "]" follows "["\n  dot.many[size=4\n          ^~~~~~~\n{WRITE}',
        ),
        (
            "dot.many[size=4]",
            f'no ".METRIC" follows "]"\n  dot.many[size=4]\n                 ^\n{WRITE}',
        ),
        (
            "transfer.h2d[bytes=1K].time",
            (
                "'1K' can mean two sizes: write 1KiB or 1kB\n  transfer.h2d[bytes=1K].time\n"
                "                     ^~\n"
            ),
        ),
        (
            "dot.many.time>=1s",
            f'">=1s" is left over\n  dot.many.time>=1s\n               ^~~~\n{WRITE}',
        ),
    ],
)  # fmt: skip
def test_what_means_nothing_is_said_with_its_place(text, said):
    """And with what there is."""
    with pytest.raises(QuestionError) as error:
        Selector.parse(text)

    assert f"error: {said}" == render(error.value.diagnostics, text)


def test_a_wrong_key_and_a_wrong_metric_are_said_at_once():
    """Who mends one need not come back for the other."""
    with pytest.raises(QuestionError) as error:
        Selector.parse("dot.many[sizes=4,x=y].tim")

    hints = [diagnostic.hint for diagnostic in error.value.diagnostics]
    assert hints == [f"write size; {KEYS}"[:-1], KEYS[:-1], f"write time; {LAST}"[:-1]]


def refused(text):
    """Return what is said of a text; nothing of one that is a selector."""
    try:
        Selector.parse(text)
    except QuestionError as error:
        return error.diagnostics
    return ()


@given(st.text() | st.text("dot.many[size=1,]<> \x1b\u202e\ud800"))
def test_any_text_is_a_selector_or_a_question(text):
    """Each diagnostic has its place inside the text, and nothing that a terminal acts on."""
    found = refused(text)

    assert all(0 <= d.span.start <= d.span.stop <= len(text) for d in found)
    assert render(found, text).replace("\n", "").isprintable()


@pytest.mark.parametrize("shape", ["{}", "dot.{}.time", "dot.many[{}].time", "dot.many[size={}].x"])
def test_a_long_text_is_not_shown_whole(shape):
    """Its place is shown by the caret, with a little around it."""
    found = refused(shape.format("x," * 20_000))

    assert found
    assert all(len(diagnostic.message) < 100 for diagnostic in found)


# --- the table of rows


@pytest.mark.parametrize(
    ("bench", "cases"),
    [
        (dot.KEY, set(dot.CASES)),
        (transfer.KEY, {*transfer.CASES, *WORKLOADS}),
        (chain.KEY, set(chain.CASES)),
        (allreduce.KEY, set(allreduce.ALGORITHMS)),
        (train.KEY, set(train.CASES)),
        (selftest.KEY, {"a", "b"}),
        (anchor.KEY, {"product"}),
    ],
)
def test_the_table_has_every_case_of_a_benchmark(bench, cases):
    """A case that nobody could set a limit on, or one that does not exist, is a bug."""
    assert cases == {case for family in FAMILIES if family.bench == bench for case in family.cases}


def test_every_metric_has_the_unit_of_the_schema():
    """And stands in the table where some benchmark has it."""
    units = {name: METRICS[name]["$ref"].rpartition("/")[2] for name in UNITS}
    words = {
        "second": "s",
        "flop": "FLOP/s",
        "byte_rate": "B/s",
        "one": "1",
        "byte": "B",
        "per_second": "1/s",
    }

    assert {name: words[unit] for name, unit in units.items()} == UNITS
    assert set(UNITS) == {metric for family in FAMILIES for metric in family.metrics}
    assert set(UNITS) <= {topic.name for topic in TOPICS if topic.kind == "metric"}


def test_a_case_and_a_metric_are_of_one_family():
    """So a selector never means rows of two shapes."""
    every = [(f.bench, case, metric) for f in FAMILIES for case in f.cases for metric in f.metrics]

    assert len(every) == len(set(every))
    assert not {key for family in FAMILIES for key in family.keys} & set(EVERYWHERE)
