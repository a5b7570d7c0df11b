"""CUDA_VISIBLE_DEVICES in words: what is hidden though it is named, and what mends it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap.machine.cuda import Known, Mask, explain

A = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
B = "GPU-89aa0000-0000-0000-0000-000000000000"
PART = "MIG-c5b2f7a1-0000-0000-0000-000000000001"
TWO = Known(2, frozenset({A, B}))
CUT = Known(1, frozenset({A, PART, PART[:-1] + "2"}))
NOTHING = Known()
LATER = "names no device, so it and every later entry are hidden"
ALL = "names no device, so every device is hidden"


@pytest.mark.parametrize(("text", "known", "shown"), [
    (None, TWO, 2), ("0,1", TWO, 2), ("1, 0", TWO, 2), (" +1", TWO, 1), ("0,1,", TWO, 2),
    (f"{A},{B}", TWO, 2), ("GPU-8932", TWO, 1), ("gpu-8932F937", TWO, None), (PART, CUT, 1),
    (f"MIG-{A}/1/2", CUT, 1), ("0,1", NOTHING, 2), ("0,9", NOTHING, None),
    ("anything", TWO, 1),  # CUDA shows it, whatever was foretold
    ("0,0", TWO, 2),
    ("0", TWO, 0),  # NVML vouches for it: something else is wrong
    ("-1", Known(0, frozenset()), 0),  # there is nothing to hide
])  # fmt: skip
def test_a_variable_that_hides_nothing_it_names(text, known, shown):
    """No word is lost on a list that works, or that is not to blame."""
    assert explain(text, known, shown) is None


@pytest.mark.parametrize(("text", "known", "shown", "words"), [
    ("0,7,1", TWO, 1, f'entry 2 ("7") {LATER}'), ("0,7,1", TWO, None, f'entry 2 ("7") {LATER}'),
    ("0,7,1", NOTHING, 1, f'entry 2 ("7") {LATER}'),
    ("0,2,-1,1", Known(3), 2, f'entry 3 ("-1") {LATER}'),
    ("0,7", TWO, 1, 'entry 2 ("7") names no device'),
    ("0,2", TWO, 1, 'entry 2 ("2") names no device'),
    ("-1", TWO, 0, f'entry 1 ("-1") {ALL}'), ("-1", NOTHING, 0, f'entry 1 ("-1") {ALL}'),
    ("a", NOTHING, 0, f'entry 1 ("a") {ALL}'), (",0", NOTHING, 0, f'entry 1 ("") {ALL}'),
    ("9" * 5000, TWO, 0, f'entry 1 ("{"9" * 72}…") {ALL}'),
    ("0" * 20 + "7", TWO, 0, f'entry 1 ("{"0" * 20}7") {ALL}'),
    ("٣", TWO, 0, f'entry 1 ("٣") {ALL}'), ("7", NOTHING, 0, "CUDA finds no device in it"),
    ("GPU-nonexistent", TWO, 0, f'entry 1 ("GPU-nonexistent") {ALL}'),
    ("GPU-nonexistent", NOTHING, 0, "CUDA finds no device in it"),
    ("GPU-89", TWO, 0, 'entry 1 ("GPU-89") fits 2 devices, so every device is hidden'),
    ("0,0", TWO, 0, 'entries 1 and 2 ("0") are one device, which hides every device'),
    ("1,0,01", NOTHING, 0, 'entries 1 and 3 ("01") are one device, which hides every device'),
    (f"GPU-8932,{A}", TWO, 0, f'entries 1 and 2 ("{A}") are one device, which hides every device'),
    ("0,7,0", TWO, 1, f'entry 2 ("7") {LATER}'),  # the second 0 is not read any more
    ("7,0,0", TWO, 0, f'entry 1 ("7") {ALL}'),  # nor are those behind what names nothing
    ("7,0,0", TWO, None, f'entry 1 ("7") {ALL}'), ("0 1", TWO, 1, 'entry 1 ("0 1") is read as 0'),
    ("1gpu", NOTHING, 1, 'entry 1 ("1gpu") is read as 1'),
    ("0 1", TWO, 0, "CUDA finds no device in it"),
    ("0,1", TWO, 1, "CUDA shows 1 of these 2 devices"),
    (f"{PART},{PART[:-1]}2", CUT, 1,
     "CUDA shows 1 of these 2 devices: a process sees one MIG instance"),
    ("\x1b[2J\n", TWO, 0, f'entry 1 ("\\x1b[2J") {ALL}'),
])  # fmt: skip
def test_what_is_hidden_is_said(text, known, shown, words):
    """By NVIDIA's rules as far as NVML can judge the entries, and never against CUDA's count."""
    mask = explain(text, known, shown)
    assert mask is not None
    assert mask.reason.startswith("CUDA_VISIBLE_DEVICES=")
    assert mask.reason.endswith(f": {words}")
    assert mask.reason.isprintable()


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_an_empty_variable_hides_everything(text):
    assert explain(text, TWO, 0) == Mask(
        "CUDA_VISIBLE_DEVICES is empty: every device is hidden",
        "unset it; `nvidia-smi -L` lists the devices",
    )


@pytest.mark.parametrize(("text", "known", "shown", "fix"), [
    ("0,7,1", TWO, 1, "set CUDA_VISIBLE_DEVICES=0,1, or unset it"),
    ("0,0", TWO, 0, "set CUDA_VISIBLE_DEVICES=0, or unset it"),
    (f"{A},GPU-x,{B}", TWO, 1, f"set CUDA_VISIBLE_DEVICES={A},{B}, or unset it"),
    ("0,7,1", NOTHING, 1, "unset CUDA_VISIBLE_DEVICES, or name devices that are there"),
    ("-1", TWO, 0, "unset CUDA_VISIBLE_DEVICES, or name devices that are there"),
    (f"0,MIG-{A}/1/2,9", CUT, 2, "unset CUDA_VISIBLE_DEVICES, or name devices that are there"),
])  # fmt: skip
def test_the_fix_is_a_list_that_works_where_nvml_vouches_for_it(text, known, shown, fix):
    """What names nothing goes, what is named twice stays once; else it is not guessed."""
    mask = explain(text, known, shown)
    assert mask is not None
    assert mask.fix == f"{fix}; `nvidia-smi -L` lists the devices"


ENTRIES = st.lists(
    st.one_of(
        st.integers(-2, 5).map(str),
        st.sampled_from([A, B, PART, "GPU-89", "MIG-", "0 1", "0x1", "", " 1 ", f"MIG-{A}/1/0"]),
        st.text(max_size=8),
    )
)


@given(
    st.one_of(st.text(), ENTRIES.map(",".join)),
    st.sampled_from([NOTHING, TWO, CUT, Known(0, frozenset()), Known(3)]),
    st.one_of(st.none(), st.integers(0, 9)),
)
def test_no_text_breaks_it_and_none_reaches_a_terminal(text, known, shown):
    mask = explain(text, known, shown)
    assert mask is None or (mask.reason.isprintable() and mask.fix.isprintable())
