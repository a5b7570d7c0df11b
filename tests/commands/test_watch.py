"""`gpumap watch [MAP] -- COMMAND`: any program, looked at from outside."""

import sys

import pytest
from flat_report import loads
from ranks import ALLOWED, two_cores
from scripts import script
from tables import table

TEXTS = table(__file__)
ONE, WORKS = (TEXTS[name].replace("CORE", str(ALLOWED[0])) for name in ("one", "works"))


def watched(gpumap, code, *options, map_="dev0->cpu0;dev1->cpu1"):
    command = [map_, *options, "--output", "r.json", "--", sys.executable, "-c", code]
    return gpumap("watch", *command), loads((gpumap.folder / "r.json").read_text())


def verdicts(report):
    return {use["name"]: use["verdict"] for use in report["utilisation"]["uses"]}


@two_cores
def test_a_program_that_uses_one_of_two_cores(gpumap):
    answer, report = watched(gpumap, ONE)
    assert (answer.code, report["exit_code"]) == (0, 0)
    assert answer.out.startswith("dev1 was not used. ")
    assert report["headline"]["level"] == "below"
    assert verdicts(report) == {"dev0": "used", "dev1": "not-used"}
    first, second = report["utilisation"]["uses"]
    assert first["busy"] > second["busy"]


@two_cores
def test_expect_used_makes_code_0_a_1_and_no_other(gpumap):
    answer, report = watched(gpumap, ONE, "--expect-used")
    assert (answer.code, report["errors"][0]["code"]) == (1, "not-used")
    assert "error: dev1 was not used" in answer.err
    answer, report = watched(gpumap, f"{ONE}\nsys.exit(7)", "--expect-used")
    assert answer.code == 7
    assert (report["exit_code"], report["utilisation"]["code"]) == (1, 7)


def test_expect_used_is_inconclusive_where_use_is_unknown(gpumap):
    """No look tells what is done on a device without an address."""
    gpumap.fake(script())
    command = ["watch", "a->cuda0", "--backend", "fake", "--expect-used", "--", "true"]
    assert gpumap(*command).code == 5


@pytest.mark.parametrize(("end", "code", "said"), TEXTS["ended_badly"])
def test_what_was_recorded_of_a_program_that_ended_badly_is_whole(gpumap, end, code, said):
    answer, report = watched(gpumap, f"{WORKS}{end}", map_="dev0->cpu0")
    assert answer.code == code
    assert answer.out.startswith(f"The program {said} after ")
    assert verdicts(report) == {"dev0": "used"}
    assert report["utilisation"]["cpu_s"] >= 0.5
    assert report["headline"]["level"] == "failed"


@pytest.mark.parametrize("start", TEXTS["starts"].values(), ids=TEXTS["starts"])
def test_what_a_program_starts_is_the_programs(gpumap, start):
    answer, report = watched(gpumap, start, map_="all->cpu")
    assert (answer.code, verdicts(report)) == (0, {"all": "used"})
    assert report["utilisation"]["cpu_s"] >= 0.5


def test_streams_are_the_programs_own_and_the_result_comes_after(gpumap):
    """Its stdin is ours, and its bytes are not changed."""
    command = [gpumap.command, "watch", "a->cpu0", "--", "cat"]
    process = gpumap.start(command, stdin=-1)
    out, _ = process.communicate(b"no newline at the end of this: ", timeout=60)
    assert out.startswith(b"no newline at the end of this: ")
    assert process.returncode == 0


def test_a_command_without_a_map_has_the_default_one(gpumap):
    answer = gpumap("watch", "--format", "json", "--", "true")
    assert (answer.code, loads(answer.out)["map"]["source"]) == (0, "default")
