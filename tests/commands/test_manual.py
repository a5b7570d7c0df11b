"""The man pages are read back as what the commands say; the lists of docs/commands.md are true."""

import re
import shutil
import subprocess

import pytest
from written import ROOT, listed

from gpumap import cli
from hatch_build import contexts, pages


@pytest.mark.parametrize("variable", listed("Variables"))
def test_a_variable_is_one_that_gpumap_reads(variable):
    sources = (ROOT / "gpumap").rglob("*.py")
    assert any(f'"{variable}"' in path.read_text() for path in sources)


def test_the_files_are_those_that_set_something():
    files = listed("Files")
    assert set(re.findall("`(.*?)`", files["gpumap.toml"])) == set(cli._CONFIG)


@pytest.mark.parametrize(
    "reader", [("groff", "-man", "-ww", "-Tutf8", "-P-cbou"), ("mandoc", "-man", "-Tutf8")]
)
@pytest.mark.filterwarnings("ignore:'click.utils.make_default_short_help'")  # click-man's
def test_a_man_page_is_read_back_as_its_command_says_it(reader, tmp_path):
    """Every option with its text, and without a warning."""
    if shutil.which(reader[0]) is None:
        pytest.skip(f"{reader[0]} is not installed (make system installs it)")
    for name, text in pages().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for context in contexts(cli.group):
        page = tmp_path / f"{context.command_path.replace(' ', '-')}.1"
        done = subprocess.run([*reader, page], capture_output=True, text=True, check=False)
        shown = "".join(re.sub(r".\x08", "", done.stdout).split())  # mandoc's bold
        assert (done.returncode, done.stderr) == (0, "")
        options = [param for param in context.command.params if param.param_type_name == "option"]
        for option in options:
            terms, text = option.get_help_record(context)
            assert "".join(f"{terms}{text}".split()) in shown
