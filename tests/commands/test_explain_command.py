"""`gpumap explain`: words of a report, looked up. The causes have tests/judge/test_explain.py."""

from __future__ import annotations

import json
import re

import pytest
from shell import COLOURS, Answer, on_a_terminal

from gpumap.doctor.pages import PAGES
from gpumap.judge.topics import KINDS, TOPICS, typed

NARROW = """\
cause serialised: the devices take turns
  They are distinct, and yet less than
  half of their time was spent together:
  a driver that works inside the call,
  or a lock, lets one in at a time. The
  figure is `overlap`. Of copies: the
  host hands them over one after the
  other, and its `calls` make up most of
  the `time` beyond that of the slowest
  copy.
  fix: try another --backend, or one
    process for each device; with
    fetches look at the case
    `many+fetch+threads`
"""


def test_an_exit_code_is_a_number(gpumap):
    """As a shell shows it."""
    answer = gpumap("explain", "1")

    assert (answer.code, answer.out.partition(":")[0], answer.err) == (0, "exit code 1", "")


def test_a_word_with_several_meanings(gpumap):
    """All of them are shown: nobody need know which one a report meant."""
    answer = gpumap("explain", "shared-silicon")

    heads = [line.partition(":")[0] for line in answer.out.splitlines() if line[:1].strip()]
    assert heads == ["cause shared-silicon", "flag shared-silicon", "code shared-silicon"]


def test_all_topics_are_listed_by_kind(gpumap):
    """One line each, under the heading of its kind."""
    answer = gpumap("explain")

    *groups, last = answer.out.split("\n\n")
    shown = {}
    for group in groups:
        heading, *lines = group.split("\n")
        shown[heading] = [re.fullmatch(r"  (\S+) {2,}(\S.*)", line).groups() for line in lines]
    expected = {
        heading: [(typed(t), t.summary) for t in (*TOPICS, *PAGES) if t.kind == kind]
        for kind, heading in KINDS.items()
    }
    assert (answer.code, answer.err) == (0, "")
    assert expected == shown
    assert last == "`gpumap explain TOPIC` says more of each, and what to do\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["spedup"],
            'no topic is called "spedup"\n  fix: did you mean speedup, stopped or skipped?',
        ),
        (
            ["serialisd"],
            'no topic is called "serialisd"\n  fix: did you mean serialised or several?',
        ),
        (["qqq"], 'no topic is called "qqq"\n  fix: `gpumap explain` lists all topics'),
        ([""], 'no topic is called ""\n  fix: `gpumap explain` lists all topics'),
        (["6"], 'no topic is called "6"\n  fix: `gpumap explain` lists all topics'),
        (
            ["\x1b[2J"],
            'no topic is called "\\x1b[2J"\n  fix: `gpumap explain` lists all topics',
        ),
    ],
)
def test_an_unknown_topic(gpumap, words, said):
    """Exit 2 with the nearest ones, and nothing on stdout."""
    assert Answer(2, "", f"error: {said}\n") == gpumap("explain", *words)


def test_every_unknown_topic_is_named_at_once(gpumap):
    """A known one beside them is not shown: the question is wrong."""
    answer = gpumap("explain", "time", "qqq", "zzz", "qqq")

    named = re.findall('error: no topic is called "(.*)"', answer.err)
    assert (answer.code, answer.out, named) == (2, "", ["qqq", "zzz"])


# --- formats


def test_json(gpumap):
    """The table as data."""
    answer = gpumap("explain", "3", "n", "--format", "json")

    (three, n) = json.loads(answer.out)["topics"]
    assert (answer.code, answer.err) == (0, "")
    assert list(three) == ["name", "kind", "summary", "text", "fix"]
    assert (three["name"], three["kind"]) == ("3", "exit code")
    assert n["fix"] is None


def test_json_of_all_topics(gpumap):
    """Without a topic it holds all of them, whole."""
    answer = gpumap("explain", GPUMAP_FORMAT="json")

    found = [(t["kind"], t["name"], t["text"]) for t in json.loads(answer.out)["topics"]]
    assert found == [(t.kind, t.name, t.text) for t in (*TOPICS, *PAGES)]


def test_markdown(gpumap):
    """A page, with the kinds as headings."""
    answer = gpumap("explain", "n", "--format", "markdown")

    assert (
        Answer(
            0,
            "## Columns of the tables that are no metric\n\n"
            "### `n`: the number of samples\n\n"
            "One for each block, with (few) beside 6 to 19. Correlated ones are worth fewer: "
            "`effective_n` in JSON.\n",
            "",
        )
        == answer
    )


def test_a_narrow_terminal_wraps_and_breaks_no_option(gpumap):
    """In 40 columns; the colours are rich's, and nothing is markup."""
    code, text = on_a_terminal(gpumap, "explain", "serialised")

    assert (code, COLOURS.sub("", text)) == (0, NARROW)
    assert "\x1b[1m" in text


def test_markup_is_not_interpreted(gpumap):
    """Brackets in a text are its own."""
    code, text = on_a_terminal(gpumap, "explain", "rc-section", columns=200)

    assert code == 0
    assert "fix: move it to the section [global]\n" in COLOURS.sub("", text)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200])
def test_the_list_fits_every_terminal(gpumap, columns):
    """Each line in its width but for names that are longer; every name is there."""
    code, text = on_a_terminal(gpumap, "explain", columns=columns, NO_COLOR="1")

    lines = text.splitlines()
    assert code == 0
    assert [line for line in lines if len(line) > max(columns, 30)] == []
    assert {typed(topic) for topic in TOPICS} <= {word for line in lines for word in line.split()}


def test_a_dumb_terminal_gets_plain_text(gpumap):
    """As a pipe does."""
    assert on_a_terminal(gpumap, "explain", "serialised", TERM="dumb") == (
        0,
        gpumap("explain", "serialised").out,
    )


# --- completion


def completed(gpumap, begun, shell="bash"):
    """Return what a shell would offer."""
    line = f"gpumap explain {begun}"
    env = {"_GPUMAP_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": "2"}
    return gpumap(**env)


def test_a_shell_completes_topics(gpumap):
    """What begins so, each word once, in the order of the list."""
    expected = "plain,speedup\nplain,speedup_over_one\nplain,speedup_over_host\n"

    assert Answer(0, expected, "") == completed(gpumap, "spee")


def test_a_shell_is_offered_one_word_for_each_topic(gpumap):
    """Also for a name with a blank."""
    answer = completed(gpumap, "time")

    assert Answer(0, "plain,time\nplain,timeout\nplain,time-limit\n", "") == answer


def test_zsh_gets_the_lines_too(gpumap):
    """The line of the first meaning."""
    answer = completed(gpumap, "seria", "zsh")

    assert Answer(0, "plain\nserialised\nthe devices take turns\n", "") == answer
