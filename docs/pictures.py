"""Make the pictures of README: one run of gpumap, on a terminal as SVG and as its page as PNG.

python docs/pictures.py                # on an idle machine
python docs/pictures.py REPORT.json    # of a run of that command, saved earlier

It takes the extras test and report, and chromium.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pexpect
from rich.console import Console
from rich.text import Text

IMAGES = Path(__file__).with_name("images")
COMMAND = "gpumap bench dot --size 1024"
COLUMNS, ROWS = 100, 60
WINDOW = "1100,860"  # what a reader sees of the page


def main() -> None:
    """Run the command once, or show its report again; draw what is printed and written."""
    args = ["report", sys.argv[1]] if sys.argv[1:] else COMMAND.split()[1:]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        (IMAGES / "terminal.svg").write_text(drawn(run(args, page)), encoding="utf-8")
        photograph(page, IMAGES / "page-dot.png")


def run(args: list[str], page: Path) -> str:
    """Return what gpumap prints on a terminal, with its colours."""
    args = [*args, "--quiet", "--output", str(page)]
    env = os.environ | {"TERM": "xterm-256color"}
    terminal = pexpect.spawn(
        sys.executable, ["-m", "gpumap", *args], dimensions=(ROWS, COLUMNS), env=env,
        timeout=120, encoding="utf-8",
    )  # fmt: skip
    text = str(terminal.read())
    terminal.close()
    if terminal.exitstatus != 0:
        raise SystemExit(text)
    return text


def drawn(text: str) -> str:
    """Return a terminal with a text in it, as SVG that takes nothing from a network."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(f"$ {COMMAND}\n{text}".replace("\r", "").rstrip()))
    svg = console.export_svg(title="gpumap", unique_id="terminal")
    return re.sub(r"\s*@font-face {.*?}", "", svg, flags=re.DOTALL)


def photograph(page: Path, image: Path) -> None:
    """Open a page in Chromium, and write what its window shows."""
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WINDOW}"]
    command = ["chromium", *options, f"--screenshot={image}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=60)  # noqa: S603 - own words


if __name__ == "__main__":
    main()
