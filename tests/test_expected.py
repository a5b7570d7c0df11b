"""What users see, compared with the files of tests/expected: `make expected` writes them anew."""

import shlex

import pytest
import surface
from commands.scripts import scripted
from golden import FOLDER, folded, held, masked, outline, rounded
from tables import table

from gpumap.model import io
from gpumap.version import __version__

EVERY = ("rich", "json", "csv", "markdown", "junit", "github", "html")
RUNS = table(__file__, "expected_runs")


def formats(run):
    found = run.get("formats", ())
    return EVERY if found == "every" else found


def written(gpumap, run):
    """Return what a run wrote: its code, both streams, and a file of each format."""
    for earlier in run.get("before", ()):
        assert gpumap.fake(scripted(earlier))(*earlier["command"].split(" ")).code in (0, 5)
    for name, text in run.get("files", {}).items():
        (gpumap.folder / name).write_text(text)
    words = (*run["command"].split(" "), *run.get("behind", ()))
    files = {form: gpumap.folder / f"report.{form}" for form in formats(run)}
    more = [word for form, path in files.items() for word in ("--output", f"{form}={path.name}")]
    first, *rest = words
    given = [*more, *rest] if "--" in rest or "script.py" in rest else [*rest, *more]
    answer = gpumap.fake(scripted(run))(first, *given, **run.get("env", {}))
    parts = {"stdout": answer.out, "stderr": answer.err}
    parts |= {form: path.read_text() for form, path in files.items() if path.exists()}
    if "json" in parts and "rich" in parts and words[0] != "report":
        wide = gpumap("report", files["json"].name, "--format", "rich", COLUMNS="120").out
        parts |= {} if wide == parts["rich"] else {"rich, 120 columns": wide}
    assert answer.code == run["code"], answer.err
    if "json" in parts and words[0] != "report":  # every kind of report comes back
        assert io.written(io.read(files["json"])) == parts["json"]
    return words, answer.code, parts


def document(gpumap, words, code, parts):
    typed = shlex.join(words).encode("unicode_escape").decode()
    lines = [f"$ gpumap {typed}\n", f"exit code {code}\n"]
    places = {gpumap.folder: "<folder>", gpumap.folder.parent: "<above>"}
    for name, whole in parts.items():
        text = masked(outline(whole) if name == "html" else whole, places, __version__)
        end = "" if not text or text.endswith("\n") else "\n<no line break>\n"
        text = folded(text) if name == "json" else rounded(text, 12) if name == "csv" else text
        lines.append(f"\n===== {name}\n{text}{end}")
    return "".join(lines)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_writes_what_it_wrote(gpumap, renew, name):
    if "html" in formats(RUNS[name]):  # it draws charts
        pytest.importorskip("matplotlib", reason="no matplotlib: pip install matplotlib")
    held(f"runs/{name}", document(gpumap, *written(gpumap, RUNS[name])), renew=renew)


HELP = ["", *(name for name, _ in surface.commands())]


@pytest.mark.parametrize("name", HELP)
def test_a_command_has_the_help_that_it_had(gpumap, renew, name):
    answer = gpumap(*name.split(), "--help", GPUMAP_BACKEND="fake")
    assert (answer.code, answer.err) == (0, "")
    held(f"help/{name.replace(' ', '-') or 'gpumap'}", answer.out, renew=renew)


def test_the_list_of_topics(gpumap, renew):
    held("explain/list", gpumap("explain", GPUMAP_BACKEND="fake").out, renew=renew)


def test_no_file_is_left_of_what_is_gone():
    names = [f"runs/{name}" for name in RUNS]
    names += [f"help/{name.replace(' ', '-') or 'gpumap'}" for name in HELP]
    names += ["explain/list", "headlines", "surface"]
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert there - {f"{name}.txt" for name in names} == set()
