"""The grammar of maps: what parses, what does not, and what is said about it."""

import re
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tables import table

from gpumap.backends import REGISTRY
from gpumap.errors import MapError, Span
from gpumap.kinds import KINDS, Kind
from gpumap.machine.fingerprint import VARIABLES
from gpumap.model import ContextMap, DeviceRef, Entry
from gpumap.parse import BLANKS, INDEX_MAX, canonical_identity, parse_map

TABLE = table(__file__)
CUDA, OPENCL, CPU = Kind.CUDA, Kind.OPENCL, Kind.CPU
UUID = "12345678-9abc-def0-1234-56789abcdef0"


def problems(text):
    with pytest.raises(MapError) as error:
        parse_map(text)
    assert error.value.text == text
    return error.value.diagnostics


def problem(text):
    (diagnostic,) = problems(text)
    return diagnostic


def pairs(found):
    """Return what a map says, wherever in its text it does."""
    return [(entry.name, entry.ref) for entry in found.entries]


@pytest.mark.parametrize(("device", "ref"), TABLE["devices_of"])
def test_each_form_of_a_device(device, ref):
    """A device of the grammar becomes its reference, and is written back as it was."""
    parsed, ref = parse_map(f"dev0->{device}"), DeviceRef(**ref | {"kind": Kind(ref["kind"])})
    assert (pairs(parsed), str(parsed)) == ([("dev0", ref)], f"dev0->{device}")


@pytest.mark.parametrize("kind", Kind)
def test_a_row_of_the_table_of_kinds_is_whole(kind):
    """Its example is a device of it; what hides its devices is in every report's variables."""
    row = KINDS[kind]
    assert kind.row is row
    assert parse_map(f"a->{row.example}").entries[0].ref.kind is kind
    assert set(row.backends) <= REGISTRY.keys() - {"fake"}
    assert set(row.pip) <= set(row.backends)
    assert {*row.hides, *row.reads, *(name for name, _ in row.alone)} <= set(VARIABLES)
    assert row.cores == (kind is Kind.CPU)
    for pattern, written, _ in row.spellings:  # each has as many numbers as what it becomes
        assert re.compile(pattern).groups == written.count("{}")


@pytest.mark.parametrize("name", TABLE["names"])
def test_a_name_is_any_printable_text_that_is_no_device(name):
    """Neither markup nor punctuation nor other scripts mean anything in a name."""
    parsed = parse_map(f"{name}->cuda0;x->cuda1")
    assert [name, "x"] == [entry.name for entry in parsed.entries]
    assert pairs(parse_map(str(parsed))) == pairs(parsed)


@pytest.mark.parametrize("blank", ["", *BLANKS, " \t\r\n  "])
def test_blanks_around_both_sides_are_dropped(blank):
    """They are no part of name, device or span, and are not written back."""
    text = blank.join(["", "a", "->", "cuda0", ";", "b", "->", "cpu", ""])
    parsed = parse_map(text)
    assert str(parsed) == "a->cuda0;b->cpu"
    assert parsed.text == text
    assert [text[e.span.start : e.span.stop] for e in parsed.entries] == [
        f"a{blank}->{blank}cuda0",
        f"b{blank}->{blank}cpu",
    ]


def test_an_inner_space_is_legal_with_a_note():
    """The name is kept; the note says what a shell makes of it."""
    parsed = parse_map("x->cpu0; my dev -> cuda0")
    (note,) = parsed.notes
    assert parsed.entries[1].name == "my dev"
    assert (note.code, note.entry, note.span, note.severity, note.name) == (
        "inner-space", 2, Span(9, 24), "note", "my dev",
    )  # fmt: skip


@pytest.mark.parametrize(("written", "canonical"), TABLE["identities"])
def test_identities_have_one_spelling(written, canonical):
    """NVML's eight-digit domain and capitals become what CUDA prints; twice changes nothing."""
    parsed = parse_map(f"a->cuda@{written}")
    assert DeviceRef(CUDA, identity=canonical) == parsed.entries[0].ref
    assert canonical_identity(canonical) == canonical


@pytest.mark.parametrize("device", [*TABLE["beyond"], *(f"cuda1{digit * 5000}" for digit in "09")])
def test_an_index_ends_at_65535(device):
    """One more is an error of its own; Python refuses to convert 5000 digits: all are not shown."""
    found = problem(f"a->{device}")
    assert (found.code, found.entry, found.span) == ("index-range", 1, Span(3, 3 + len(device)))
    assert len(found.message) < 110
    assert str(INDEX_MAX) in found.message


@pytest.mark.parametrize(("device", "hint"), TABLE["devices"])
def test_a_device_in_other_words(device, hint):
    """What other programs call a device is recognised; the hint ends in the fix."""
    text = f"dev0->{device}"
    found = problem(text)
    assert (found.code, found.span, found.hint) == ("unknown-device", Span(6, len(text)), hint)
    if ": write " in hint:
        parse_map(f"dev0->{hint.rpartition('write ')[2]}")


@pytest.mark.parametrize(("code", "entry", "hint"), TABLE["entries"])
def test_an_entry_has_one_arrow(code, entry, hint):
    """The hint has the whole entry, corrected, or the separator that it is, and that it is not."""
    found = problem(entry)
    assert (found.code, found.hint) == (code, hint)
    assert code == "two-arrows" or found.span == Span(0, len(entry))


@pytest.mark.parametrize(("text", "code", "entry", "start", "stop"), [
    *TABLE["places"],
    *((text, "empty-map", None, 0, len(text)) for text in ("", " ", "\t\r\n")),
    # a name that reads like a device would make a swapped entry parse
    *((f"a->cpu;{name}->cpu0", "reserved-name", 2, 7, 7 + len(name)) for name in TABLE["reserved"]),
    # escapes, marks, surrogates and NUL cannot be printed
    *((f"{name}->cuda0", "unprintable-name", 1, 0, len(name))
      for name in (*TABLE["unprintable"], "a\ud800b", "a\0b")),
    *((f"a->cuda@{identity}", "bad-identity", 1, 3, 8 + len(identity)) for identity in (
        *TABLE["misread"], UUID, f"gpu-{UUID}", f"GPU-{UUID[:-1]}", f"GPU-{UUID}0", "GPU-x")),
])  # fmt: skip
def test_a_problem_has_its_place(text, code, entry, start, stop):
    found = problem(text)
    assert (found.code, found.entry, found.span) == (code, entry, Span(start, stop))
    assert found.hint


@pytest.mark.parametrize(("text", "entry", "place", "where"), TABLE["empty"])
def test_an_empty_entry(text, entry, place, where):
    found = problem(text)
    assert (found.code, found.entry, found.span) == ("empty-entry", entry, Span(*place))
    assert found.message.endswith(where)


@pytest.mark.parametrize(("length", "shown"), [(80, "x" * 80), (81, "x" * 79 + "…")])
def test_a_message_has_80_characters_of_what_was_written(length, shown):
    assert problem(f"a->{'x' * length}").message == f'"{shown}" is not a device'


def test_every_problem_is_reported_in_the_order_of_the_entries():
    """One run reports everything to fix, also two problems of one entry."""
    found = problems("cuda0->gpu0;b;;a->cpu0;a->tpux;->cpu;->cpu")
    assert [(p.entry, p.code) for p in found] == [
        (1, "reserved-name"), (1, "unknown-device"), (2, "no-arrow"), (3, "empty-entry"),
        (4, "duplicate-name"), (5, "unknown-device"), (5, "duplicate-name"),
        (6, "empty-name"), (7, "empty-name"),
    ]  # fmt: skip


def test_a_name_twice_points_at_both():
    """Each place is a diagnostic of its own, which names the other: the first names the second."""
    found = problems("a->cuda0;b->cpu; a->cuda1;a->cpu1")
    assert {(p.code, p.name) for p in found} == {("duplicate-name", "a")}
    assert [(p.entry, p.span, p.message.split()[-2]) for p in found] == [
        (1, Span(0, 1), "3"), (3, Span(17, 18), "1"), (4, Span(26, 27), "1"),
    ]  # fmt: skip


PIECES = st.sampled_from([*TABLE["pieces"], f"GPU-{UUID}", "9" * 70, "\ud800", "\0"])
TEXT = st.text() | st.lists(PIECES, max_size=30).map("".join)


@given(text=TEXT)
@example(text=";" * 50 + " \n")
@example(text="a->cuda0;" + "\n" * 10)
def test_any_text_is_a_map_or_a_map_error(text):
    """A map that parses is written back; else each problem lies inside the text."""
    try:
        parsed = parse_map(text)
    except MapError as error:
        found = error.diagnostics
        assert found
    else:
        assert pairs(parse_map(str(parsed))) == pairs(parsed)
        assert str(parse_map(str(parsed))) == str(parsed)
        found = parsed.notes
    for diagnostic in found:
        assert 0 <= diagnostic.span.start <= diagnostic.span.stop <= len(text)
        assert len(diagnostic.message) + len(diagnostic.hint) < 2000


INDEX = st.integers(0, INDEX_MAX)
PCI = st.from_regex(r"(0000|[0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
                    fullmatch=True, alphabet="0123456789abcdef:.")  # fmt: skip
UUIDS = st.builds("{}{}".format, st.sampled_from(["GPU-", "MIG-"]), st.uuids())
REFS = (
    st.builds(partial(DeviceRef), st.just(CUDA), st.none() | INDEX)
    | st.builds(partial(DeviceRef), st.just(CUDA), identity=PCI | UUIDS)
    | st.builds(partial(DeviceRef), st.just(CPU), st.none() | INDEX)
    | st.builds(partial(DeviceRef), st.just(OPENCL), INDEX, INDEX, st.none() | INDEX)
    | st.builds(
        partial(DeviceRef), st.sampled_from((Kind.ROCM, Kind.XPU, Kind.TPU)), st.none() | INDEX
    )
    | st.just(DeviceRef(Kind.MPS))
)
NAMES = st.text(min_size=1).filter(
    lambda name: name.isprintable() and name == name.strip(" ") and "->" not in name
    and ";" not in name and not name.startswith(tuple(Kind))
)  # fmt: skip
ENTRIES = st.lists(st.builds(partial(Entry), NAMES, REFS), min_size=1, unique_by=lambda e: e.name)
BLANK = st.text(BLANKS, max_size=3)


@given(entries=ENTRIES, blanks=st.data())
def test_a_map_parses_to_what_it_was_written_from(entries, blanks):
    """Whatever the names, devices and blanks, nothing is lost and nothing is added."""
    padded = (f"{blanks.draw(BLANK)}{entry}{blanks.draw(BLANK)}" for entry in entries)
    made = ContextMap(tuple(entries))
    assert pairs(parse_map(";".join(padded))) == pairs(parse_map(str(made))) == pairs(made)


N = 100_000


def test_a_map_of_100000_entries_parses():
    """All of them, in order; what is no text is no map, in gpumap's words."""
    parsed = parse_map(";".join(f"dev{n}->cuda{n % 8}" for n in range(N)))
    assert len(parsed.entries) == N
    assert pairs(parsed)[-1] == (f"dev{N - 1}", DeviceRef(CUDA, (N - 1) % 8))
    for wrong in (5, None, b"dev0->cuda0", ["dev0->cuda0"]):
        with pytest.raises(MapError, match=f"^the map is {type(wrong).__name__}, not text"):
            parse_map(wrong)


@pytest.mark.parametrize(("text", "count", "code"), [
    (";" * N + " ", N + 1, "empty-entry"), ("a->cpu0;" * (N - 1) + "a->cpu0", N, "duplicate-name"),
    ("a->cuda" + "9" * 1_000_000, 1, "index-range"), ("a" * 1_000_000, 1, "no-arrow"),
    ("->" * 500_000, 1, "two-arrows"), (" " * 1_000_000, 1, "empty-map"),
    ("a->" + "gpu" * 300_000, 1, "unknown-device"),
])  # fmt: skip
def test_a_long_map_of_problems_reports_each(text, count, code):
    found = problems(text)
    assert (count, {code}) == (len(found), {p.code for p in found})
