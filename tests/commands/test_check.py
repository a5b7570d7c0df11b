"""`gpumap check`: all names or none, what every fault ends in, and where the map may come from."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import here
import pytest
from shell import SIMULATED, Answer

from gpumap.backends import load

TWO = "dev0->cuda0;dev1->cuda1"
SCRIPT = """
[[device]]
ref = "cuda0"
name = "Fake GPU A"
pci = "0000:09:00.0"
[[device]]
ref = "cuda1"
name = "Fake GPU B"
uuid = "GPU-00000000-0000-0000-0000-00000000000b"
"""
MAPPED = """\
Mapped name dev0 to device cuda0: Fake GPU A (0000:09:00.0) (simulated)
Mapped name dev1 to device cuda1: Fake GPU B (GPU-00000000-0000-0000-0000-00000000000b) (simulated)
"""
FAULTY = """
[[device]]
ref = "cuda0"
[[device]]
ref = "cuda1"
fault = "lost"
[[device]]
ref = "cuda2"
fault = "memory"
[[device]]
ref = "cuda3"
fault = "flip"
"""
CARD = """
[[device]]
ref = "cuda0"
silicon = ["card 0"]
[[device]]
ref = "opencl0:0"
silicon = ["card 0"]
[[device]]
ref = "cuda1"
"""
SHARED = """\
warning: a, b share silicon (card 0): they cannot be faster than one alone
  hint: give each name a device of its own, or expect no speed-up
"""
BOTH_MAPPED = """\
Mapped name a to device cuda0: Fake device (simulated)
Mapped name b to device opencl0:0: Fake device (simulated)
"""


@pytest.fixture
def two(gpumap):
    """Two scripted GPUs."""
    return gpumap.fake(SCRIPT)


# --- yes


@pytest.mark.parametrize("options", [(), ("--no-open",), ("--distinct",), ("--strict",),
                                     ("--needs", "dev0, dev1")])  # fmt: skip
def test_every_name_is_printed_in_theanos_words(two, options):
    """A map that is true: one line for each name, nothing on stderr, exit 0."""
    assert Answer(0, MAPPED, SIMULATED) == two("check", TWO, *options)


def test_the_default_device_and_an_identity(two):
    """`cuda` and an identity resolve to the device that they mean; it is named as resolved."""
    answer = two("check", "dev0->cuda;dev1->cuda@GPU-00000000-0000-0000-0000-00000000000b")

    assert Answer(0, MAPPED, SIMULATED) == answer


def test_the_syntax_alone(gpumap):
    """Nothing is looked for: a device that no machine has is well-formed."""
    expected = Answer(0, "The map is well-formed: 2 entries, nothing looked for.\n", "")

    assert expected == gpumap("check", "--syntax-only", "a->cuda65535;b->opencl9:9.9")


def test_devices_that_the_map_leaves_unused_are_a_note(two):
    """It is no fault, and --quiet takes it away."""
    mapped = MAPPED.splitlines(keepends=True)[0]
    note = "note: the map leaves unused: cuda1\n  hint: add a name for each, if wished\n"

    assert Answer(0, mapped, note + SIMULATED) == two("check", "--strict", "dev0->cuda0")
    assert Answer(0, mapped, "") == two("check", "--quiet", "dev0->cuda0")


# --- no


def test_needs(two):
    """Every name that is asked for and missing is said; the map itself is still true."""
    said = (
        'error: the map has no name "b"\n  fix: add "b->..."\n'
        'error: the map has no name "\\x1b"\n  fix: add "\\x1b->..."\n'
    )

    assert Answer(1, MAPPED, SIMULATED + said) == two("check", TWO, "--needs", "b,dev1,\x1b")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ((), ""),
        (
            ("--distinct",),
            "error: a, b are not distinct: card 0\n  fix: give each name a device of its own\n",
        ),
        (("--strict",), "error: --strict: 1 warning\n  fix: see above\n"),
    ],
)
def test_shared_silicon(gpumap, option, said):
    """Two names on one piece of hardware are allowed, and never unsaid."""
    gpumap.fake(CARD.replace('[[device]]\nref = "cuda1"', ""))

    answer = gpumap("check", "a->cuda0;b->opencl0:0", *option)

    assert Answer(int(bool(option)), BOTH_MAPPED, SHARED + SIMULATED + said) == answer


def test_shared_silicon_is_found_without_opening(gpumap):
    """--distinct asks the inventory, not the devices."""
    answer = gpumap.fake(CARD)("check", "--no-open", "--distinct", "--quiet", "a->cuda;b->cuda0")

    assert answer.code == 1
    assert answer.err.startswith("error: a, b are not distinct: card 0\n")


# --- not there


def test_all_or_nothing(two):
    """One absent device is exit 3, and no name is mapped."""
    said = (
        "error in entry 2: dev1: cuda7 is not there\n"
        "  dev0->cuda0;dev1->cuda7\n"
        "              ^~~~~~~~~~~\n"
        "  fix: there is cuda0, cuda1\n"
    )

    assert Answer(3, "", SIMULATED + said) == two("check", "dev0->cuda0;dev1->cuda7")


def test_absent_counts_more_than_a_no(two):
    """Exit 3 stands before exit 1."""
    assert two("check", "a->cuda7", "--needs", "b").code == 3


def usable(backend):
    """Return why a backend cannot be used here, or None."""
    probe = load(backend, here.HOST).probe()
    return None if probe.usable and probe.devices else f"{backend}: {probe.reason}"


def test_the_readmes_map_where_there_is_no_cuda(gpumap):
    """The reasons and the fix, for each entry."""
    probe, other = (load(name, here.HOST).probe() for name in ("cupy", "pygpu"))
    if any(device.kind == "cuda" for device in (*probe.devices, *other.devices)):
        pytest.skip("there is a CUDA device here")
    noted = [note.removeprefix("cuda: ") for note in other.notes if note.startswith("cuda: ")]
    last = "; ".join(noted) if other.usable else other.reason
    why = f"cupy: {probe.reason}; pygpu: {last}"
    place = "  dev0->cuda0;dev1->cuda1\n"
    fix = f"  fix: {probe.fix}\n" if probe.fix else ""

    assert Answer(
        3,
        "",
        f"error in entry 1: dev0: no backend can drive cuda0: {why}\n"
        f"{place}  ^~~~~~~~~~~\n{fix}"
        f"error in entry 2: dev1: no backend can drive cuda1: {why}\n"
        f"{place}              ^~~~~~~~~~~\n{fix}",
    ) == gpumap("check", TWO)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--needs", ""),
            "error: --needs names nothing\n  fix: write --needs dev0,dev1, or leave it away\n",
        ),
        (
            ("--syntax-only", "--distinct"),
            (
                "error: --distinct looks at devices, --syntax-only looks for none\n"
                "  fix: leave one of the two away\n"
            ),
        ),
    ],
)
def test_what_would_pass_without_a_look_is_a_wrong_question(gpumap, options, said):
    """Exit 2: a variable that is unset must not make a gate green."""
    assert Answer(2, "", said) == gpumap("check", "a->cpu0", *options)


def test_two_reports_to_one_file_are_refused(gpumap):
    """One would be lost, however it is spelled or linked."""
    (gpumap.folder / "sub").mkdir()
    (gpumap.folder / "link.json").symlink_to("a.json")
    said = "error: two --output go to one file; give each its own\n  see: gpumap check --help\n"

    for other in ("./a.json", "sub/../a.json", "link.json"):
        options = ("--output", "a.json", "--output", f"plain={other}")
        assert Answer(2, "", said) == gpumap("check", "a->cpu0", *options)


def test_what_is_read_is_not_written_over(gpumap):
    """A map or a base that a result replaces is lost, and the next run is judged by that."""
    (gpumap.folder / "map.txt").write_text("a->cpu0")
    (gpumap.folder / "hard.csv").hardlink_to(gpumap.folder / "map.txt")

    for output in ("csv=map.txt", "csv=./map.txt", "hard.csv"):
        answer = gpumap("check", "--map-file", "map.txt", "--output", output)
        said = "error: --output would write over what --map-file reads, 'map.txt'; choose another "
        assert (answer.code, answer.err.startswith(said)) == (2, True)
    assert (gpumap.folder / "map.txt").read_text() == "a->cpu0"


def test_an_unbuffered_stdout_loses_nothing(gpumap):
    """PYTHONUNBUFFERED makes stdout raw; a pipe takes 64 KiB at a time."""
    wide = ";".join(f"name{n}->cpu0" for n in range(3000))

    answer = gpumap("check", "--syntax-only", "--format", "json", wide, PYTHONUNBUFFERED="1")

    assert len(json.loads(answer.out)["map"]["entries"]) == 3000


def test_every_option_has_a_variable(gpumap):
    """GPUMAP_ and its name, also for a flag."""
    answer = gpumap("check", "a->cpu0;b->cpu0", GPUMAP_STRICT="1", GPUMAP_NO_OPEN="1")

    assert answer.code == 1
    assert "--strict: 1 warning" in answer.err


def test_a_device_that_hangs_is_named(gpumap):
    """The time limit ends the process, and says what it was about."""
    script = '[[device]]\nref = "cuda0"\n[[device]]\nref = "cuda1"\nfault = "hang"'

    answer = gpumap.fake(script)("check", "a->cuda0;b->cuda1", "--timeout", "1s")

    assert answer.code == 124
    assert "the time limit of 1 s was reached while opening b (cuda1)" in answer.err


def test_a_backend_for_another_kind_is_a_wrong_question(gpumap):
    """Exit 2: no machine has what is asked for."""
    said = (
        "error in entry 1: the backend numpy drives cpu; a->cuda0 asks for another kind\n"
        "  a->cuda0\n"
        "  ^~~~~~~~\n"
        "  fix: leave --backend away, or map this name to a device that it drives\n"
    )

    assert Answer(2, "", said) == gpumap("check", "--backend", "numpy", "a->cuda0")


def test_an_unknown_backend(gpumap):
    """Exit 2, and the backends that there are."""
    answer = gpumap("check", "--backend", "n\x1bope", "a->cuda0")

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith('error: no backend is called "n\\x1bope"\n  fix: choose one of ')


# --- broken


LOST = "cuda1 no longer answers\n{place}  fix: look at the system log (dmesg)\n"
MEMORY = "cuda2 has no room for 4096 bytes\n{place}  fix: free some of its memory\n"
FLIP = (
    "cuda3 returned wrong bytes: 1 of 4096, first at 2055 (0xd1 came back as 0x91)\n"
    "{place}  fix: do not trust this device: check its memory, cable and driver\n"
)


@pytest.mark.parametrize(
    ("devices", "code", "said"),
    [
        ((0, 1), 3, [(2, LOST)]),
        ((2, 0), 3, [(1, MEMORY)]),
        ((3,), 4, [(1, FLIP)]),
        ((1, 2), 3, [(1, LOST), (2, MEMORY)]),
        ((1, 1), 3, [(1, LOST)]),  # one device, one error
        ((1, 0, 3), 4, [(1, LOST), (3, FLIP)]),  # wrong data before all else
    ],
)
def test_every_fault_has_its_exit_code_and_its_place(gpumap, devices, code, said):
    """Each broken device is named by the name that asked for it, and none is mapped."""
    names = "abc"
    text = ";".join(f"{names[n]}->cuda{device}" for n, device in enumerate(devices))
    expected = "".join(
        f"error in entry {n}: {names[n - 1]}: "
        + message.format(place=f"  {text}\n  {' ' * 9 * (n - 1)}^~~~~~~~\n")
        for n, message in said
    )

    assert Answer(code, "", expected) == gpumap.fake(FAULTY)("check", "--quiet", text)


def test_a_device_that_is_not_opened_is_not_found_broken(gpumap):
    """--no-open asks only whether it is there."""
    answer = gpumap.fake(FAULTY)("check", "--no-open", "--quiet", "a->cuda1;b->cuda3")

    assert (answer.code, answer.err) == (0, "")


# --- real devices


def test_a_core_of_this_machine(gpumap):
    """Exit 0 without a driver: the embedded default."""
    answer = gpumap("check", "--quiet", "a->cpu0;all->cpu")

    first, second = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "")
    assert first.startswith("Mapped name a to device cpu0: ")
    assert second.startswith("Mapped name all to device cpu: ")
    assert "(simulated)" not in answer.out
    assert first == first.rstrip()


def test_a_core_that_is_not_there(gpumap):
    """The cores of this process are listed."""
    answer = gpumap("check", "a->cpu65535")

    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("error in entry 1: a: cpu65535 is not there")


@pytest.mark.parametrize("text", ["a->opencl0:0", "a->opencl0:0.0;b->opencl0:0.1"])
def test_opencl(gpumap, text):
    """An OpenCL device, and its parts, really are opened; parts share nothing."""
    if reason := usable("pyopencl"):
        pytest.skip(reason)

    answer = gpumap("check", "--distinct", "--quiet", text)

    if "opencl0:0.1 is not there" in answer.err:
        pytest.skip("its device has no second part")
    wanted = [entry.split("->") for entry in text.split(";")]
    mapped = [line.partition(": ")[0] for line in answer.out.splitlines()]
    assert (answer.code, answer.err) == (0, "")
    assert mapped == [f"Mapped name {name} to device {ref}" for name, ref in wanted]


# --- where the map comes from


def _contexts(gpumap):
    gpumap.env["GPUMAP_CONTEXTS"] = TWO
    return (), "GPUMAP_CONTEXTS"


def _flags(gpumap):
    gpumap.env["THEANO_FLAGS"] = f"floatX=float32,contexts={TWO}"
    return (), "THEANO_FLAGS"


def _home(gpumap):
    path = Path(gpumap.env["HOME"], ".theanorc")
    path.write_text(f"[global]\ncontexts = {TWO}\n")
    return (), f".theanorc ({path})"


def _rc(gpumap):
    path = gpumap.folder / "rc"
    path.write_text(f"[global]\ncontexts = {TWO}\n")
    gpumap.env["THEANORC"] = str(path)
    return (), f".theanorc ({path})"


def _file(gpumap):
    (gpumap.folder / "m.map").write_text(f"\n{TWO}\n")
    return ("--map-file", "m.map"), "--map-file (m.map)"


def _toml(gpumap):
    (gpumap.folder / "gpumap.toml").write_text(f'map = "{TWO}"')
    return (), f"gpumap.toml ({gpumap.folder}/gpumap.toml)"


@pytest.mark.parametrize("place", [_contexts, _flags, _home, _rc, _file, _toml])
def test_a_map_from_elsewhere_is_the_same_and_says_where_from(two, place):
    """A note names the place; the answer is that of the argument."""
    options, origin = place(two)

    answer = two("check", *options, "--output", "report.json")

    found = json.loads((two.folder / "report.json").read_text())["map"]
    path = f" ({found['source_path']})" if found["source_path"] else ""
    assert (answer.code, answer.out) == (0, MAPPED)
    assert found["source"] + path == origin
    assert found["notes"][0]["code"] == "source"


@pytest.mark.parametrize("format_", ["plain", "markdown", "html"])
def test_print_active_device_hides_the_lines_and_not_the_report(two, format_):
    """As in Theano, and only for a map of its settings; the JSON has the devices all the same."""
    two.env["THEANO_FLAGS"] = f"print_active_device=False,device=cuda,contexts={TWO}"

    silent = two("check", "--format", format_, "--output", "report.json")
    said = two("check", TWO, "--format", format_)

    report = json.loads((two.folder / "report.json").read_text())
    assert (silent.code, said.code) == (0, 0)
    assert "Mapped name" not in silent.out
    assert said.out.count("Mapped name") == 2
    assert [entry["device"] for entry in report["map"]["entries"]] == ["cuda:0", "cuda:1"]
    assert "theano-silent" in {note["code"] for note in report["map"]["notes"]}


def test_a_name_that_theano_loses_is_a_warning(two):
    """The device works, and Theano's program will not find the name: --strict says no."""
    two.env["THEANO_FLAGS"] = f"device=cuda0,contexts={TWO}"

    assert [two("check", *option).code for option in ((), ("--strict",))] == [0, 1]


def test_the_option_map(two):
    """--map is the argument by another name: the user sees where it comes from."""
    assert Answer(0, MAPPED, SIMULATED) == two("check", "--map", TWO)


def test_two_maps_at_once(two):
    """Exit 2: none is chosen in silence."""
    said = "error: the map is given 2 times: by the argument MAP and by --map\n"

    answer = two("check", TWO, "--map", TWO)

    assert Answer(2, "", f"{said}  fix: keep one of them\n") == answer


def test_no_map_at_all(gpumap):
    """Exit 2, and what to type."""
    said = (
        "error: no map is given\n"
        '  fix: give one: gpumap check "dev0->cuda0;dev1->cuda1"; '
        "`gpumap devices` lists the devices\n"
    )

    assert Answer(2, "", said) == gpumap("check")


def _folder(path):
    path.mkdir()


def _binary(path):
    path.write_bytes(b"\x7fELF\0")


def _latin(path):
    path.write_bytes("dé->cpu0".encode("latin-1"))


def _huge(path):
    with path.open("wb") as file:
        file.truncate(2**30)  # sparse: it takes no room


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no such file\n  fix: check the path"),  # noqa: ARG005
        (_folder, "it is a folder\n  fix: name a regular file"),
        (_binary, "it is not text (a NUL at byte 4)\n  fix: check the path"),
        (_latin, "it is not UTF-8 (0xe9 at byte 1)\n  fix: save it as UTF-8"),
        (_huge, "it is larger than 16777216 bytes\n  fix: name a smaller file"),
        (os.mkfifo, "it is a FIFO\n  fix: name a regular file"),
    ],
)
def test_a_map_file_that_is_none(gpumap, make, said):
    """Exit 2 with the reason; never a traceback, never a wait, never a gigabyte read."""
    make(gpumap.folder / "m")

    answer = gpumap("check", "--map-file", "m")

    assert Answer(2, "", f"error: cannot read the map file {gpumap.folder}/m: {said}\n") == answer


# --- hostile text


HOSTILE = "[bold]x\u202ey[/]->cuda0"
NASTY = SCRIPT.replace("Fake GPU A", "\\u001b[31m[red]A\\u2066")


@pytest.mark.parametrize("format_", ["plain", "rich"])
def test_hostile_text_is_shown_and_never_interpreted(gpumap, format_):
    """Markup of names and escapes of drivers reach the terminal as text."""
    gpumap.fake(NASTY)
    name = "[bold]x[/]"

    answer = gpumap("check", "--quiet", "--format", format_, f"{name}->cuda0")

    shown = r"\x1b[31m[red]A\u2066 (0000:09:00.0)"
    gap = "\n" if format_ == "rich" else " "  # a terminal's lines end between words
    assert Answer(0, f"Mapped name {name} to device cuda0: {shown}{gap}(simulated)\n", "") == answer


@pytest.mark.parametrize("format_", ["plain", "rich", "json"])
@pytest.mark.parametrize("text", [HOSTILE, "\x1b]0;x\x07->cuda0", "a->\x9b31m", "\u2067->"])
def test_a_hostile_map_never_reaches_the_terminal_as_it_is(gpumap, format_, text):
    """Control characters and bidirectional marks are escaped on both streams."""
    answer = gpumap.fake(NASTY)("check", "--format", format_, text)

    assert (answer.out + answer.err).replace("\n", "").isprintable()
    assert "Traceback" not in answer.err
    if format_ == "json":
        assert json.loads(answer.out)["map"]["text"] == text


# --- where the report goes


def test_the_report_goes_to_files_too(two):
    """The suffix tells the format, or FORMAT=PATH does; stdout has the result all the same."""
    outputs = ("--output", "r.json", "--output", "plain=r", "--output", "r.txt")

    answer = two("check", TWO, *outputs)

    assert Answer(0, MAPPED, SIMULATED) == answer
    assert sorted(p.name for p in two.folder.iterdir()) == ["fake.toml", "r", "r.json", "r.txt"]
    assert (two.folder / "r").read_text() == MAPPED
    assert (two.folder / "r.txt").read_text() == MAPPED
    assert json.loads((two.folder / "r.json").read_text())["status"] == "ok"


def test_a_report_is_written_also_when_the_answer_is_no(two):
    """From the map on there is always a report."""
    assert two("check", "a->cuda7", "--output", "r.json").code == 3
    report = json.loads((two.folder / "r.json").read_text())

    assert (report["status"], report["exit_code"]) == ("absent", 3)
    assert [error["code"] for error in report["errors"]] == ["absent"]


@pytest.mark.parametrize(
    "target",
    ["no/r.json", ".", "json=.", "r.pdf", "fake.toml/r.json", "x" * 300 + ".json", "x\0.json",
     pytest.param("/sys/r.json", marks=pytest.mark.skipif(
         not Path("/sys/kernel").exists(), reason="no /sys, where no file can be made"))],
)  # fmt: skip
def test_a_report_that_has_nowhere_to_go_is_known_beforehand(gpumap, target):
    """Exit 2 before any device is looked for: this one would be found broken, exit 3."""
    option = f"output = [{json.dumps(target)}]"  # a NUL is in no argument
    (gpumap.folder / "gpumap.toml").write_text(option if "\0" in target else "")
    given = () if "\0" in target else ("--output", target)

    answer = gpumap.fake(FAULTY)("check", "a->cuda3", *given)

    assert (answer.code, answer.out) == (2, "")
    assert sorted(p.name for p in gpumap.folder.iterdir()) == ["fake.toml", "gpumap.toml"]


def test_where_a_report_goes_is_not_touched_beforehand(gpumap):
    """It is tried beside an old file, which stays whole until the new one is; no FIFO is opened."""
    (gpumap.folder / "r.json").write_text("old")
    os.mkfifo(gpumap.folder / "fifo")
    before = (gpumap.folder / "r.json").stat()

    answer = gpumap("check", "--output", "r.json", "--output", "json=fifo", "a")

    assert answer.code == 2  # the map is none, and nobody reads
    report = json.loads((gpumap.folder / "r.json").read_text())
    assert report["exit_code"] == 2
    assert (gpumap.folder / "r.json").stat().st_ino != before.st_ino
    assert sorted(p.name for p in gpumap.folder.iterdir()) == ["fifo", "r.json"]


@pytest.fixture(params=[0, 4096])
def full_disk(tmp_path, request):
    """A file system of 64 KiB with so many bytes left: no room for a report."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", path],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.strip()}")
    (path / "r.json").write_text("old")
    with (path / "filler").open("wb", buffering=0) as file:
        while _takes(file):
            pass
    os.truncate(path / "filler", (path / "filler").stat().st_size - request.param)
    yield path, request.param
    subprocess.run(["umount", path], check=True)


def _takes(file):
    try:
        return file.write(bytes(4096))
    except OSError:
        return 0


def test_a_full_disk_costs_no_old_report(two, full_disk):
    """Exit 2, beforehand if it is full then, else beside the result; nothing is half written."""
    disk, room = full_disk
    place = disk / "r.json"
    large = f"{'x' * 4096}->cuda0"  # more than the room

    answer = two("check", large, "--output", str(place), "--output", "r.txt")

    assert (answer.code, answer.out.count("Mapped")) == (2, 1 if room else 0)
    assert (two.folder / "r.txt").exists() == bool(room)
    assert place.read_text() == "old"
    assert sorted(p.name for p in disk.iterdir()) == ["filler", "r.json"]


# --- gpumap.toml


def test_settings_of_gpumap_toml_are_defaults(two):
    """An option wins over the variable, the variable over the file."""
    (two.folder / "gpumap.toml").write_text(
        f'map = "{TWO}"\nformat = "json"\nquiet = true\noutput = ["plain=r.txt"]\n'
    )

    configured = two("check")
    by_variable = two("check", GPUMAP_FORMAT="plain")
    by_option = two("check", "--format", "plain", GPUMAP_FORMAT="json")

    assert (configured.code, configured.err.count("\n")) == (0, 1)
    assert configured.err.startswith("note: ")  # the file that the user has not asked for
    assert "r.txt" in configured.err
    assert json.loads(configured.out)["map"]["source"] == "gpumap.toml"
    assert Answer(0, MAPPED, configured.err) == by_variable == by_option
    assert (two.folder / "r.txt").read_text() == MAPPED


def test_no_setting_is_one_that_another_user_can_have_written(two):
    """A gpumap.toml above the working folder must not write to a file of the user's."""
    inner = two.folder / "a" / "b"
    inner.mkdir(parents=True)
    bashrc = two.folder / ".bashrc"
    bashrc.write_text("old")
    planted = two.folder / "a" / "gpumap.toml"
    planted.write_text(f'map = "{TWO}"\noutput = ["plain={bashrc}"]\nquiet = true\n')

    absolute = replace(two, folder=inner)("check")
    planted.write_text(f'map = "{TWO}"\noutput = ["plain=r.txt"]\nquiet = true\n')
    own = replace(two, folder=inner)("check")
    planted.chmod(0o666)
    writable = replace(two, folder=inner)("check")

    assert [absolute.code, own.code, writable.code] == [2, 0, 2]
    assert [absolute.out, own.out, writable.out] == ["", MAPPED, ""]
    assert bashrc.read_text() == "old"
    assert sorted(p.name for p in planted.parent.iterdir()) == ["b", "gpumap.toml", "r.txt"]
    assert (planted.parent / "r.txt").read_text() == MAPPED


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's file")
@pytest.mark.parametrize("what", ["gpumap.toml", "."])
def test_no_setting_is_another_users(two, what):
    """Neither its file nor its folder may be: exit 2, whatever the map."""
    (two.folder / "gpumap.toml").write_text("quiet = true\n")
    assert two("check", TWO).code == 0

    os.chown(two.folder / what, 65534, 65534)

    assert two("check", TWO).code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("formt = 1", ': unknown key "formt"\n  fix: write format\n'),
        (
            "what = 1",
            (
                ': unknown key "what"\n'
                "  fix: remove it; known are backend, format, limit, map, output, quiet\n"
            ),
        ),
    ],
)
def test_an_unknown_setting_is_an_error(gpumap, text, said):
    """A misspelt setting is never passed over."""
    (gpumap.folder / "gpumap.toml").write_text(text)

    expected = f"error: {gpumap.folder}/gpumap.toml{said}"
    assert Answer(2, "", expected) == gpumap("check", "--syntax-only", "a->cpu0")


@pytest.mark.parametrize("setting", ['format = "xml"', "format = 3", 'quiet = "perhaps"',
                                     'output = "r"', "backend = 3", "output = 3"])  # fmt: skip
def test_a_setting_with_a_wrong_value_is_an_error(gpumap, setting):
    """Exit 2, as if it had been given as an option."""
    (gpumap.folder / "gpumap.toml").write_text(setting)

    answer = gpumap("check", "a->cpu0")

    assert (answer.code, answer.out, answer.err[:7]) == (2, "", "error: ")
    assert setting.partition(" ")[0] in answer.err


def test_help_offers_no_measuring(gpumap):
    """`check` measures nothing, so --backend has no word for all of them."""
    said = gpumap("check", "--help").out

    assert "Drive the devices with this backend." in said
    assert "measure" not in said
