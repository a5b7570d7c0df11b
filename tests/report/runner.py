"""What the runner of GitHub Actions takes for a command, by its own rules (actions/runner).

`src/Runner.Common/ActionCommand.cs`: a line is a command if, after blanks, it begins with `::`, has
a second `::`, and names a command that is known between them; or if it has `##[`, a `]` after it,
and names one between these. It compares strings as a culture does, for which marks of no width are
not there: so every line is read once more without all that is not ASCII.
"""

from typing import NamedTuple

KNOWN = {
    "error", "warning", "notice", "debug", "group", "endgroup", "echo", "add-mask", "add-matcher",
    "remove-matcher", "add-path", "set-env", "set-output", "save-state", "stop-commands",
}  # fmt: skip


class Command(NamedTuple):
    name: str
    properties: dict[str, str]
    data: str  # as it was before it was escaped


def commands(log):
    found = [command(line) for line in log.split("\n")]
    hidden = [command("".join(filter(str.isascii, line))) for line in log.split("\n")]
    assert [one is None for one in found] == [one is None for one in hidden]
    return [one for one in found if one is not None]


def command(line):
    line = line.lstrip()
    if line.startswith("::") and (stop := line.find("::", 2)) >= 0:
        name, _, pairs = line[2:stop].partition(" ")
        if name in KNOWN:
            split = (pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)
            return Command(name, {k: plain(v, ",:") for k, v in split}, plain(line[stop + 2 :]))
    if (start := line.find("##[")) >= 0 and (stop := line.find("]", start)) >= 0:
        name = line[start + 3 : stop].partition(" ")[0]
        if name in KNOWN:
            return Command(name, {}, line[stop + 1 :])
    return None


def plain(text, more=""):
    for character in "\r\n" + more + "%":
        text = text.replace(f"%{ord(character):02X}", character)
    return text
