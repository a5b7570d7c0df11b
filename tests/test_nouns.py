import ast
from pathlib import Path

import pytest

from gpumap import model

FOLDER = Path(model.__file__).parent
OTHERS = ("__init__", "shape", "trees", "types")  # how nouns become JSON, and of which types
FILES = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in OTHERS)


def defined(file):
    found = set()
    for node in ast.parse((FOLDER / f"{file}.py").read_text()).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets}
    return {name for name in found if not name.startswith("_")}


def promised():
    """Return what the package imports for types: a file's name to the names from it."""
    nodes = ast.walk(ast.parse((FOLDER / "__init__.py").read_text()))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return {
        node.module.removeprefix("gpumap.model."): {alias.name for alias in node.names}
        for node in imports
        if node.module.startswith("gpumap.model.")
    }


@pytest.mark.parametrize("file", FILES)
def test_every_noun_is_given_from_its_file(file):
    """What types are checked with is what a program gets, and no noun is forgotten."""
    placed = {name for name, place in model._PLACES.items() if place == file}
    assert placed == defined(file) == promised()[file]
    assert all(getattr(model, name) is not None for name in placed)


def test_the_package_lists_its_nouns():
    """`dir` and a star import know what is given when it is asked for; a misspelt name fails."""
    assert set(model.__all__) == set(model._PLACES) <= set(dir(model))
    with pytest.raises(AttributeError, match=r"module 'gpumap\.model' has no attribute 'Kinds'"):
        _ = model.Kinds
