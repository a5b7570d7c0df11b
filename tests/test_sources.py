"""Where a map comes from: the order of the places, Theano's rules, and what they drop."""

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal
from tables import table

from gpumap import sources
from gpumap.errors import GpumapError, QuestionError, SourceError
from gpumap.model import MapText

TABLE = table(__file__)
TWO = "dev0->cuda0;dev1->cuda1"


def find(cwd, env=None, argument=None, option=None):
    return sources.find(argument=argument, option=option, env=env or {}, cwd=cwd)


def rc(tmp_path, text, **env):
    """Write .theanorc; return an environment whose home has it."""
    (tmp_path / ".theanorc").write_text(text)
    return {"HOME": str(tmp_path), **env}


@pytest.mark.parametrize(("given", "env"), TABLE["set_first"])
def test_nothing_after_the_first_is_read(tmp_path, given, env):
    """What is broken further down does not matter once a place is set."""
    (tmp_path / "gpumap.toml").mkdir()
    os.mkfifo(tmp_path / ".theanorc")
    env = {"THEANO_FLAGS": "'", "HOME": str(tmp_path), **env}
    assert find(tmp_path, env, **given).text == "a->cpu0"


@pytest.mark.parametrize("env", [{}, {"GPUMAP_CONTEXTS": " \n", "THEANO_FLAGS": " ", "HOME": ""}])
def test_nothing_set_is_none(tmp_path, env):
    """No place, or only blank variables, one of which names no file: there is no map."""
    assert find(tmp_path, env) is None
    assert find(tmp_path, rc(tmp_path, "[global]\ncontexts = a->cpu0\n", THEANORC="")) is None


@pytest.mark.parametrize(("given", "found"), TABLE["empty_maps"])
def test_an_empty_map_that_was_given_is_an_empty_map(tmp_path, given, found):
    """An empty argument, option, file or setting is set; an empty variable is not."""
    (tmp_path / "empty").touch()
    (tmp_path / "gpumap.toml").write_text('map = ""')
    env = {"GPUMAP_CONTEXTS": "", "THEANO_FLAGS": f"contexts={TWO}"}
    setting = ("gpumap.toml", f"{tmp_path}/gpumap.toml")
    assert find(tmp_path, env, **given or {}) == MapText("", *found or setting)


@pytest.mark.parametrize("given", TABLE["twice"])
def test_two_at_once_are_an_error(tmp_path, given):
    """Of argument and --map only one may be there, also if it is empty."""
    said = refusal(QuestionError, find, tmp_path, **given).message
    assert said == "the map is given twice: by the argument MAP and by --map"


@pytest.mark.parametrize("text", ["@a->cpu0", "@ ->", "@gone", "@"])
def test_an_at_sign_names_a_file_where_there_is_no_arrow(tmp_path, text):
    """The name of an entry may begin with one; a file that is not there is said, by its name."""
    if "->" in text:
        assert find(tmp_path, option=text) == MapText(text, "--map")
    else:
        named = text[1:] or "@ names no file"
        assert named in refusal(SourceError, find, tmp_path, option=text).message


@pytest.mark.parametrize("value", ["1", "1.5", "true", "[]", "{}", "2020-01-01"])
def test_a_setting_that_is_no_text_is_an_error(tmp_path, value):
    """What gpumap.toml sets as map is text; where it sets none, the search goes on."""
    (tmp_path / "gpumap.toml").write_text(f"map = {value}")
    said = refusal(GpumapError, find, tmp_path).message
    assert said == f"{tmp_path}/gpumap.toml: map must be text"
    (tmp_path / "gpumap.toml").write_text(f"seed = {value}")
    assert find(tmp_path, {"THEANO_FLAGS": "contexts=a->cpu0"}).text == "a->cpu0"


def test_a_file_that_is_found_and_that_others_can_write_is_no_source(tmp_path):
    """Whoever can write it would choose the devices of each program below its folder."""
    path = tmp_path / "gpumap.toml"
    path.write_text('map = "a->cpu0"')
    path.chmod(0o646)
    with pytest.raises(SourceError):
        find(tmp_path)


@pytest.mark.parametrize(("flags", "text"), TABLE["flags_are_read_as_theano_reads_them"])
def test_flags_are_read_as_theano_reads_them(tmp_path, flags, text):
    """POSIX shlex, split at commas only, then at the first equals sign; nothing to warn about."""
    (tmp_path / ".theanorc").write_text("[global]\n")
    env = {"THEANO_FLAGS": flags, "HOME": str(tmp_path)}
    expected = text and MapText(text, "THEANO_FLAGS")
    assert (expected, ()) == (find(tmp_path, env), sources.ignored(env))


@pytest.mark.parametrize(("flags", "text"), TABLE["dropped"])
def test_what_theano_drops_silently_is_said(tmp_path, flags, text):
    """The text is what Theano would read; the note says what it lost."""
    found = find(tmp_path, {"THEANO_FLAGS": flags})
    (note,) = found.notes
    assert (found.text, found.origin) == (text, "THEANO_FLAGS")
    assert (note.code, note.severity) == ("flags-lost", "warning")


@pytest.mark.parametrize("flags", TABLE["unseen"])
def test_a_map_that_theano_does_not_see_is_none_and_said(tmp_path, flags):
    """The search goes on to .theanorc and takes the warning along; ignored() has it too."""
    env = {"THEANO_FLAGS": flags}
    (note,) = sources.ignored(env)
    assert find(tmp_path, env) is None
    expected = MapText("b->cpu0", ".theanorc", f"{tmp_path}/.theanorc", (note,))
    assert expected == find(tmp_path, rc(tmp_path, "[global]\ncontexts = b->cpu0", **env))


@pytest.mark.parametrize(("flag", "device"), [("", "cuda0"), ("device=cuda,", "cuda")])
def test_the_flags_win_over_theanorc_option_by_option(tmp_path, flag, device):
    """A device of .theanorc counts for a map of the flags, unless they have one too."""
    env = rc(tmp_path, "[global]\ndevice = cuda0\n", THEANO_FLAGS=f"{flag}contexts={TWO}")
    found = sources.theano_options(env=env, cwd=tmp_path)
    assert (found["device"][0], found["contexts"][0]) == (device, TWO)


def test_an_empty_flag_overrides_theanorc(tmp_path):
    """contexts= in the flags means no map; without it a .theanorc that is no text is an error."""
    (tmp_path / ".theanorc").mkdir()
    assert find(tmp_path, {"THEANO_FLAGS": "contexts=", "HOME": str(tmp_path)}) is None
    said = refusal(SourceError, find, tmp_path, {"HOME": str(tmp_path)}).message
    assert said == f"cannot read the .theanorc {tmp_path}/.theanorc: is a directory"


@pytest.mark.parametrize(("content", "text"), TABLE["theanorc_is_read_as_theano_reads_it"])
def test_theanorc_is_read_as_theano_reads_it(tmp_path, content, text):
    """Names in any case, continuation lines; but a value names no other one."""
    path = tmp_path / ".theanorc"
    path.write_bytes(content.encode())
    expected = text and MapText(text, ".theanorc", str(path))
    assert expected == find(tmp_path, {"HOME": str(tmp_path)})


@pytest.mark.parametrize(("content", "line"), TABLE["unreadable"])
def test_a_theanorc_that_theano_cannot_read_is_an_error(tmp_path, content, line):
    """The file and the line are named at once, and nothing of the line is printed raw."""
    said = refusal(SourceError, find, tmp_path, rc(tmp_path, content)).message
    assert said.startswith("cannot read the .theanorc: ")
    assert said.count(f"{tmp_path}/.theanorc") == 1
    assert re.search(rf"line:? +{line}\b", said)
    assert said.isprintable()


@pytest.mark.parametrize(("listed", "text", "origin"), TABLE["several"])
def test_of_several_theanorc_the_last_that_sets_it_counts(tmp_path, listed, text, origin):
    """THEANORC is a list; a later file wins option by option; ~ is HOME; none is missed."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"[global]\ncontexts = {name}->cpu0\n")
    (tmp_path / "other").write_text("[global]\nfloatX = float32\n")
    actual = find(tmp_path, {"THEANORC": listed, "HOME": str(tmp_path)})
    assert MapText(text, ".theanorc", str(tmp_path / origin)) == actual


def test_each_option_is_of_the_theanorc_that_sets_it(tmp_path):
    """A later file that says nothing of an option is not named for it."""
    (tmp_path / "a").write_text("[global]\ndevice = cuda0\nfloatX = float64\n")
    (tmp_path / "b").write_text("[global]\nfloatX = float32\n")
    env = {"THEANORC": f"{tmp_path}/a:{tmp_path}/b"}
    found = sources.theano_options(env=env, cwd=tmp_path)
    assert found == {"device": ("cuda0", f"{tmp_path}/a"), "floatX": ("float32", f"{tmp_path}/b")}


PIECES = st.sampled_from(TABLE["pieces"])
TEXT = st.text() | st.lists(PIECES).map("".join)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
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
    assert all(len(d.message) < 300 for d in said if str(home) not in d.message)
