"""The public surface is one file: what goes from it goes on purpose."""

import ast
import re
import tomllib
from pathlib import Path

from golden import held
from report_schema import SCHEMA
from surface import surface
from written import PAGES, ROOT

from gpumap.cli import group
from hatch_build import contexts

OUTPUT = re.compile(r"^```(?:console|text)$.*?^```$", re.MULTILINE | re.DOTALL)
RECORDS = re.compile(r"measured/20|schema-3\.md")  # of what was measured; of names that are gone


def texts():
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        if not RECORDS.search(str(page)):
            yield page.name, " ".join(OUTPUT.sub("", page.read_text(encoding="utf-8")).split())
    for context in contexts(group):
        yield context.command_path, " ".join(context.get_help().split())
    for text in strings(SCHEMA):
        yield "the schema", " ".join(text.split())
    for path in sorted((ROOT / "gpumap").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for text in literals(tree):
            yield path.name, text
        for name, text in docstrings(tree):
            yield f"{path.relative_to(ROOT)} {name}".strip(), " ".join(text.split())
    for path in sorted((ROOT / "gpumap").rglob("*.toml")):
        for text in strings(tomllib.loads(path.read_text(encoding="utf-8"))):
            yield path.name, " ".join(text.split())


def literals(tree):
    """Yield each text in a module: no docstring, and no single word, which is a name."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield from [node.value] if " " in node.value else []


def docstrings(tree, name=""):
    """Yield the docstrings of a module and of what is public in it, each with its name."""
    if text := ast.get_docstring(tree):
        yield name, text
    for node in tree.body:
        public = isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_"
        if public:
            yield from docstrings(node, f"{name}.{node.name}".strip("."))


def strings(tree):
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict | list):
        for each in tree.values() if isinstance(tree, dict) else tree:
            yield from strings(each)


def test_the_public_surface_is_what_it_was(renew):
    held("surface", surface(), renew=renew)


def test_no_text_for_users_has_a_word_that_the_field_does_not_use():
    """Patterns of tests/words.txt: pages, help, schema, messages, docstrings, topics, causes."""
    patterns = (Path(__file__).with_name("words.txt")).read_text().splitlines()
    wrong = re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)
    found = [
        f"{where}: ...{text[max(0, match.start() - 40) : match.end() + 40]}..."
        for where, text in texts()
        for match in wrong.finditer(text)
    ]
    assert found == []
