"""What cannot be done is refused by each command: by its exit code, with a message and a fix."""

import re
import shlex
import shutil

import pytest
from saved_reports import written
from scripts import script
from tables import table

ROWS = [
    (how, *row, *[{}] * (row[2:] == [])) for how, rows in table(__file__).items() for row in rows
]


@pytest.mark.parametrize(("how", "line", "said", "more"), ROWS, ids=range(len(ROWS)))
def test_a_wrong_question_is_refused(gpumap, how, line, said, more):
    """On stderr only, harmless, with what is wrong in it; nothing is started, nothing written."""
    if how == "scripted":
        gpumap.fake(script())
    for name in ("dot", "copies") if how == "reports" else ():
        shutil.copy(written(name).path, gpumap.folder / f"{name}.json")
    for name, text in more.get("files", {}).items():
        (gpumap.folder / name).write_text(text)
    before = sorted(gpumap.folder.iterdir())
    answer = gpumap(*shlex.split(line), **more.get("env", {}))
    assert (answer.code, answer.out) == (more.get("code", 2), more.get("out", ""))
    assert re.search(r"^[Ee]rror( in entry \d+)?: ", answer.err, re.MULTILINE)
    assert said in answer.err
    assert answer.err.replace("\n", "").isprintable()
    assert "Traceback" not in answer.err
    assert sorted(gpumap.folder.iterdir()) == before
