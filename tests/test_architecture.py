"""Who may import whom, who may print, and what a start must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What a module or folder may import of gpumap, beside itself. "backends.base" allows that module
# alone, "backends" the whole folder. A more exact line wins over a folder's.
MAY_IMPORT = {
    "errors": "",
    "version": "",
    "units": "",
    "dtypes": "",
    "stats": "",
    "lazy_numpy": "",
    "fit": "lazy_numpy model stats",
    "escape": "",
    "cut": "escape model",
    "spelling": "errors",
    "extras": "",
    "opencl_vendors": "errors escape extras files cache",
    "__init__": "version model errors parse contexts running",  # by name, when asked for
    "__main__": "cli app.interrupts",
    # a process of gpumap's, and its report
    "running": "cli cut escape spelling errors model parse saved bench.registry",
    "model": "errors units",
    "files": "errors escape extras",  # what installs gpumap again
    "config": "spelling errors escape files",
    "parse": "model errors escape",
    "sources": "model errors escape config files theano_config",
    "theano_config": "errors escape",
    # of a hook that has Python's own library and nothing else
    "map_files": "model errors escape files sources parse",
    "kernels": "model",
    "machine": "model errors",
    "machine.nvml": "model errors extras",  # what installs its library
    "backends": "spelling model errors escape extras dtypes kernels machine",
    "backends.pyopencl.devices": "backends model errors escape extras opencl_vendors",
    # its script is a TOML file, and its devices are written as in a map
    "backends.fake.script": "model errors escape config dtypes parse",
    "resolve": "model errors escape backends machine",
    "judge": "cut spelling model stats units escape bench.registry",
    "judge.exit_code": "model errors",  # the numbers themselves
    # what a text selects, or why nothing
    "judge.select": "spelling model units errors bench.registry",
    "judge.limits": "model units errors stats",  # what a text asks for, or why nothing
    "judge.gate": "model units errors",  # what a verdict means for the exit code
    "distributed": "lazy_numpy model errors escape extras dtypes backends.base",
    # a network and a table of the user's; and whether a gradient is right
    "training": "lazy_numpy spelling model errors escape files fit kernels backends.base "
    "distributed bench.base bench.verify bench.mpi_ranks",
    "bench.registry": "model",  # benchmarks by name alone
    "bench": "lazy_numpy cut spelling dtypes model errors units stats fit kernels backends.base "
    "backends.hollow distributed training judge machine",
    "bench.chain": "cut dtypes model errors escape units fit kernels backends.base judge",
    # the cells of its table
    "bench.train": "lazy_numpy model errors stats backends.base distributed training "
    "report.training",
    # what was written, with the rules by which a run writes it
    "saved": "model errors escape files parse version stats judge.exit_code judge.ceilings "
    "bench.model bench.registry distributed training",
    "contexts": "model errors escape kernels backends.base",
    # where a program begins: it finds the map as a command would
    "contexts.opening": "model errors escape opencl_vendors sources parse resolve backends machine",
    "explain": "files spelling bench.registry",  # what benchmarks say of their own words
    "doctor": "explain sources theano_config parse resolve backends bench judge machine model "
    "errors escape files stats units",
    "launch": "spelling model errors machine units",
    "report": "cut model units escape bench.registry",
    # a Diagnostic, the tool's version, and what traces come to
    "report.json": "model units errors version judge.traces",
    "report.rows": "cut model units escape bench.registry judge.few",  # what is told of no range
    # what flags mean
    "report.cells": "cut model units escape bench.registry judge.few explain",
    "report.training": "model units escape bench.registry judge.few",  # as above
    "report.trace": "escape judge.traces model units version",
    "report.csv": "model escape judge.traces",
    "report.diagnostics": "errors escape units",  # what goes to stderr needs no report
    "report.topics": "explain doctor.pages",  # tables of texts
    "report.judged": "model units escape cut judge.compare judge.select judge.verdict",
    "report.beside": "model escape judge.beside judge.select",  # lines, found there
    "report.outcomes": "model errors escape",  # what an exit code stands for
    "report.markdown": "model errors escape",  # lists diagnostics
    "report.html": "errors escape extras judge.few model version",
    "report.charts": "cut model units escape",
    "report.charts.paper": "cut model escape extras",  # what installs matplotlib
    "report.charts.history": "cut model escape judge.beside",  # lines of several reports
    "report.github": "model errors escape",  # annotates with them
    # what a command does, from its request to its report: all but the command line
    "app": "backends bench contexts doctor errors explain escape extras files judge launch machine "
    "model opencl_vendors distributed training parse report resolve saved sources spelling units",
    "commands": "app report errors escape units map_files",
    "commands.about": "completion version",
    "commands.bench": "bench.registry",  # the benchmarks by name
    # options become values: of a request, and of what judges its report
    "commands.options": "app report errors escape bench.base judge.compare judge.gate judge.limits",
    "commands.option_types": "spelling app report errors units files judge.limits judge.select",
    # commands only by name: LazyGroup imports the one that is called
    "cli": "app.program app.interrupts completion config errors escape report.diagnostics spelling "
    "version",
    "completion": "errors escape report bench.registry",  # the formats
    "bench.sizes": "backends.base backends.hollow cut dtypes errors escape fit "
    "judge kernels machine model spelling stats units",
    "machine.cuda": "errors escape model",
}

# Where a library may be imported.
ONLY_IN = {
    "pyopencl": "backends.pyopencl",
    "cupy": "backends.cupy",
    "cupyx": "backends.cupy",
    "cupy_backends": "backends.cupy",
    "pygpu": "backends.pygpu",
    "mpi4py": "distributed.mpi",
    "pynvml": "machine.nvml",
    "psutil": "machine launch.remains",
    "threadpoolctl": "machine.blas machine.fingerprint",  # the limit; what to report
    "click": "cli commands completion app.remeasure",  # what a report's line ran
    "rich": "report app.progress",
    "tabulate": "report",
    "matplotlib": "report.charts",
    "jinja2": "report.html",
    "markupsafe": "report.html",
    "msgspec": "model saved",
}  # fmt: skip

# What touches the outer world: only `cli`, `commands` and `app` may, but for these.
OUTER = ("print", "input", "exit", "quit", "sys.argv", "sys.exit", "sys.stdin", "sys.stdout",
         "sys.stderr", "sys.__stdout__", "sys.__stderr__", "os.environ", "os.environb", "os.getenv",
         "os.putenv", "os._exit")  # fmt: skip
OUTER_IN = {
    "__main__": {"sys.exit", "os._exit"},  # of a script
    # the child process that asks a driver: a program of its own
    "backends.probe": {"sys.argv", "os.environ", "sys.stdin", "os._exit"},
    "doctor.gather": {"sys.argv"},  # a child, too
    "doctor.measuring": {"sys.argv", "sys.stdin", "os.environ"},
    "running": {"os.environ"},  # of a program, as above; a process of ours inherits it
    "contexts.opening": {"os.environ"},  # of a program that has no command line of ours
    "launch.child": {"os._exit"},  # of a fork that could not become the program
    "launch.remains": {"os._exit"},  # of the keeper, a fork
    # PoCL reads POCL_AFFINITY from the environment of its own process, and from nowhere else
    "backends.pyopencl.devices": {"os.environ"},
}

NOT_AT_START = (
    "numpy", "rich", "tabulate", "matplotlib", "jinja2", "importlib.metadata", "psutil", "msgspec",
    "pyopencl", "cupy", "pygpu", "threadpoolctl", "tomllib", "configparser", "subprocess",
)  # fmt: skip
OF_EXPLAIN = {"tomllib"}  # its texts are files of TOML: nothing else of the list is loaded
CHECK = ["check", "--syntax-only", "dev0->cuda0"]
NOT_IN_A_CHECK = ("gpumap.model.measuring", "gpumap.judge.traces", "gpumap.report.rows")


def modules():
    found = {}
    for file in (ROOT / "gpumap").rglob("*.py"):
        *folders, name = file.relative_to(ROOT / "gpumap").with_suffix("").parts
        found[".".join(folders if folders and name == "__init__" else [*folders, name])] = file
    return found


MODULES = modules()
TREES = {name: ast.parse(file.read_text(), file) for name, file in MODULES.items()}


def imports(name, *, types=True):
    """Return every name that a module imports, at whatever depth; or all but for its types."""
    hidden = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            hidden |= set(ast.walk(node))
    return imported(node for node in ast.walk(TREES[name]) if node not in hidden)


def imported(nodes):
    """Return every name that import statements name; a module's own where it is one."""
    for node in nodes:
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


def strangers(name):
    folder = name.partition(".")[0]
    line = MAY_IMPORT[name if name in MAY_IMPORT else folder]
    if line != "*":
        allowed = (*line.split(), folder)
        yield from (other for other in own(imports(name)) if not inside(other, allowed))


def test_every_exact_line_of_the_table_has_a_module():
    """A line for a file that went away would allow what nobody asked for."""
    assert {name for name in MAY_IMPORT if "." in name} <= set(MODULES)


def test_imports_are_absolute():
    nodes = [(name, node) for name, tree in TREES.items() for node in ast.walk(tree)]
    assert [n for n, node in nodes if isinstance(node, ast.ImportFrom) and node.level] == []


def test_a_library_is_imported_in_its_own_place():
    """What may be missing, slow or able to crash has one place."""
    used = {(name, full.partition(".")[0]) for name in MODULES for full in imports(name)}
    assert {(n, lib) for n, lib in used if not inside(n, ONLY_IN.get(lib, n).split())} == set()


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
        if isinstance(node, ast.Attribute) or _is_called(node):
            found.add(ast.unparse(node if isinstance(node, ast.Attribute) else node.func))
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found & set(OUTER)


def _is_called(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def test_no_import_cycles():
    """Modules can be loaded one after the other; what is imported for types alone never is."""
    graph = {name: set(own(imports(name, types=False))) - {name} for name in MODULES}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, which names them
    assert set(order) == set(MODULES)


def test_every_file_of_the_tests_has_a_name_of_its_own():
    """They are imported by it: of two alike one is not run. A conftest.py is pytest's own."""
    own = ("conftest.py", "__init__.py")  # the second, of packages that stand in for others
    names = [file.name for file in (ROOT / "tests").rglob("*.py") if file.name not in own]
    assert sorted({name for name in names if names.count(name) > 1}) == []


START = """
import sys
{code}
loaded = {names}.intersection(sys.modules)
sys.stdout = sys.__stderr__
assert not loaded, loaded
"""
MAIN = """
from gpumap.cli import main
assert main({arguments}) == 0
"""


COMMANDS = (["--version"], ["--help"], CHECK, ["explain"], ["explain", "speedup", "3"])


@pytest.mark.parametrize("arguments", [None, *COMMANDS], ids=str)
def test_a_start_loads_no_library_that_it_does_not_use(arguments, tmp_path):
    """The help and the grammar are instant; a check of the grammar loads nothing of figures."""
    code = MAIN.format(arguments=arguments) if arguments else "import gpumap.cli"
    unwanted = {*NOT_AT_START, *(NOT_IN_A_CHECK if arguments == CHECK else ())}
    if arguments and "explain" in arguments:
        unwanted -= OF_EXPLAIN
    assert started(code, unwanted, tmp_path) == (0, "")


def test_a_benchmark_without_a_flag_loads_no_text_and_no_training(tmp_path, monkeypatch):
    """Scripted devices are exact: no row has a flag that the table would explain."""
    monkeypatch.setenv("GPUMAP_FAKE", str(ROOT / "examples" / "gpus.toml"))
    dot = ["bench", "dot", "a->cuda0", "--backend", "fake", "--size", "4096", "--budget", "1s"]
    code = MAIN.format(arguments=[*dot, "--quiet"])
    unwanted = {"gpumap.explain.lookup", "gpumap.doctor.causes", "gpumap.training"}
    assert started(code, unwanted, tmp_path) == (0, "")


def started(code, unwanted, folder):
    script = START.format(code=code, names=unwanted)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr
