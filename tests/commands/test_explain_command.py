"""`gpumap explain`: words of a report, looked up. The causes have tests/judge/test_explain.py."""

from __future__ import annotations

import json
import re

import pytest
from shell import Answer, on_a_terminal

from gpumap.doctor.pages import PAGES
from gpumap.judge.topics import KINDS, TOPICS, typed


def test_a_word_with_several_meanings(gpumap):
    """All of them are shown: nobody need know which one a report meant."""
    answer = gpumap("explain", "shared-silicon")

    heads = [line.partition(":")[0] for line in answer.out.splitlines() if line[:1].strip()]
    assert heads == ["cause shared-silicon", "flag shared-silicon", "code shared-silicon"]


def test_all_topics_are_listed_by_kind(gpumap):
    """One line each, under the heading of its kind."""
    answer = gpumap("explain")

    *groups, _ = answer.out.split("\n\n")
    shown = {}
    for group in groups:
        heading, *lines = group.split("\n")
        shown[heading] = [re.fullmatch(r"  (\S+) {2,}(\S.*)", line).groups() for line in lines]
    expected = {
        heading: [(typed(t), t.summary) for t in (*TOPICS, *PAGES) if t.kind == kind]
        for kind, heading in KINDS.items()
    }
    assert (answer.code, answer.err, shown) == (0, "", expected)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["spedup"], "did you mean speedup, stopped or skipped?"),
        (["serialisd"], "did you mean serialised or several?"),
        *(([word], "`gpumap explain` lists all topics") for word in ("qqq", "", "6", "\x1b[2J")),
    ],
)
def test_an_unknown_topic(gpumap, words, said):
    """Exit 2 with the nearest ones, and nothing on stdout; a known one beside it is not shown."""
    answer = gpumap("explain", "time", *words)

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith(f"  fix: {said}\n")
    assert answer.err.replace("\n", "").isprintable()


# --- formats


def test_json_of_all_topics(gpumap):
    """Without a topic it holds all of them, whole."""
    answer = gpumap("explain", GPUMAP_FORMAT="json")

    found = [(t["kind"], t["name"], t["text"]) for t in json.loads(answer.out)["topics"]]
    assert found == [(t.kind, t.name, t.text) for t in (*TOPICS, *PAGES)]


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_the_list_fits_every_terminal(gpumap, columns):
    """Each line in its width but for names that are longer; every name is there."""
    code, text = on_a_terminal(gpumap, "explain", columns=columns, NO_COLOR="1")

    lines = text.splitlines()
    assert code == 0
    assert [line for line in lines if len(line) > max(columns, 30)] == []
    assert {typed(topic) for topic in TOPICS} <= {word for line in lines for word in line.split()}


# --- completion


@pytest.mark.parametrize(
    ("begun", "shell", "offered"),
    [
        ("spee", "bash", "plain,speedup\nplain,speedup_over_one\nplain,speedup_over_host\n"),
        ("time", "bash", "plain,time\nplain,timeout\nplain,time-limit\n"),  # a name with a blank
        ("seria", "zsh", "plain\nserialised\nthe devices take turns\n"),
    ],
)
def test_a_shell_completes_topics(gpumap, begun, shell, offered):
    """What begins so, each word once, in the order of the list."""
    line = {"COMP_WORDS": f"gpumap explain {begun}", "COMP_CWORD": "2"}

    assert gpumap(_GPUMAP_COMPLETE=f"{shell}_complete", **line) == Answer(0, offered, "")
