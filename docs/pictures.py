"""Make the pictures of README: one run of gpumap, on a terminal as SVG and as its page as PNG.

python docs/pictures.py    # on an idle machine; it takes the extras test and report, and chromium
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
    """Run the command once, and draw what it printed and what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        (IMAGES / "terminal.svg").write_text(drawn(run(page)), encoding="utf-8")
        photograph(page, IMAGES / "page-dot.png")


def run(page: Path) -> str:
    """Return what the command prints on a terminal, with its colours."""
    args = [*COMMAND.split()[1:], "--quiet", "--output", str(page)]
    env = os.environ | {"TERM": "xterm-256color"}
    terminal = pexpect.spawn(
        sys.executable, ["-m", "gpumap", *args], dimensions=(ROWS, COLUMNS), env=env,
        timeout=120, encoding="utf-8",
    )  # fmt: skip
    return str(terminal.read())


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
