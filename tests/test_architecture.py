"""Who may import whom, who may print, and what a start must not load."""

from __future__ import annotations

import ast
import json
import re
import sys
from graphlib import TopologicalSorter

import pytest
from mpi_jobs import run
from tables import table
from written import ROOT

TABLE = table(__file__)
MAY_IMPORT, ONLY_IN = TABLE["may_import"], TABLE["only_in"]
OUTER, NOT_AT_START = set(TABLE["outer"]), TABLE["not_at_start"]
OUTER_IN = {name: set(outer) for name, outer in TABLE["outer_in"].items()}
OF_EXPLAIN = {"tomllib", "msgspec"}  # its texts are files of TOML, and benchmarks' own words
START, MAIN = TABLE["start"], TABLE["main"]
CHECK = ["check", "--syntax-only", "dev0->cuda0"]
NOT_IN_A_CHECK = ("gpumap.model.measurements", "gpumap.judge.traces", "gpumap.results.rows")


def modules():
    found = {}
    for file in (ROOT / "gpumap").rglob("*.py"):
        *folders, name = file.relative_to(ROOT / "gpumap").with_suffix("").parts
        found[".".join(folders if folders and name == "__init__" else [*folders, name])] = file
    return found


MODULES = modules()
TREES = {name: ast.parse(file.read_text(), file) for name, file in MODULES.items()}


def imports(name):
    """Yield every name that a module imports, at whatever depth; a module's own where it is one."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full.removeprefix("gpumap.") in MODULES else base


def own(names):
    for full in names:
        if full == "gpumap":
            yield "__init__"
        elif full.startswith("gpumap."):
            yield full.removeprefix("gpumap.")


def inside(name, places):
    return any(name == place or name.startswith(f"{place}.") for place in places)


def test_every_module_imports_only_what_the_table_allows():
    """The table is the architecture: also what is imported late, or for types alone."""
    assert {(name, other) for name in MODULES for other in strangers(name)} == set()
    assert {name for name in MAY_IMPORT if "." in name} <= set(MODULES)
    places = {*MODULES, *(name.rpartition(".")[0] for name in MODULES)}
    allowed = {place for line in MAY_IMPORT.values() if line != "*" for place in line.split()}
    assert allowed <= places  # a line that allows what does not exist hides what it was for
    nodes = [(name, node) for name, tree in TREES.items() for node in ast.walk(tree)]
    assert [n for n, node in nodes if isinstance(node, ast.ImportFrom) and node.level] == []


def strangers(name):
    folder = name.partition(".")[0]
    line = MAY_IMPORT[name if name in MAY_IMPORT else folder]
    if line != "*":
        allowed = (*line.split(), folder)
        yield from (other for other in own(imports(name)) if not inside(other, allowed))


def test_a_library_is_imported_in_its_own_place():
    """What may be missing, slow or able to crash has one place."""
    used = {(name, full.partition(".")[0]) for name in MODULES for full in imports(name)}
    assert {(n, lib) for n, lib in used if not inside(n, ONLY_IN.get(lib, n).split())} == set()


def test_only_writers_make_text_printable():
    """A message escaped where it is made is escaped for one writer, and compared by no other."""
    assert {name for name in MODULES if "escape" in own(imports(name))} == set(TABLE["writers"])


def test_only_the_command_line_touches_the_outer_world():
    """Everything else is given what it needs, and returns or raises."""
    found = {
        name: touched(tree)
        for name, tree in TREES.items()
        if not inside(name, ("cli", "commands", "app"))
    }
    assert {name: outer for name, outer in found.items() if outer} == OUTER_IN


def touched(tree):
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        elif isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found & OUTER


def test_neither_modules_nor_folders_form_a_circle():
    """Each can be understood after those that it names, also for their types alone.

    A circle opens where what both need moves down, or where who calls says what the other asked.
    """
    modules = {name: set(own(imports(name))) - {name} for name in MODULES}
    folders = {name.partition(".")[0]: set() for name in MODULES if name != "__init__"}
    for name, others in modules.items():
        here = name.partition(".")[0]
        if here in folders:
            folders[here] |= {other.partition(".")[0] for other in others} - {here, "__init__"}
    for graph in (modules, folders):
        assert {*TopologicalSorter(graph).static_order()} == {*graph}  # raises CycleError with it


def test_what_differs_between_kinds_is_asked_of_their_table():
    """Whoever names a kind would have to be found when there is another one."""
    own = ("parse", "kinds", "backends")
    lines = [
        f"{name}: {line.strip()}"
        for name, file in MODULES.items()
        if not inside(name, own)
        for line in file.read_text().splitlines()
        if re.search(r"\bKind\.[A-Z]", line)
    ]
    assert len(lines) <= 10, lines


COMMANDS = (["--version"], ["--help"], CHECK, ["explain"], ["explain", "speedup", "3"])


@pytest.mark.parametrize("arguments", [None, *COMMANDS], ids=str)
def test_a_start_loads_no_library_that_it_does_not_use(arguments, tmp_path):
    """The help and the grammar are instant; a check of the grammar loads nothing of figures."""
    code = MAIN.format(arguments=arguments) if arguments else "import gpumap.cli"
    unwanted = {*NOT_AT_START, *(NOT_IN_A_CHECK if arguments == CHECK else ())}
    if arguments == ["--help"]:
        unwanted.add("gpumap.commands")
    if arguments and "explain" in arguments:
        unwanted -= OF_EXPLAIN
    assert started(code, unwanted, tmp_path) == (0, "")


def test_a_benchmark_without_a_flag_loads_no_text_and_no_training(tmp_path, monkeypatch):
    """Scripted devices are exact: no row has a flag that the table would explain."""
    monkeypatch.setenv("GPUMAP_FAKE", str(ROOT / "examples" / "gpus.toml"))
    dot = ["bench", "dot", "a->cuda0", "--backend", "fake", "--size", "4096", "--budget", "1s"]
    code = MAIN.format(arguments=[*dot, "--quiet"])
    unwanted = {"gpumap.explain", "gpumap.doctor.diagnose", "gpumap.training"}
    assert started(code, unwanted, tmp_path) == (0, "")


def test_a_wheel_is_built_with_click_alone(tmp_path):
    """Its man pages are made where no other library is installed."""
    code = f"sys.path.insert(0, {str(ROOT)!r})\nfrom hatch_build import pages\nassert pages()"
    assert started(code, {"msgspec", "numpy", "tabulate", "psutil", "jinja2"}, tmp_path) == (0, "")


def started(code, unwanted, folder):
    script = START.format(code=code, names=unwanted)
    done = run([sys.executable, "-c", script], folder, HOME=str(folder))
    return done.returncode, done.stderr


WALKED = ("bench", "dot", "a->cuda0;b->cuda1", "--backend", "fake", "--budget", "1s", "--quiet")


def stops_of_a_map():
    """Return the rows of docs/architecture.md about the way of a map."""
    section = (ROOT / "docs" / "architecture.md").read_text().partition("## The way of a map")[2]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return cells[2 : next(n for n, row in enumerate(cells) if row[0] == "render") + 1]


def test_each_stop_of_a_map_is_called_in_its_order(tmp_path):
    """The way from a command to the printed table is what docs/architecture.md says it is."""
    found = stops_of_a_map()
    stops = [row[0] for row in found]
    assert stops == [
        "command", "request", "resolve", "open", "measure", "report", "judge", "render",
    ]  # fmt: skip
    files = {file for row in found for file in re.findall(r"`([\w/]+\.py)`", row[1])}
    assert [file for file in files if not (ROOT / "gpumap" / file).is_file()] == []
    assert len(files) <= 12
    env = {"HOME": str(tmp_path), "GPUMAP_FAKE": str(ROOT / "examples" / "gpus.toml")}
    done = run([sys.executable, "-c", TABLE["walk"], *WALKED], tmp_path, **env)
    assert (done.returncode, "a+b" in done.stdout) == (0, True)
    calls = [tuple(call) for call in json.loads(done.stderr)]
    named = [re.findall(r"`([\w/]+\.py)`: `(\w+)`", row[1]) for row in found]
    walk = [call for row in named for call in row]
    assert len(walk) > len(stops)
    assert [call for call in calls if call in walk] == walk
