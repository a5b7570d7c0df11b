"""What users see, compared with the files of tests/expected: `make expected` writes them anew."""

import shlex
import sys

import pytest
import surface
from commands.ranks import needs_mpi
from expected_real import OF_CUDA, OF_RANKS, ON_CORES, facts
from expected_runs import RUNS
from flat_report import loads
from golden import FOLDER, folded, held, masked, outline, rounded
from mpi_jobs import MPIRUN, ended, started
from standin import environment, needs_standin

from gpumap.machine.topology import read
from gpumap.model import io
from gpumap.version import __version__

two_cores = pytest.mark.skipif(
    len(read().physical) < 2, reason="this machine has one physical core to run on"
)


def shown(gpumap, text):
    places = {gpumap.folder: "<folder>", gpumap.folder.parent: "<above>"}
    return masked(text, places, __version__)


def written(gpumap, run):
    """Return what a run wrote: its code, both streams, and a file of each format."""
    for script, command in run.before:
        assert gpumap.fake(script)(*command.split(" ")).code in (0, 5)
    for name, text in run.files.items():
        (gpumap.folder / name).write_text(text)
    words = (*run.command.split(" "), *run.behind)
    files = {form: gpumap.folder / f"report.{form}" for form in run.formats}
    more = [word for form, path in files.items() for word in ("--output", f"{form}={path.name}")]
    first, *rest = words
    given = [*more, *rest] if "--" in rest or "script.py" in rest else [*rest, *more]
    answer = gpumap.fake(run.script)(first, *given, **run.env)
    parts = {"stdout": answer.out, "stderr": answer.err}
    parts |= {form: path.read_text() for form, path in files.items() if path.exists()}
    if "json" in parts and "rich" in parts and words[0] != "report":
        wide = gpumap("report", files["json"].name, "--format", "rich", COLUMNS="120").out
        parts |= {} if wide == parts["rich"] else {"rich, 120 columns": wide}
    assert answer.code == run.code, answer.err
    if "json" in parts and words[0] != "report":  # every kind of report comes back
        assert io.written(io.read(files["json"])) == parts["json"]
    return words, answer.code, parts


def document(gpumap, words, code, parts):
    typed = shlex.join(words).encode("unicode_escape").decode()
    lines = [f"$ gpumap {typed}\n", f"exit code {code}\n"]
    for name, whole in parts.items():
        text = shown(gpumap, outline(whole) if name == "html" else whole)
        end = "" if not text or text.endswith("\n") else "\n<no line break>\n"
        text = folded(text) if name == "json" else rounded(text, 12) if name == "csv" else text
        lines.append(f"\n===== {name}\n{text}{end}")
    return "".join(lines)


@pytest.mark.parametrize("name", RUNS)
def test_a_run_writes_what_it_wrote(gpumap, renew, name):
    """Both streams, the exit code and every format, but for what varies by time or machine."""
    if "html" in RUNS[name].formats:  # it draws charts
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


FILES = ("--output", "json=r.json", "--output", "csv=r.csv")


def compared(gpumap, name, command, answer, *, renew):
    """Compare what of a run on real devices is no figure; `answer` is its code and its stderr."""
    code, err = answer
    report, table = (gpumap.folder / name for name in ("r.json", "r.csv"))
    assert report.exists(), err
    text = facts(command, code, loads(report.read_text()), table.read_text())
    held(name, text, renew=renew)


@two_cores
@pytest.mark.parametrize("name", ON_CORES)
def test_a_run_on_cores(gpumap, renew, name):
    answer = gpumap(*ON_CORES[name].split(" "), *FILES)
    compared(gpumap, f"cores/{name}", ON_CORES[name], (answer.code, answer.err), renew=renew)


@needs_mpi
@two_cores
@pytest.mark.parametrize("name", OF_RANKS)
def test_a_run_of_two_ranks(gpumap, renew, name):
    """Rows, columns, ranks and the exit code of a job that mpirun has started."""
    words = [*OF_RANKS[name].split(" "), *FILES]
    code, _, err = ended(started(gpumap, [*MPIRUN, "2", sys.executable, "-m", "gpumap", *words]))
    compared(gpumap, f"ranks/{name}", OF_RANKS[name], (code, err), renew=renew)


@needs_standin
@pytest.mark.parametrize("name", OF_CUDA)
def test_a_run_over_the_stand_in_for_cuda(gpumap, standin, renew, name):
    env = environment(standin, 2, base=gpumap.env)
    answer = gpumap.run([gpumap.command, *OF_CUDA[name].split(" "), *FILES], **env)
    compared(gpumap, f"cuda/{name}", OF_CUDA[name], (answer.code, answer.err), renew=renew)


def test_no_file_is_left_of_what_is_gone():
    names = [f"runs/{name}" for name in RUNS]
    names += [f"help/{name.replace(' ', '-') or 'gpumap'}" for name in HELP]
    names += ["explain/list", "headlines", "surface"]
    for folder, table in {"cores": ON_CORES, "ranks": OF_RANKS, "cuda": OF_CUDA}.items():
        names += [f"{folder}/{name}" for name in table]
    there = {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()}
    assert there - {f"{name}.txt" for name in names} == set()
