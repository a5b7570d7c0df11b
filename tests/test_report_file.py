"""A report's file: its nouns come back as they were, an edit is refused, and so is what is none."""

import json
import math
import os
from cProfile import Profile
from pstats import Stats

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from refusals import refusal
from report import made_reports
from report.made_reports import EVERY
from report_schema import validate
from saved_reports import signed, written
from tables import table

from gpumap import model
from gpumap.errors import SourceError
from gpumap.model import io, json_text, replace
from gpumap.parse import parse_map
from gpumap.report import Style
from gpumap.results.shown import render

TABLE = table(__file__)
AGAIN = "measure again with --output FILE.json"
ANY = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def put(tmp_path, content):
    path = tmp_path / "report.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def again(tmp_path, report):
    return io.read(put(tmp_path, io.written(report)))


def refused(path):
    found, start = refusal(SourceError, io.read, path), f"cannot read the report {path}: "
    assert found.message.startswith(start)
    assert AGAIN in found.hint or found.hint == "name a smaller file"
    return found.message.removeprefix(start)


@pytest.mark.parametrize("end", EVERY)
def test_the_nouns_come_back(tmp_path, end):
    """Equal to the last digit, and written again byte for byte, whatever the names are."""
    for names in (("a", "b"), ("\ud800\x1b[2J##[error]\u202e", "b\n|<i>")):
        report = EVERY[end](names)
        found = again(tmp_path, report)
        assert found == replace(report, version=found.version)
        assert repr(found) == repr(replace(report, version=found.version))
        assert io.written(found) == io.written(report)
        validate(json.loads(io.written(report)))
        assert io.written(report).replace("\n", "").isprintable()
        assert "##[" not in io.written(report)


def test_a_device_is_listed_once_and_is_the_same_noun(tmp_path):
    """What another library calls a device is a device of its own, behind those of the map."""
    report = made_reports.passed()
    one, many = report.measurements
    bound = tuple(
        model.Binding(b.name, replace(b.device, backend="other", driver="9"))
        for b in one.case.bindings
    )
    other = replace(one, case=replace(one.case, bindings=bound))
    found = again(tmp_path, replace(report, measurements=(one, many, other)))
    bindings = [binding for row in found.measurements for binding in row.case.bindings]
    assert [b.device.backend for b in bindings] == ["fake", "fake", "fake", "other"]
    assert found.measurements[2] == other
    assert found.devices == report.devices
    assert bindings[0].device is bindings[1].device
    tree = json.loads(io.written(replace(report, measurements=(one, many, other))))
    assert [each["driver"] for each in tree["other_devices"]] == ["9"]


@pytest.mark.parametrize("text", ["cpu", "rocm1", "cuda@0000:0a:00.0", "opencl0:12.3"])
def test_a_device_is_written_as_a_map_writes_it(text):
    ref = parse_map(f"a->{text}").entries[0].ref
    assert io.plain(ref) == text
    assert io.typed(text, model.DeviceRef) == ref


NUMBERS = st.floats() | st.integers(-(10**15), 10**15)


@ANY
@given(seconds=st.lists(NUMBERS, min_size=1), ends=st.tuples(NUMBERS, NUMBERS, NUMBERS))
def test_numbers_come_back_to_the_last_digit(tmp_path, seconds, ends):
    """Infinite ones, too, and what is no number: JSON has a word for each."""
    report = made_reports.copies()
    fit = replace(report.fits[0], residual=ends[0])
    row = report.measurements[0]
    taken = model.Samples(tuple(seconds), tuple(range(len(seconds))))
    report = replace(report, fits=(fit,), measurements=(replace(row, samples=taken),))
    tree = json.loads(io.written(report), parse_constant=pytest.fail)
    validate(tree)
    found = again(tmp_path, report)
    assert repr(found.fits[0].residual) == repr(ends[0])
    assert repr(found.measurements[0].samples) == repr(taken)


@ANY
@given(ends=st.lists(NUMBERS, min_size=3, max_size=3))
@example(ends=[1 / 7, 1 / 3, math.inf])
@example(ends=[-math.inf, 5.0, 9])
@example(ends=[2, math.inf, math.inf])
def test_a_figure_comes_back(ends):
    """With one end, with none, refused, or beyond all bounds; its kind of number, too."""
    low, value, high = sorted(ends)
    whole = model.Estimate(value, low, high, "1")
    without, refused_ = model.Estimate.without_interval(1, "s"), model.Estimate.refused("1")
    for figure in (without, refused_, *([whole] if one_word(whole) else ())):
        tree = json.loads(json.dumps(io.plain(figure), allow_nan=False))
        assert repr(io.typed(tree, model.Estimate)) == repr(figure)


def one_word(figure):
    """Return whether what JSON cannot hold in a figure is of one kind, as an estimate's is."""
    known = (figure.value, figure.low, figure.high)
    odd = {str(number) for number in known if not math.isfinite(number)}
    return len(odd) <= 1 or (not figure.has_interval and math.isfinite(figure.value))


def test_a_number_of_numpy_is_one():
    """What a backend has timed may come out of an array."""
    row = made_reports.passed().measurements[0]
    taken = replace(row.samples, seconds=(np.float64(0.5),))
    assert io.plain(replace(row, samples=taken), str)["samples"]["seconds"] == (0.5,)


def test_an_edit_of_any_key_is_seen(tmp_path):
    """But of those by which the file is known for a report that this gpumap reads."""
    tree = written("limit").tree
    for key in tree.keys() - {"tool", "schema_version"}:
        message = refused(put(tmp_path, tree | {key: "edited"}))
        assert (key, message) == (key, "it was edited after it was written")


def test_another_layout_is_no_edit_and_a_key_more_is_passed_over(tmp_path):
    """Within a version, keys may be added."""
    tree = written("dot").tree
    assert io.read(put(tmp_path, json.dumps(tree, sort_keys=True, indent=3)))
    found = tree["result"]
    found["measurements"] = [row | {"novel": {"deep": [1, None]}} for row in found["measurements"]]
    assert io.written(io.read(put(tmp_path, signed(tree)))) == written("dot").text


@pytest.mark.parametrize(("path", "value", "said"), TABLE["nouns"])
def test_nouns_that_no_gpumap_writes_are_refused_with_their_place(tmp_path, path, value, said):
    """Though the digest is right: a type, a closed list, a device."""
    tree = written("dot").tree
    place = tree
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    message = refused(put(tmp_path, signed(tree)))
    assert message.startswith(said)
    assert " - at `$." in message


@pytest.mark.parametrize("version", [0, 2, 4, -1, 3.0, True, "3", None, [3]])
def test_another_version_is_refused(tmp_path, version):
    """One message, for older ones too."""
    tree = written("dot").tree | {"schema_version": version}
    message = refused(put(tmp_path, signed(tree)))
    assert message == "this gpumap reads schema_version 3 alone; who wrote it reads it"


@pytest.mark.parametrize(("text", "message"), [
    *TABLE["no_report"],
    *((f"{start}{'[' * 1_000_000}", "its brackets are nested too deeply")
      for start in ("", '{"tool": {"name": "gpumap", "x": ')),
], ids=lambda text: text[:12])  # fmt: skip
def test_what_is_no_report_is_refused(tmp_path, text, message):
    """By what it is instead; where that has a place, with it."""
    assert refused(put(tmp_path, text)) == message


def test_what_would_take_all_memory_is_refused_unread(tmp_path, monkeypatch):
    """Of many values; and of 500 MB of nothing the size alone is looked at."""
    monkeypatch.setattr(json_text, "_VALUES", 1000)
    for list_ in ("[0" + ",0" * 1001 + "]", "[" + "[]," * 1001 + "0]"):
        message = refused(put(tmp_path, f'{{"tool": {list_}}}'))
        assert message == "it holds more than 1,000 values"
    os.truncate(tmp_path / "report.json", 500 * 2**20)
    assert refused(tmp_path / "report.json") == f"it is larger than {256 * 2**20} bytes"


def many_rows(n):
    report = io.read(written("dot").path)
    row = report.measurements[0]
    more = (
        replace(row, case=replace(row.case, params={**row.case.params, "size": size}))
        for size in range(1000, 1000 + n)
    )
    return replace(report, measurements=(*report.measurements, *more))


@pytest.mark.parametrize("format_", [None, "json", "plain", "rich"])
def test_the_work_grows_with_the_rows_and_no_faster(tmp_path, format_):
    """Reading and showing: each further row takes as many calls as those before it."""
    work = []
    for n in (1, 100, 200, 300):  # the first loads what it takes
        report = many_rows(n)
        path = put(tmp_path, io.written(report))
        action = (io.read, path) if format_ is None else (render, format_, report, Style(120))
        profile = Profile()
        profile.runcall(*action)
        work.append(Stats(profile).total_calls)
    assert work[3] - work[2] <= 1.1 * (work[2] - work[1])
