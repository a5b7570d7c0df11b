"""`gpumap explain`: words of a report, looked up; causes: tests/judge/test_bottlenecks.py."""

import json

import pytest
from shell import on_a_terminal

from gpumap.doctor.diagnose import pages
from gpumap.explain import table, typed

# --- formats


def test_json_of_all_topics(gpumap):
    """Without a topic it holds all of them, whole."""
    answer = gpumap("explain", GPUMAP_FORMAT="json")
    found = [(t["kind"], t["name"], t["text"]) for t in json.loads(answer.out)["topics"]]
    assert found == [(t.kind, t.name, t.text) for t in (*table(), *pages())]


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_the_list_fits_every_terminal(gpumap, columns):
    """Each line in its width but for names that are longer; every name is there."""
    code, text = on_a_terminal(gpumap, "explain", columns=columns, NO_COLOR="1")
    lines = text.splitlines()
    assert code == 0
    assert [line for line in lines if len(line) > max(columns, 30)] == []
    assert {typed(topic) for topic in table()} <= {word for line in lines for word in line.split()}
