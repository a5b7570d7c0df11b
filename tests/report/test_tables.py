"""Tables of rows, of copies between devices, and of reports side by side."""

from itertools import permutations

import pytest
from cases import driven
from judge.copy_rows import copy
from made_reports import bindings, case, copies, device, figure, listed, made, passed, skipped
from saved_reports import written

from gpumap import model
from gpumap.judge import answers
from gpumap.model import Binding, Explanation, Fingerprint, Reason, replace
from gpumap.model.io import read
from gpumap.report import Style
from gpumap.results import several
from gpumap.results.copies import matrix_tables
from gpumap.results.rows import tables
from gpumap.results.shown import render


@pytest.mark.parametrize(
    ("backends", "shown"), [(("cupy", "pygpu"), ("a (cupy)", "a (pygpu)")), (("cupy",), ("a",))]
)
def test_rows_of_several_backends_are_told_apart(backends, shown):
    report = copies()
    (fit,), (first, *calls) = report.fits, report.measurements
    calls[3] = replace(calls[3], status="skipped", reason=Reason("budget", "late"))
    fits, rows = (
        [replace(each, case=driven(each.case, backend)) for backend in backends for each in found]
        for found in ([fit], calls[:4])
    )
    report = replace(report, fits=tuple(fits), measurements=(first, *rows))
    (table,) = (t for t in tables(report, verbose=True) if t.title.startswith("break-even:"))
    assert tuple(row[table.columns.index("on")] for row in table.rows) == shown
    text = render("plain", report, Style(verbose=True))
    assert text.count("looked no further for lack of time") == 1


@pytest.mark.parametrize("fits", [True, False])
def test_copies_without_a_model_say_what_to_do(fits):
    report = copies()
    (fit,) = report.fits
    found = replace(fit, fits=fits)
    text = render("plain", replace(report, fits=(found,)), Style())
    assert ("no fit: neither one line nor two" in text) != fits


def test_one_case_in_one_group():
    one = case("one", bindings()[:1])
    plan = model.Plan((model.Group((one,)),), {"cuda:0": 1, "host": 2})
    said = render("plain", made(measurements=(skipped(one),), plans=(plan,)), Style())
    assert "plan: 1 case in 1 group, nothing measured" in said
    assert "memory: 1 B on cuda0\nmemory: 2 B on host\n" in said


def test_what_is_pasted_is_never_broken():
    report = listed()
    line = answers.check_line(report)
    assert len(line) > 20
    assert line in render("rich", report, Style(20)).splitlines()


def test_a_terminal_breaks_an_answer_between_words_and_a_pipe_does_not():
    report = passed()
    words = " ".join(["word"] * 30)
    report = replace(report, headline=replace(report.headline, text=words))
    assert render("plain", report, Style()).splitlines()[0] == words
    lines = render("rich", report, Style(40)).splitlines()
    first = [line for line in lines if line.startswith("word")]
    assert " ".join(first) == words
    assert max(map(len, first)) <= 40


def named(count):
    return [Binding(chr(97 + n) if n < 26 else f"n{n}", device(n)) for n in range(count)]


def pair(ends, rate=24.8e9, *, nbytes=400_000, route="peer", **more):
    return copy("d2d", ends, nbytes / rate, memory="device", nbytes=nbytes, route=route, **more)


def every(count, **more):
    return [pair(ends, **more) for ends in permutations(named(count), 2)]


def odd(row, text="a->b: 6.10 GB/s, its group 24.8 GB/s"):
    return replace(row, explanation=Explanation("odd-pair", text))


def shown(measurements, format_="plain", width=80, *, verbose=True):
    report = made(kind="transfer-cost", measurements=tuple(measurements))
    return render(format_, report, Style(width=width, color=False, verbose=verbose))


def test_a_device_with_itself_is_no_matrix():
    """Two names of one device are one pair, whose row says all; three of them have a matrix."""
    a, b = named(2)
    same = replace(b, device=a.device)
    names = [replace(binding, device=device(0)) for binding in named(3)]
    assert list(matrix_tables([pair((a, same), route="same")])) == []
    (table,) = matrix_tables([pair(ends, route="same") for ends in permutations(names, 2)])
    assert table.rows[0] == ("a", "-", "24.8=", "24.8=")
    assert table.remarks == ("=: in one device",)


def test_one_for_each_size_and_backend():
    """What is queued has another cost, and no matrix; pairs of two backends stand in one."""
    small, queued = every(2, nbytes=400), every(2, mode="queued")
    other = [replace(row, case=driven(row.case, "cupy")) for row in every(2)]
    mixed_rows = [replace(row, case=driven(row.case, "cupy", 0)) for row in every(2)]
    (mixed,) = matrix_tables(mixed_rows)
    found = matrix_tables([*every(2), *queued, *small, *other])
    sizes = ("400000 bytes, fake", "400 bytes, fake", "400000 bytes, cupy")
    titles = [f"device to device, {size}, sync: GB/s from row to column" for size in sizes]
    assert [table.title for table in found] == titles
    assert mixed.title.startswith("device to device, 400000 bytes, mixed, sync")


def test_what_was_not_measured_has_no_figure():
    a, b, c = named(3)
    reason = Reason("wrong-data", "byte 7 is wrong")
    failed = replace(pair((b, a)), status="failed", metrics={}, reason=reason, route=None)
    skipped = replace(pair((c, a)), status="skipped", metrics={}, reason=Reason("stopped", "x"))
    (table,) = matrix_tables([pair((a, b)), failed, skipped, pair((b, c), route=None)])
    assert table.rows == (("a", "-", "24.8P", "-"), ("b", "failed", "-", "24.8"),
                          ("c", "-", "-", "-"))  # fmt: skip
    assert list(matrix_tables([pair((a,)), pair((a, b, c))])) == []  # whoever wrote them
    (none,) = matrix_tables([replace(row, status="failed", metrics={}) for row in every(2)])
    assert [row[1:] for row in none.rows] == [("-", "failed"), ("failed", "-")]


def test_sixty_four_names_stay_readable():
    """Of more than 12 there is the range of all pairs; JSON has every one."""
    found = list(matrix_tables(every(64)))
    assert [(table.title, table.rows) for table in found] == [
        ("device to device, 400000 bytes, fake, sync", ())
    ]
    assert found[0].remarks == (
        "4032 of 4032 pairs measured",
        "median 24.8 GB/s, all from 24.8 to 24.8",
    )
    (table,) = matrix_tables(every(12))
    assert (len(table.rows), len(table.columns)) == (12, 13)


def test_odd_pairs_are_named_below():
    a, b = named(2)
    evil = replace(b, name="\x1b[2J")
    odd_rows = [odd(pair((a, evil))), odd(pair((a, evil), mode="queued"), "a->b: \x1b[2J")]
    text = shown([*odd_rows, pair((evil, a))])
    told = "\n  odd-pair, sync: a->b: 6.10 GB/s, its group 24.8 GB/s\n  odd-pair, queued: a->b: "
    assert f"{told}\\x1b[2J\n\n" in text
    assert text.count("its group") == 1
    assert "GB/s     a      \\x1b[2J" in text
    (table,) = matrix_tables([odd(row, f"{n}") for n, row in enumerate(every(5))])
    assert len(table.remarks) == 1 + 8 + 1
    assert table.remarks[-1].startswith("and 12 more of odd-pair")


@pytest.mark.parametrize(
    "name", ["->", "from->to", "rate", "<b>|x", "[red]x", "from\u2192to", "overlap"]
)
@pytest.mark.parametrize("format_", ["rich", "markdown"])
def test_no_name_is_taken_for_a_heading_or_markup(format_, name):
    """Columns are left out by their headings where there is no room: never a device's."""
    a, b = named(2)
    evil = replace(b, name=name)
    text = shown([pair((a, evil)), pair((evil, a), 6.1e9)], format_, width=60)
    assert "24.80P" in text
    assert "6.10P" in text
    third = replace(named(3)[2], name="n")
    rows = [pair(ends) for ends in permutations((a, evil, third), 2)]
    text = shown(rows, format_, width=40, verbose=False)
    assert text[text.index("device to device") :].count("24.8P") == 6


def dot():
    return read(written("dot").path)


def scaled(report, factor):
    rows = tuple(
        replace(row, metrics={k: figure(f.value * factor) for k, f in row.metrics.items()})
        for row in report.measurements
    )
    return replace(report, measurements=rows)


def beside(*reports):
    return several.table(
        [several.Saved(str(number), report) for number, report in enumerate(reports)]
    )


@pytest.mark.parametrize(("first", "factor", "end"), [
    (1.0, 2.0, "  x2.00"), (1.0, 0.123456, "  x0.123"), (1.0, 400.0, "  x400"),
    (0.0, 1.0, "]"), (1.0, float("inf"), "]"),  # to nothing, or of infinity, it says nothing
])  # fmt: skip
def test_a_ratio_is_to_the_first(first, factor, end):
    found = beside(scaled(dot(), first), scaled(dot(), factor))
    assert {row[3][-len(end) :] for row in found.rows} == {end}
    assert not any("  x" in row[2] for row in found.rows)


def test_a_row_that_a_report_does_not_have_has_no_cell():
    row, *rest = dot().measurements
    lost = replace(row, status="failed", metrics={}, reason=Reason("device-lost", "gone"))
    less, bad = (replace(dot(), measurements=each) for each in (tuple(rest), (lost, *rest)))
    (_, _, none, known, failed), *_ = [
        line for line in beside(less, dot(), bad).rows if line[0] == row.case.id
    ]
    assert (none, failed) == ("-", "failed")
    assert "  x" not in known


@pytest.mark.parametrize(("digits", "noted"), [("aa", False), ("ab", True), ("a ", False)])
def test_another_machine_is_seen(digits, noted):
    """By the fingerprint: than that of the first; who knows of one that does not say."""
    first, other = (machine(dot(), digit.strip()) for digit in digits)
    *_, one, two = beside(first, other).columns
    assert ("another machine" in one, "another machine" in two) == (False, noted)


def machine(report, digit):
    found = Fingerprint(f"sha256:{digit}", "CPU", 2, "Linux", "3.11", {}, (), {})
    return replace(report, fingerprint=found if digit else None)
