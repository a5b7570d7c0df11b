"""What is said first of a program that was looked at: each verdict in words, none of them twice."""

import pytest

from gpumap.judge.programs import WHY, sentences
from gpumap.model import Use, Utilisation

GOOD = Use("dev0", "cuda:0", "used", busy=0.93)
LAYER = Use("a", "opencl:0:0", "used", kernels=100, waits=100, bytes_to_device=1 << 30,
            bytes_to_host=1 << 20)  # fmt: skip

WAITS = "The program waits after each call on a (100 waits)."


def said(*uses, elapsed=42.0):
    level, text = sentences(Utilisation(("x",), 0, elapsed, 400, 1.0, 0.0, 0, uses))
    return level, " ".join(text)


@pytest.mark.parametrize(
    ("uses", "level", "text"),
    [
        ([GOOD], "good", "The device was used: dev0 93 % of 42.0 s."),
        ([GOOD, Use("dev1", "cuda:1", "used", busy=0.91)], "good",
         "Both devices were used: dev0 93 %, dev1 91 % of 42.0 s."),
        ([GOOD, Use("dev1", "cuda:1", "not-used", busy=0.0)], "below",
         "dev1 was not used. dev0 was busy for 93 % of 42.0 s."),
        ([Use("dev0", "cuda:0", "used", busy=0.39), Use("dev1", "cuda:1", "not-used")], "below",
         "dev1 was not used. dev0 was idle for 61 % of 42.0 s."),
        ([Use("dev0", "cpu:0", "used", busy=0.3, foreign=0.6), Use("b", "cpu:1", "not-used")],
         "below", "b was not used. Other programs had 60 % of the time of dev0."),
        ([Use("dev0", "cuda:0", "used", busy=0.39)], "below",
         "The device was used: dev0 39 % of 42.0 s."),
        ([LAYER], "below", f"The device was used. {WAITS} 1.0 GiB went up, 1.0 MiB came down."),
        ([Use(f"dev{n}", f"cuda:{n}", "not-used") for n in range(8)], "below",
         "8 devices were not used."),
    ],
)  # fmt: skip
def test_the_answer_names_what_was_not_used_first(uses, level, text):
    assert said(*uses) == (level, text)


@pytest.mark.parametrize("why", sorted(WHY))
def test_what_cannot_be_told_says_why_and_never_not_used(why):
    unknown = Use("dev0", "cuda:0", "unknown", why, busy=0.4)
    level, text = said(GOOD, unknown)
    assert level == "untrusted"
    assert text == f"Cannot tell whether dev0 was used: {WHY[why]}. From outside: 40 % busy."
    level, text = said(unknown, Use("dev1", "cuda:1", "not-used"))
    assert level == "below"
    assert text.startswith("dev1 was not used. Cannot tell whether dev0 was used: ")
