"""Every cause has a page: by `gpumap explain`, and in docs/causes.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpumap.doctor.causes import TABLE
from gpumap.doctor.pages import PAGES, document, pages


def test_the_document_is_made_from_the_table():
    """`make docs/causes.md` writes it."""
    stored = Path(__file__).parents[2] / "docs" / "causes.md"

    assert stored.read_text(encoding="utf-8") == document()


@pytest.mark.parametrize("cause", TABLE, ids=lambda cause: cause.code)
def test_a_cause_is_found_by_its_code_and_its_word(cause):
    """In capitals or not."""
    for word in (cause.code, cause.code.lower(), cause.key):
        assert cause.code in [page.name for page in pages(word)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_a_fix(page):
    """Nothing stands beside it there: no template, and no word of a fix that is elsewhere."""
    assert page.fix
    assert "beside it" not in page.fix
    assert not set(page.fix.split()) & {"FIX", '"ENTRY"THEANO', '"MAP"THEANO'}


@pytest.mark.parametrize(("word", "count"), [("GM", len(PAGES)), ("GM9", 0), ("", 0), ("M1", 0)])
def test_a_part_of_a_code_finds_a_group(word, count):
    """GM has all of them."""
    assert len(pages(word)) == count
