"""Where a map comes from: the order of the places, Theano's rules, and what they drop."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumap import sources
from gpumap.errors import Diagnostic, GpumapError, QuestionError, SourceError
from gpumap.model import MapText

TWO = "dev0->cuda0;dev1->cuda1"


def find(cwd, env=None, argument=None, option=None, map_file=None):
    """Return what is found with nothing set but what is given."""
    return sources.find(argument=argument, option=option, map_file=map_file, env=env or {}, cwd=cwd)


def warning(code, message, hint):
    """Return a diagnostic of that severity."""
    return Diagnostic(code, message, hint=hint, severity="warning")


def said(error):
    """Return the message and the hint of the only diagnostic."""
    (diagnostic,) = error.value.diagnostics
    return diagnostic.message, diagnostic.hint


# --- the order


@pytest.mark.parametrize(
    ("given", "env"),
    [
        ({"argument": "a->cpu0"}, {}),
        ({}, {"GPUMAP_CONTEXTS": "a->cpu0"}),
    ],
)
def test_nothing_after_the_first_is_read(tmp_path, given, env):
    """What is broken further down does not matter once a place is set."""
    (tmp_path / "gpumap.toml").mkdir()
    os.mkfifo(tmp_path / ".theanorc")
    env |= {"THEANO_FLAGS": "'", "HOME": str(tmp_path)}

    assert find(tmp_path, env, **given).text == "a->cpu0"


@pytest.mark.parametrize("env", [{}, {"GPUMAP_CONTEXTS": " \n", "THEANO_FLAGS": " ", "HOME": ""}])
def test_nothing_set_is_none(tmp_path, env):
    """No place, or only blank variables: there is no map."""
    assert find(tmp_path, env) is None


def test_an_empty_map_that_was_given_is_an_empty_map(tmp_path):
    """An empty argument, option, file or setting is set; an empty variable is not."""
    (tmp_path / "empty").touch()
    (tmp_path / "gpumap.toml").write_text('map = ""')
    env = {"GPUMAP_CONTEXTS": "", "THEANO_FLAGS": f"contexts={TWO}"}

    assert [
        MapText("", "argument"),
        MapText("", "--map"),
        MapText("", "--map-file", "empty"),
        MapText("", "gpumap.toml", f"{tmp_path}/gpumap.toml"),
    ] == [
        find(tmp_path, env, argument=""),
        find(tmp_path, env, option=""),
        find(tmp_path, env, map_file=Path("empty")),
        find(tmp_path, env),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"argument": "", "option": ""},
            "the map is given 2 times: by the argument MAP and by --map",
        ),
        (
            {"option": "a", "map_file": Path("gone")},
            "the map is given 2 times: by --map and by --map-file",
        ),
        (
            {"argument": "a", "option": "b", "map_file": Path("c")},
            "the map is given 3 times: by the argument MAP and by --map and by --map-file",
        ),
    ],
)
def test_two_at_once_are_an_error(tmp_path, given, message):
    """Of argument, --map and --map-file only one may be there, also if it is empty."""
    with pytest.raises(QuestionError) as error:
        find(tmp_path, **given)

    assert (message, "keep one of them") == said(error)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1", "a number"), ("1.5", "a number"), ("true", "a boolean"), ("[]", "a list"),
        ("{}", "a table"), ("2020-01-01", "a date or time"),
    ],
)  # fmt: skip
def test_a_setting_that_is_no_text_is_an_error(tmp_path, value, kind):
    """What gpumap.toml sets as map is text."""
    (tmp_path / "gpumap.toml").write_text(f"map = {value}")

    with pytest.raises(SourceError) as error:
        find(tmp_path)

    message = f"{tmp_path}/gpumap.toml: map must be text, not {kind}"
    assert (message, f'write map = "{TWO}"') == said(error)


def test_other_settings_are_no_map(tmp_path):
    """A gpumap.toml without map leaves the search open."""
    (tmp_path / "gpumap.toml").write_text("seed = 1")

    assert find(tmp_path, {"THEANO_FLAGS": "contexts=a->cpu0"}).text == "a->cpu0"


# --- THEANO_FLAGS


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (f"contexts={TWO}", TWO),
        (f"floatX=float32, contexts={TWO} ,mode=FAST_RUN", TWO),
        (f"contexts='{TWO}'", TWO),
        ("contexts=a b->cuda0", "a b->cuda0"),
        ("contexts='a#->cuda0'", "a#->cuda0"),
        ("contexts=a=b->cuda0", "a=b->cuda0"),
        (rf"base_compiledir=C:\\tmp,contexts={TWO}", TWO),
        ("contexts=", None),
        ("floatX=float32,base_compiledir=/tmp/a->b", None),
    ],
)
def test_flags_are_read_as_theano_reads_them(tmp_path, flags, text):
    """POSIX shlex, split at commas only, then at the first equals sign; nothing to warn about."""
    (tmp_path / ".theanorc").write_text("[global]\n")
    env = {"THEANO_FLAGS": flags, "HOME": str(tmp_path)}

    expected = text and MapText(text, "THEANO_FLAGS")
    assert (expected, ()) == (find(tmp_path, env), sources.ignored(env=env, cwd=tmp_path))


@pytest.mark.parametrize(
    ("flags", "text", "note"),
    [
        (
            "contexts=dev0->cuda0#x,floatX=float32", "dev0->cuda0",
            warning(
                "flags-comment",
                'THEANO_FLAGS: "#" begins a comment; Theano drops "#x,floatX=float32"',
                "remove it, or put the option that it belongs to in single quotes",
            ),
        ),
        (
            "contexts=dev0->cuda0,dev1->cuda1", "dev0->cuda0",
            warning(
                "flags-comma",
                'THEANO_FLAGS: a comma ends the map; Theano ignores "dev1->cuda1"',
                f'separate the entries with ";": contexts={TWO}',
            ),
        ),
        (
            "contexts=a->cuda0,b=>cuda1,c->cpu", "a->cuda0",
            warning(
                "flags-comma",
                'THEANO_FLAGS: a comma ends the map; Theano ignores "b=>cuda1,c->cpu"',
                'separate the entries with ";": contexts=a->cuda0;b=>cuda1;c->cpu',
            ),
        ),
        (
            r"contexts=dev0->cuda0\;dev1->cuda1", TWO,
            warning(
                "flags-backslash",
                f'THEANO_FLAGS: Theano drops the backslash; it reads "{TWO}"',
                f"remove it: contexts={TWO}",
            ),
        ),
        (
            r"contexts=a\'->cuda0", "a'->cuda0",
            warning(
                "flags-backslash",
                '''THEANO_FLAGS: Theano drops the backslash; it reads "a'->cuda0"''',
                "remove it: contexts=a'->cuda0",
            ),
        ),
        (
            "contexts=a->cuda0,contexts=b->cuda1", "b->cuda1",
            Diagnostic(
                "flags-repeated",
                "THEANO_FLAGS: contexts is set 2 times; Theano takes the last",
                hint="keep one: contexts=b->cuda1", severity="note",
            ),
        ),
        (
            "contexts=a->cuda0,Contexts=b->cuda1", "a->cuda0",
            warning(
                "flags-spelling", 'THEANO_FLAGS: Theano does not know "Contexts"',
                "write contexts=b->cuda1",
            ),
        ),
    ],
)  # fmt: skip
def test_what_theano_drops_silently_is_said(tmp_path, flags, text, note):
    """The text is what Theano would see; the note says what it lost, and how to mend it."""
    assert MapText(text, "THEANO_FLAGS", None, (note,)) == find(tmp_path, {"THEANO_FLAGS": flags})


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        ("contexts = a->cuda0", 'Theano does not know "contexts "', "write contexts=a->cuda0"),
        ("CONTEXTS=a->cuda0", 'Theano does not know "CONTEXTS"', "write contexts=a->cuda0"),
        ("context=a->cuda0", 'Theano does not know "context"', "write contexts=a->cuda0"),
        (
            "global.contexts=a->cuda0",
            'Theano does not know "global.contexts"', "write contexts=a->cuda0",
        ),
        ("contexts", 'Theano sees no value, and ignores "contexts"', f"write contexts={TWO}"),
        ("a->cuda0", 'Theano ignores "a->cuda0": it is no option', "write contexts=a->cuda0"),
        (
            "#contexts=a->cuda0",
            '"#" begins a comment; Theano drops "#contexts=a->cuda0"',
            "remove it, or put the option that it belongs to in single quotes",
        ),
    ],
)  # fmt: skip
def test_a_map_that_theano_does_not_see_is_none_and_said(tmp_path, flags, message, hint):
    """The search goes on to .theanorc and takes the warning along; ignored() has it too."""
    env = {"THEANO_FLAGS": flags}

    (note,) = sources.ignored(env=env, cwd=tmp_path)

    assert (None, f"THEANO_FLAGS: {message}", hint) == (
        find(tmp_path, env),
        note.message,
        note.hint,
    )
    (tmp_path / ".theanorc").write_text("[global]\ncontexts = b->cpu0")
    expected = MapText("b->cpu0", ".theanorc", f"{tmp_path}/.theanorc", (note,))
    assert expected == find(tmp_path, env | {"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("flags", "codes"),
    [
        (f"device=cuda,contexts={TWO}", {}),
        (f"contexts={TWO}", {"theano-no-default": None}),
        (f"device=cpu,contexts={TWO}", {"theano-no-default": None}),
        (f"device=cuda1,contexts={TWO}", {"theano-lost-name": "dev1"}),
        ("device=cuda,contexts=a->cuda0;b->cuda1;c-> cuda0", {"theano-lost-name": "c"}),
        ("device=cuda,contexts=a->cuda0;a->cuda0", {}),
        ("init_gpu_device=cuda0,contexts=a->cuda0",
         {"theano-lost-name": "a", "theano-no-default": None}),
        ("device=dev0,contexts=dev0->cuda0", {"theano-device": None}),
        ("device=gpu0,contexts=dev0->cuda0", {"theano-device": None}),
        ("device=cuda,print_active_device=False,contexts=a->cuda0", {"theano-silent": None}),
        ("device=cuda,print_active_device=0,contexts=a->cuda0", {"theano-silent": None}),
        ("device=cuda,print_active_device=True,contexts=a->cuda0", {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["THEANO_FLAGS", ".theanorc"])
def test_what_theanos_other_options_do_with_its_map_is_said(tmp_path, place, flags, codes):
    """By Theano 1.0's own order: `device` first, then entry by entry, one name for each text."""
    env = {"HOME": str(tmp_path)}
    if place == "THEANO_FLAGS":
        env["THEANO_FLAGS"] = flags
    else:
        (tmp_path / ".theanorc").write_text("[global]\n" + flags.replace(",", "\n"))

    notes = sources.surrounding(find(tmp_path, env), env=env, cwd=tmp_path)

    assert codes == {note.code: note.name for note in notes}
    assert all(note.severity == "warning" for note in notes if note.code == "theano-lost-name")


def test_the_flags_win_over_theanorc_option_by_option(tmp_path):
    """A device of .theanorc counts for a map of the flags, unless they have one too."""
    (tmp_path / ".theanorc").write_text("[global]\ndevice = cuda0\n")
    env = {"HOME": str(tmp_path), "THEANO_FLAGS": f"contexts={TWO}"}
    other = env | {"THEANO_FLAGS": f"device=cuda,contexts={TWO}"}

    found = [
        [note.code for note in sources.surrounding(find(tmp_path, e), env=e, cwd=tmp_path)]
        for e in (env, other)
    ]

    assert found == [["theano-lost-name"], []]


def test_theanos_options_are_nothing_to_a_map_from_elsewhere(tmp_path):
    """Who gives a map by the argument has asked nothing of Theano."""
    env = {"THEANO_FLAGS": f"device=dev0,contexts={TWO}"}

    assert sources.surrounding(MapText(TWO, "argument"), env=env, cwd=tmp_path) == ()


@pytest.mark.parametrize(("device", "codes"), [("cuda0", ["theano-default-device"]), ("cpu", [])])
def test_a_default_device_is_no_map_and_said(tmp_path, device, codes):
    """It names where all of Theano's work goes."""
    env = {"THEANO_FLAGS": f"device={device}"}

    found = sources.ignored(env=env, cwd=tmp_path)

    assert (find(tmp_path, env), [note.code for note in found]) == (None, codes)


def test_an_empty_flag_overrides_theanorc(tmp_path):
    """contexts= in the flags means no map, and .theanorc is not looked at."""
    (tmp_path / ".theanorc").mkdir()

    assert find(tmp_path, {"THEANO_FLAGS": "contexts=", "HOME": str(tmp_path)}) is None


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (
            "contexts='a->cuda0",
            '''a quote is never closed: "contexts='a->cuda0"''', "close the quote, or remove it",
        ),
        ("contexts=a\\", r'it ends in a backslash: "contexts=a\"', "remove the backslash"),
        (
            "contexts='\x1b[2J" + "x" * 100,
            rf'''a quote is never closed: "contexts='\x1b[2J{"x" * 60}..."''',
            "close the quote, or remove it",
        ),
    ],
)  # fmt: skip
def test_flags_that_theano_cannot_read_are_an_error(tmp_path, flags, message, hint):
    """Where Theano stops with a traceback there is a message, short and printable."""
    with pytest.raises(SourceError) as error:
        find(tmp_path, {"THEANO_FLAGS": flags})

    assert (f"THEANO_FLAGS: {message}", hint) == said(error)


# --- .theanorc


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (f"[global]\ncontexts = {TWO}\n", TWO),
        (f"\ufeff[global]\r\nCONTEXTS: {TWO}\r\n", TWO),
        ("[global]\ncontexts = a->cuda0;\n  b->cuda1\n", "a->cuda0;\nb->cuda1"),
        ("[DEFAULT]\ncontexts = a->cuda0\n[global]\n", "a->cuda0"),
        ("[global]\nn = 1\ncontexts = a->cuda%(n)s\n", "a->cuda1"),
        ("[global]\ncontexts = %(USER)s->cuda0\n", "me->cuda0"),
        ("[global]\ncontexts = a->cuda%d\n", "a->cuda%d"),
        ("[global]\ncontexts = %(x)s\n", "%(x)s"),
        ("[global]\ncontexts = %(x)s\nx = %(contexts)s\n", "%(x)s"),
        ("[global]\n# contexts = a->cuda0\n", None),
        ("[global]\ncontexts =\n", None),
        ("", None),
    ],
)
def test_theanorc_is_read_as_theano_reads_it(tmp_path, content, text):
    """Names in any case, continuation lines, interpolation with the raw value to fall back on."""
    path = tmp_path / ".theanorc"
    path.write_bytes(content.encode())

    expected = text and MapText(text, ".theanorc", str(path))
    assert expected == find(tmp_path, {"HOME": str(tmp_path), "USER": "me"})


@pytest.mark.parametrize(
    ("line", "text", "note"),
    [
        (
            '"a->cuda0"', '"a->cuda0"',
            warning(
                "rc-quotes", '.theanorc: quotes are part of the value: ""a->cuda0""',
                "drop them: contexts = a->cuda0",
            ),
        ),
        (
            "a->cuda0 ;b->cuda1", "a->cuda0 ;b->cuda1",
            warning(
                "rc-blank",
                '.theanorc: in Python 2 " ;" begins a comment, in Python 3 it is part of the map',
                'no blank before ";": contexts = a->cuda0;b->cuda1',
            ),
        ),
        (
            "a->cuda0\n  ;b->cuda1\x1b", "a->cuda0",
            warning(
                "rc-comment",
                r'.theanorc: a line that begins with ";" is a comment: ";b->cuda1\x1b"',
                'put the ";" at the end of the line before',
            ),
        ),
        (
            "a->cuda0\n[gpuarray]\ncontexts = b->cuda1", "a->cuda0",
            warning(
                "rc-section", '.theanorc: Theano does not look for contexts in "gpuarray"',
                "move it to the section [global]",
            ),
        ),
    ],
)  # fmt: skip
def test_what_theanorc_misleads_to_is_said(tmp_path, line, text, note):
    """The text stays as Theano would see it; the note says what it does not mean."""
    path = tmp_path / ".theanorc"
    path.write_text(f"[global]\ncontexts = {line}\n")

    expected = MapText(text, ".theanorc", str(path), (note,))
    assert expected == find(tmp_path, {"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("content", "problem", "hint"),
    [
        (
            "contexts = a->cuda0",
            "line 1: no section header above it", "begin the file with [global]",
        ),
        (
            "[global]\n[global]\n",
            "line 2: this section is there twice", "put both under one header",
        ),
        (
            "[global]\ncontexts = a\ncontexts = b\n",
            "line 3: this option is there twice", "keep one of the two",
        ),
        (
            "[global]\n\nnonsense \x1b[2J\n",
            "line 3: neither a [section] nor an option with a value", f"write contexts = {TWO}",
        ),
        (
            "[global]\nnonsense\nmore nonsense\n",
            "line 2: neither a [section] nor an option with a value", f"write contexts = {TWO}",
        ),
        (
            "[global]\na" + " " * 200_000 + "b\n",
            "line 2: 200 blanks in a row", "remove them",
        ),
    ],
)  # fmt: skip
def test_a_theanorc_that_theano_cannot_read_is_an_error(tmp_path, content, problem, hint):
    """The file and the line are named at once, and nothing of the line is printed raw."""
    path = tmp_path / ".theanorc"
    path.write_text(content)
    start = time.perf_counter()

    with pytest.raises(SourceError) as error:
        find(tmp_path, {"HOME": str(tmp_path)})

    assert (f"{path}, {problem}", hint) == said(error)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (Path.mkdir, "it is a folder"),
        (os.mkfifo, "it is a FIFO"),
        (lambda path: path.write_bytes(b"\0"), "it is not text (a NUL at byte 0)"),
        (lambda path: path.write_bytes(b" " * 2**21), "it is larger than 1048576 bytes"),
    ],
)
def test_a_theanorc_that_is_no_text_is_an_error(tmp_path, make, problem):
    """What stands where .theanorc belongs is not passed over."""
    path = tmp_path / ".theanorc"
    make(path)

    with pytest.raises(SourceError) as error:
        find(tmp_path, {"HOME": str(tmp_path)})

    assert f"cannot read the .theanorc {path}: {problem}" == said(error)[0]


@pytest.mark.parametrize(
    ("listed", "text", "origin"),
    [
        ("a:b", "b->cpu0", "b"),
        ("b:a", "a->cpu0", "a"),
        ("a:other", "a->cpu0", "a"),
        ("~/a", "a->cpu0", "a"),
        ("a::", "a->cpu0", "a"),
    ],
)
def test_of_several_theanorc_the_last_that_sets_it_counts(tmp_path, listed, text, origin):
    """THEANORC is a list; a later file wins option by option; ~ is HOME."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"[global]\ncontexts = {name}->cpu0\n")
    (tmp_path / "other").write_text("[global]\nfloatX = float32\n")

    actual = find(tmp_path, {"THEANORC": listed, "HOME": str(tmp_path)})

    assert MapText(text, ".theanorc", str(tmp_path / origin)) == actual


def test_a_theanorc_that_is_named_and_missing_is_noted(tmp_path_factory):
    """Theano skips it silently; here it is a note."""
    tmp_path = tmp_path_factory.mktemp("rc")  # a long path would be shortened
    (tmp_path / "a").write_text("[global]\ncontexts = a->cpu0\n")

    actual = find(tmp_path, {"THEANORC": "gone:a/x:a:~nobody-here/x"})

    assert [
        f'THEANORC names "{tmp_path}/{name}", which is not there; Theano skips it'
        for name in ("gone", "a/x", "~nobody-here/x")
    ] == [note.message for note in actual.notes]
    assert {"note"} == {note.severity for note in actual.notes}


def test_an_empty_theanorc_variable_names_no_file(tmp_path):
    """As in Theano, THEANORC= turns ~/.theanorc off."""
    (tmp_path / ".theanorc").write_text("[global]\ncontexts = a->cpu0\n")

    assert find(tmp_path, {"THEANORC": "", "HOME": str(tmp_path)}) is None


def test_the_environment_is_only_what_is_passed(tmp_path, monkeypatch):
    """os.environ is never read."""
    (tmp_path / ".theanorc").write_text("[global]\ncontexts = a->cpu0\n")
    monkeypatch.setenv("GPUMAP_CONTEXTS", "b->cpu0")
    monkeypatch.setenv("THEANO_FLAGS", "contexts=c->cpu0")
    monkeypatch.setenv("HOME", str(tmp_path))

    assert (find(tmp_path), find(tmp_path, {"THEANORC": "~/.theanorc"})) == (None, None)


# --- any text

PIECES = st.sampled_from(
    ["contexts", "=", "->", ";", ",", "#", "'", '"', "\\", " ", "\n", "[global]", "%(contexts)s",
     "%(x)s", "%", "dev0", "cuda0", "[", "]", ":", "x = 1", "\ncontexts = ", "\x1b", "\0",
     "Contexts"]
)  # fmt: skip
TEXT = st.text() | st.lists(PIECES).map("".join)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return one folder for all examples of hypothesis."""
    return tmp_path_factory.mktemp("home")


@given(flags=TEXT, rc=TEXT, headed=st.booleans())
def test_any_text_is_a_map_or_an_error_of_ours(home, flags, rc, headed):
    """Whatever stands in THEANO_FLAGS and .theanorc, nothing but a GpumapError escapes."""
    content = "[global]\n" * headed + rc
    (home / ".theanorc").write_bytes(content.encode("utf-8", "surrogatepass"))
    said = ()
    for env in ({"THEANO_FLAGS": flags}, {}):
        try:
            found = find(home, env | {"HOME": str(home)})
        except GpumapError as error:
            said += error.diagnostics
        else:
            assert found is None or isinstance(found, MapText)
            said += () if found is None else found.notes

    assert all((d.message + (d.hint or "")).isprintable() for d in said)
    assert all(len(d.message) < 300 for d in said if str(home) not in d.message)


def test_a_file_that_is_found_and_that_others_can_write_is_no_source(tmp_path):
    """Whoever can write it would choose the devices of each program below its folder."""
    path = tmp_path / "gpumap.toml"
    path.write_text('map = "a->cpu0"')
    path.chmod(0o646)

    with pytest.raises(SourceError):
        find(tmp_path)
