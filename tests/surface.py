"""The public surface, as lines of text: what scripts, reports and other programs stand on.

What is read here may move inside of gpumap; what is written must not change by that.
"""

import click
from report_schema import SCHEMA
from written import PROJECT, listed

import gpumap
from gpumap.bench.registry import BENCHMARKS, find
from gpumap.bench.selectors import EVERYWHERE
from gpumap.cli import _CONFIG, COMMANDS, group
from gpumap.doctor.diagnose import table as causes
from gpumap.errors import Exit, GpumapError
from gpumap.explain import KINDS, table
from gpumap.machine import fingerprint
from gpumap.model.maps import UNITS
from gpumap.report import FORMATS, SUFFIXES
from gpumap.report.csv import FIGURE, RECORD

HEAD = """\
The public surface of gpumap, one line for each thing that a script, a report or a program can name.
A line may be added freely. A line that is removed or changed breaks a user: its reason must be in
the commit that does it and in CHANGELOG.md. `make expected` writes this file.
"""


def commands():
    """Yield every command and subcommand with its context, by its words."""
    root = group.make_context("gpumap", [], resilient_parsing=True)
    for name in COMMANDS:
        command = group.get_command(root, name)
        yield name, command
        if isinstance(command, click.Group):
            for word, inner in command.commands.items():
                yield f"{name} {word}", inner


def options():
    """Yield each argument and option: what it takes, its choices, default and variable."""
    for name, command in commands():
        for param in command.params:
            yield " ".join([name, *_described(param)])


def _described(param):
    words = "/".join([*param.opts, *param.secondary_opts])
    if isinstance(param, click.Argument):
        yield f"{param.make_metavar(click.Context(click.Command('x')))}"
    else:
        yield f"{words} {param.metavar or ''}".strip()
    if isinstance(param.type, click.Choice):
        yield f"choices={'|'.join(map(str, param.type.choices))}"
    elif isinstance(param.type, click.IntRange | click.FloatRange):
        yield f"range={param.type._describe_range()}"
    if param.multiple or param.nargs != 1:
        yield "several"
    if getattr(param, "is_flag", False):
        yield "flag"
    elif isinstance(param.default, str | int | float):
        yield f"default={param.default}"
    if param.envvar:
        yield f"variable={param.envvar}"


def variables():
    """Yield every variable that is read: of options, of the rest, and those that reports record."""
    found = {p.envvar for _, command in commands() for p in command.params if p.envvar}
    return sorted({*found, *listed("Variables")})


def selectors():
    """Yield each case with the keys that select among its rows, and its metrics."""
    for bench, family in ((key, family) for key in BENCHMARKS for family in find(key).families):
        keys = ",".join([*EVERYWHERE, *family.keys])
        for case in family.cases:
            yield f"{bench}.{case}{family.suffix}[{keys}]: {' '.join(family.metrics)}"


def keys():
    """Yield each key of each object of a report, with what it refers to or its closed list."""
    for name, schema in ({"Report": SCHEMA} | SCHEMA["$defs"]).items():
        if "enum" in schema:
            yield f"{name}: {' '.join(map(str, schema['enum']))}"
        for key, inner in schema.get("properties", {}).items():
            values = " ".join(dict.fromkeys(_values(inner)))
            yield f"{name}.{key}: {values}" if values else f"{name}.{key}"


def _values(schema):
    """Yield the closed list of a key, and the objects that it, its items or its choices are."""
    yield from map(str, schema.get("enum", [schema["const"]] if "const" in schema else ()))
    if reference := schema.get("$ref"):
        yield reference.rpartition("/")[2]
    within = [schema.get("items"), schema.get("additionalProperties")]
    for inner in [*within, *schema.get("oneOf", ()), *schema.get("anyOf", ())]:
        yield from _values(inner) if isinstance(inner, dict) else ()


def errors(kind=GpumapError, depth=0):
    yield f"{'  ' * depth}{kind.__name__} {kind.code} {int(kind.exit_code)}"
    for inner in kind.__subclasses__():
        if inner.__module__ == GpumapError.__module__:  # others are no one else's
            yield from errors(inner, depth + 1)


def members():
    """Yield what each public class has, and each public function."""
    for name in gpumap.__all__:
        found = getattr(gpumap, name)
        if isinstance(found, type):
            public = [key for key in sorted(dir(found)) if not key.startswith("_")]
            yield f"{name}: {' '.join(public)}"


def sections():
    yield "commands", [name for name, _ in commands()]
    yield "arguments and options", options()
    yield "variables", variables()
    yield "variables that reports record", fingerprint.VARIABLES
    yield "files", listed("Files")
    yield "settings of gpumap.toml", _CONFIG
    yield "formats", FORMATS
    yield "suffixes of --output", [f"{suffix} {name}" for suffix, name in SUFFIXES.items()]
    yield "columns of CSV, parameters apart", [*RECORD, *FIGURE]
    yield "exit codes", [f"{code.value} {code.name}" for code in Exit]
    yield "errors: class, code, exit code", errors()
    yield "metrics and their units", [f"{name} {unit}" for name, unit in UNITS.items()]
    yield "selectors", selectors()
    for kind in KINDS:
        yield f"topics: {kind}", [topic.name for topic in table() if topic.kind == kind]
    yield (
        "causes of doctor",
        [f"{c.code} {c.key}, {c.rule.verdict}, {int(c.rule.exit)}" for c in causes().values()],
    )
    yield "keys of a report", keys()
    yield "gpumap.__all__", gpumap.__all__
    yield "members of public classes", members()
    yield "entry points", [f"{name} = {place}" for name, place in PROJECT["scripts"].items()]
    yield "extras", PROJECT["optional-dependencies"]


def surface():
    parts = [HEAD]
    for heading, lines in sections():
        parts += [f"\n== {heading}\n", *(f"{line}\n" for line in lines)]
    return "".join(parts)
