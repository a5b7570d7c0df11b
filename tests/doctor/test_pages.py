"""Every cause has a page, by `gpumap explain`."""

import pytest

from gpumap.doctor.diagnose import pages, table


def test_a_cause_is_found_by_its_code_and_its_word():
    words = {word: c.code for c in table().values() for word in (c.code, c.code.lower(), c.key)}
    assert [w for w, code in words.items() if code not in {p.name for p in pages(w)}] == []


def test_a_page_names_a_fix():
    """Nothing stands beside it there: no template, and no word of a fix that is elsewhere."""
    templates = {"FIX", '"ENTRY"THEANO', '"MAP"THEANO'}
    assert [page.name for page in pages() if not page.fix or "beside it" in page.fix] == []
    assert [page.name for page in pages() if set(page.fix.split()) & templates] == []


@pytest.mark.parametrize(("word", "count"), [("GM", len(table())), ("GM9", 0), ("", 0), ("M1", 0)])
def test_a_part_of_a_code_finds_a_group(word, count):
    assert len(pages(word)) == count
