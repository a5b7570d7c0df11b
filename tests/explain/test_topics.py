"""The table of topics is closed: it has every word of a report, and none that does not exist."""

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from report_schema import SCHEMA
from shell import on_a_terminal
from surface import commands
from tables import table as rows

from gpumap import cli
from gpumap.bench import allreduce, chain, dot, registry, train, transfer, transfer_causes
from gpumap.bench.keys import LADDER
from gpumap.comm.local import LIBRARIES
from gpumap.engine import ceilings
from gpumap.errors import Exit
from gpumap.explain import KINDS, named, nearest, table, typed
from gpumap.judge import bottlenecks
from gpumap.judge.exit_status import STATUS
from gpumap.judge.phrases import texts
from gpumap.results import copies, models, predicted, verdicts, watched
from gpumap.training import jobs
from gpumap.training.rules import RULES
from gpumap.training.splits import SPLITS

ROOT = Path(__file__).parents[2] / "gpumap"
TOPICS = table()
TREES = {
    str(file.relative_to(ROOT)): ast.parse(file.read_text(), file)
    for file in sorted(ROOT.rglob("*.py"))
}
NODES = [node for tree in TREES.values() for node in ast.walk(tree)]
DEFS = SCHEMA["$defs"]
FIGURES = DEFS["Metrics"]["properties"]
CASES = {*dot.CASES, *transfer.CASES, *chain.CASES, *allreduce.ALGORITHMS, *jobs.CASES}


def words(name, key):
    return set(DEFS[name]["properties"][key]["enum"])


def names(kind):
    return {topic.name for topic in TOPICS if topic.kind == kind}


def strings(nodes):
    return {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def _first(node):
    return node.args[0] if node.args else next(k.value for k in node.keywords if k.arg == "code")


def calls(names, nodes=NODES):
    every = (n for n in nodes if isinstance(n, ast.Call))
    return [n for n in every if getattr(n.func, "id", getattr(n.func, "attr", None)) in names]


@cache
def given():
    """Return the code of every diagnostic and reason, also where a function only passes it on."""
    made = {"Diagnostic", "Reason"}
    made |= {
        function.name
        for function in NODES
        if isinstance(function, ast.FunctionDef)
        for call in calls(made, ast.walk(function))
        if [ast.unparse(_first(call))] == [a.arg for a in function.args.args][:1]
    }
    return [_first(call) for call in calls(made)]


def codes():
    lines = (line for node in NODES if isinstance(node, ast.ClassDef) for line in node.body
             if isinstance(line, ast.Assign | ast.AnnAssign))  # fmt: skip
    named = [line.value for line in lines if re.match(r"code\b", ast.unparse(line))]
    return strings([*given(), *named]) | {ceilings.CODE}


def parameters():
    """Return every kind of memory, mode and pattern of copies, who exchanges, and how it trains."""
    dicts = (node for node in ast.walk(TREES["bench/transfer.py"]) if isinstance(node, ast.Dict))
    pairs = (pair for node in dicts for pair in zip(node.keys, node.values, strict=True))
    told = ("memory", "mode", "pattern")
    found = strings(value for key, value in pairs if getattr(key, "value", None) in told)
    (family,) = train.SPEC.families
    training = {*family.keys, *RULES, *get_args(get_type_hints(jobs.Scaling)["how"])} - {"comm"}
    training |= {*SPLITS} - {"balanced"}  # the default is in no id
    copying = {"pageable", "pinned", *transfer._MODES}
    who = {"local", "mpi", "torch", *LIBRARIES}
    return {*found, LADDER} | copying | who | training | {"made", "kept"}


def test_every_code_is_a_literal_where_it_is_made():
    """What the table is compared with is all there is: else a code could slip by."""
    others = {ast.unparse(node) for node in given() if not isinstance(node, ast.Constant)}
    assert [text for text in others if not re.fullmatch(r"(.*\.)?code|CODE", text)] == []


@pytest.mark.parametrize(("kind", "listed"), [
    ("metric", {*FIGURES}), ("cause", words("Explanation", "cause") | {*texts("limits")}),
    ("cause", {*(cause for cause, *_ in bottlenecks._FINDERS), "host-faster",
               *transfer_causes.CAUSES, *texts("limits")}),
    ("flag", set(DEFS["Measurement"]["properties"]["flags"]["items"]["enum"])),
    ("mark", words("SampleMark", "mark")), ("row status", words("Measurement", "status")),
    ("report status", set(SCHEMA["properties"]["status"]["enum"])),
    ("stop", words("Stop", "why")), ("case", CASES), ("parameter", parameters()),
    ("route", set(copies._ROUTES)), ("verdict", words("Verdict", "verdict")),
    ("exit code", {str(int(code)) for code in Exit}), ("code", codes()),
])  # fmt: skip
def test_a_closed_list_has_a_topic_for_each_word_and_no_other(kind, listed):
    assert listed == names(kind)


def test_each_reason_of_a_verdict_has_a_text():
    assert set(DEFS["Verdict"]["properties"]["reason"]["anyOf"][0]["enum"]) == {*texts("reasons")}


columns = ([getattr(c, "name", c) for c in spec.columns] for spec in registry.every())
LISTS = (("copy", "on", *copies._MODEL, copies._HALF), models.BREAK_EVENS,
         *verdicts.COLUMNS.values(), *columns, *watched.COLUMNS.values(),
         *predicted.PREDICTED.values())  # fmt: skip
CONCEPTS = ("map", "control", "block", "reference", "ideal", "hardware", "resident", "does not fit",
            "Theano's ratio", "load", "busy", "stolen")  # fmt: skip


def test_what_is_made_has_a_topic_and_what_is_listed_is_made():
    """Marks of samples, metrics, columns, concepts; no topic stands twice for one meaning."""
    trees = [tree for name, tree in TREES.items() if name.startswith(("bench/", "fit"))]
    reported = strings(node for tree in trees for node in ast.walk(tree))
    assert strings(call.args[1] for call in calls({"SampleMark"})) <= names("mark")
    assert FIGURES.keys() - reported == set()
    assert [column for every in LISTS for column in every if not named(column)] == []
    keys = [(topic.kind, topic.name) for topic in TOPICS]
    assert [w for w in CONCEPTS if not {t.kind for t in named(w)} & {"concept", "metric"}] == []
    assert len(set(keys)) == len(keys)
    assert {topic.kind for topic in TOPICS} == set(KINDS) - {"diagnosis"}  # tests/doctor has them


def test_a_topic_is_a_line_and_sentences():
    """The line fits into the list; printable ASCII needs no care; what is wrong has a fix."""
    trouble = ("cause", "flag", "mark", "code")
    assert [topic.name for topic in TOPICS if not well_formed(topic)] == []
    assert [t.name for t in TOPICS if t.kind in trouble and t.text and t.fix is None] == []
    assert {t.kind for t in TOPICS if not t.text} & {"metric", *trouble} == {"code"}
    texts = {topic.name: topic.text for topic in TOPICS if topic.kind == "metric"}
    better = ("lower is better", "higher is better", "neither high nor low is better")
    units = {name: figure["properties"]["unit"]["const"] for name, figure in FIGURES.items()}
    told = {name: f"in {unit};".replace("in 1;", "without a unit;") for name, unit in units.items()}
    assert [name for name, text in texts.items() if told[name] not in text] == []
    assert [n for n, text in texts.items() if sum(b in text for b in better) != 1] == []
    texts = {t.name: f"{t.summary} {t.text}" for t in TOPICS if t.kind == "report status"}
    for code, status in STATUS.items():
        assert re.search(rf"exit code (is )?{int(code)}\b", texts[status])


def well_formed(topic):
    every = [topic.summary, topic.text, *([] if topic.fix is None else [topic.fix])]
    ends = topic.text[-1:] in ("", ".") and not topic.summary.endswith(".")
    clean = (t.isascii() and t.isprintable() and t == t.strip() and "  " not in t for t in every)
    return len(topic.summary) <= 70 and ends and all(clean)


@cache
def known():
    """Return every word that the source has: literals, keys of the schema, commands."""
    keys = set(re.findall(r'"([a-z_0-9]+)":', json.dumps(SCHEMA)))
    return strings(NODES) | keys | set(cli.COMMANDS)


def test_a_topic_names_nothing_that_does_not_exist():
    """Words in backquotes are keys, cases, commands; topics to look up and options are there."""
    listed = {word for topic in TOPICS for word in re.findall(r"\*([a-z-]+)\*", topic.text)}
    assert {"xid", "soak"} <= listed
    assert [word for word in listed if not named(word)] == []
    assert {t.name: unknown(t) for t in TOPICS if unknown(t) != ([], [])} == {}
    options = {text for _, command in commands() for param in command.params for text in param.opts}
    texts = " ".join(f"{t.summary} {t.text} {t.fix}" for t in TOPICS).replace("docker --cpus", "")
    assert set(re.findall(r"--[a-z-]+", texts)) - options == set()


def unknown(topic):
    quoted = re.findall(r"`([^`]+)`", f"{topic.summary} {topic.text} {topic.fix}")
    words = [text.removeprefix("gpumap ").split() for text in quoted]
    strange = [first for first, *_ in words if first not in known()]
    lost = [r for first, *rest in words if first == "explain" for r in rest if not named(r)]
    return strange, [word for word in lost if word != "TOPIC"]


@pytest.mark.parametrize(("word", "found"), rows(__file__)["found"])
def test_a_word_finds_every_topic_of_its_name(word, found):
    """Case, blanks, hyphens, underscores and apostrophes make no difference."""
    assert found == [topic.kind for topic in named(word)]
    assert [t.name for t in TOPICS if t not in named(typed(t))] == []
    assert [t.name for t in TOPICS if len(typed(t).split()) != 1] == []


@pytest.mark.parametrize(("word", "first"), [
    *rows(__file__)["almost"], ("-" * 100_000, []), ("x" * 100_000, []),
])  # fmt: skip
def test_a_word_that_is_almost_a_topic(word, first):
    """No guess is better than a wild one; a long word takes no longer."""
    assert [*nearest(word)[:1]] == first


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_the_list_fits_every_terminal(gpumap, columns):
    """Each line in its width but for names that are longer; every name is there."""
    code, text = on_a_terminal(gpumap, "explain", columns=columns, NO_COLOR="1")
    lines = text.splitlines()
    assert code == 0
    assert [line for line in lines if len(line) > max(columns, 30)] == []
    assert {typed(topic) for topic in table()} <= {word for line in lines for word in line.split()}
