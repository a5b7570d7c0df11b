import ast
from importlib import import_module
from pathlib import Path

import pytest

from gpumap import model

FOLDER = Path(model.__file__).parent
OTHERS = ("__init__", "shape", "trees")  # how nouns become JSON, and of which types
FILES = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in OTHERS)


def defined(file):
    found = set()
    for node in ast.parse((FOLDER / f"{file}.py").read_text()).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets}
    return {name for name in found if not name.startswith("_")}


@pytest.mark.parametrize("file", FILES)
def test_every_noun_is_given_from_its_file(file):
    """What types are checked with is what a program gets, and no noun is forgotten."""
    assert f"from gpumap.model.{file} import *" in Path(model.__file__).read_text()
    places = import_module(f"gpumap.model.{file}")
    assert all(getattr(model, name) is getattr(places, name) for name in defined(file))


def test_the_package_has_no_other_names():
    """A misspelt name fails."""
    assert sorted(model.FILES) == FILES
    with pytest.raises(AttributeError, match=r"module 'gpumap\.model' has no attribute 'Kinds'"):
        _ = model.Kinds
