"""The runs whose whole output tests/expected/runs holds, as expected_runs.toml has them."""

from dataclasses import dataclass

from commands.scripts import script
from tables import table

EVERY = ("rich", "json", "csv", "markdown", "junit", "github", "html")


@dataclass(frozen=True)
class Run:
    """A command, its devices and files, what ran before it, and the formats that it is held in."""

    code: int
    command: str  # its words, with one blank between
    script: str
    formats: tuple[str, ...]
    files: dict[str, str]
    env: dict[str, str]
    before: tuple[tuple[str, str], ...]  # scripts and commands
    behind: tuple[str, ...]  # words that have blanks


def scripted(row):
    """Return the script that a row describes; by default of two devices."""
    if "text" in row:
        return row["text"]
    host = f"[host]\nrate = {row['host']}\n\n" if "host" in row else ""
    return host + script(*row.get("devices", ()), **row.get("each", {}))


def run(row):
    formats = row.get("formats", ())
    return Run(
        row["code"], row["command"], scripted(row),
        EVERY if formats == "every" else tuple(formats),
        row.get("files", {}), row.get("env", {}),
        tuple((scripted(one), one["command"]) for one in row.get("before", ())),
        tuple(row.get("behind", ())),
    )  # fmt: skip


RUNS = {name: run(row) for name, row in table(__file__).items()}
