"""Writes the reference pages that follow from the code: `python -m tests.docs.reference`."""

from __future__ import annotations

import dataclasses
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from moulin import config
from moulin.cli.commands import COMMANDS, load
from moulin.cli.help import examples_in
from moulin.cli.main import app
from moulin.config import MIB, Config
from tests.docs import tables

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_HEAD = """# Settings

Pass settings to `moulin.connect` as keywords, set them in the environment as `MOULIN_` and the name in capitals, or
write them into `moulin.toml` in the folder of the lake. Keywords take precedence over the environment, and the
environment over the file. An unknown name or an invalid value is an error. Times are in seconds and sizes in bytes.

```python
import moulin

lake = moulin.connect("./lake", log_sync="interval", memtable_bytes=32 << 20)
print(lake.config.memtable_bytes)
lake.close()
```

```text
33554432
```

This page is generated from `moulin/config.py` by `python -m tests.docs.reference`.
"""


_COMMANDS_HEAD = """# Commands

Options of `moulin` itself come before the command. The examples assume that `MOULIN_LAKE` is set. This page is
generated from the code by `python -m tests.docs.reference`.

With `--json` a command prints a JSON document for scripts: an object with `json_version`, now 1, and a list under
`rows`. Keys are snake_case, sizes are bytes, times are ISO 8601 in UTC, decimals are strings. Long-running processes
print one document per line, each with an `event`. `--format` prints rows as data: `json` is a plain list, `csv` has a
header, `parquet` and `arrow` are written to the file given by `--output`.
"""


_TYPES_HEAD = """# Types of columns

A column is declared as `(name, type)` or `(name, type, nullable)`, or with a `pyarrow.Schema`. Types have the names of
Iceberg; those of Arrow and SQL are taken, too. The table is made from the code by `python -m tests.docs.reference`.

"""
_PROPERTIES_HEAD = """# Properties of tables

A [setting](settings.md) is for a process; a property is for one table, in every program that writes to it. Properties
are given to `create_table` and `table.set_properties`, or in SQL with TBLPROPERTIES.

```python
import moulin

lake = moulin.connect("./lake")
lake.create_database("shop")
orders = lake.create_table("shop.orders", [("id", "long")], properties={"owner": "ann", "moulin.inline-bytes": 65536})
orders.set_properties({"moulin.history-keep-seconds": 86400}, remove=["owner"])
print(sorted(orders.properties))
lake.close()
```

```text
['moulin.history-keep-seconds', 'moulin.inline-bytes']
```

Names that begin with `moulin.` are Moulin's own, and an unknown one is an error. Other names are yours.
This page is made from the code by `python -m tests.docs.reference`.

## Moulin's own

"""
_PROPERTIES_FILES = """
## Files

The properties of Iceberg for Parquet files, such as `write.parquet.compression-codec`, are followed by every writer:
[semantics](../semantics.md#properties-of-files) lists them with their values.

## Of engines

These are kept for the engines that read them, and change nothing in Moulin: """
_METRICS_HEAD = """# Metrics

`GET /metrics` answers in the text format of Prometheus. [Monitor and alert](../howto/monitor.md) has rules to begin
with. This page is made from the code by `python -m tests.docs.reference`.
"""
_METRICS = {
    "server": "`moulin serve`, on its HTTP port. `moulin_calls_total` has the labels `method` and `code`, "
    "`moulin_call_seconds` has `method`. A figure that the catalog cannot answer at the moment is NaN.",
    "collector": "`moulin collect`, on its HTTP port.",
    "nursery": "`moulin nursery --metrics-bind` and `moulin up`. The first five have the label `stream`.",
    "connections": "Every HTTP server: `moulin serve` and `moulin collect`.",
}


def types() -> str:
    """The page of types: the table is made, the rest is written by hand behind its end."""
    _, _, rest = (REFERENCE / "types.md").read_text(encoding="utf-8").partition("\n```python")
    return f"{_TYPES_HEAD}{tables.types()}\n```python{rest}"


def properties() -> str:
    """The page of properties."""
    return f"{_PROPERTIES_HEAD}{tables.own_properties()}{_PROPERTIES_FILES}{tables.kept_properties()}.\n"


def metrics() -> str:
    """The page of metrics: a table for each program."""
    parts = [f"\n## {name.capitalize()}\n\n{_METRICS[name]}\n\n{rows}" for name, rows in tables.metrics()]
    return _METRICS_HEAD + "".join(parts)


def settings() -> str:
    """The page of settings: each group with what the code says of it."""
    parts = [_HEAD]
    defaults = {field.name: field.default for field in dataclasses.fields(Config)}
    for text, names in _groups():
        rows = "".join(f"| `{name}` | {_shown(name, defaults[name])} |\n" for name in names)
        parts.append(f"{text}\n\n| setting | default |\n|---|---|\n{rows}")
    return "\n".join(parts)


def _groups() -> Iterator[tuple[str, list[str]]]:
    """The comments in the class, each with the settings below it."""
    source = Path(config.__file__).read_text(encoding="utf-8")
    text, names = [], []
    inside = False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string == "Config":
            inside = True
        if not inside or token.start[1] not in (0, 4):
            continue
        if token.type == tokenize.NAME and token.string in ("def", "_MAY_BE_ZERO"):
            break
        if token.type == tokenize.COMMENT:
            if names:
                yield " ".join(text), names
                text, names = [], []
            text.append(token.string.removeprefix("#").strip())
        elif token.type == tokenize.NAME and token.string in {field.name for field in dataclasses.fields(Config)}:
            names.append(token.string)
    yield " ".join(text), names


def _shown(name: str, value: object) -> str:
    if isinstance(value, str):
        return f"`{value!r}`".replace("'", '"')
    if name.endswith("_bytes") and isinstance(value, int) and value and value % MIB == 0:
        return f"{value // MIB} MiB"
    if isinstance(value, float):
        for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
            if value >= size and value % size == 0:
                return f"{value // size:g} {unit}" if value != size else f"1 {unit[:-1]}"
        return f"{value:g} s"
    return f"{value:,}"


def commands() -> str:
    """The page of commands: what `--help` says of each."""
    parts = [_COMMANDS_HEAD]
    root = typer.main.get_command(app)
    parts += [_command("moulin", root, 2)]
    return "\n".join(parts)


def _command(name: str, command: Any, depth: int) -> str:
    """A command with its parameters, and the commands below it."""
    text = f"{'#' * depth} {name}\n\n{_line(command.help or '')}\n"
    rows = ""
    for one in command.params:
        if one.name == "help" or getattr(one, "hidden", False):
            continue
        is_option = one.param_type_name == "option"
        shown = ", ".join([*one.opts, *one.secondary_opts]) if is_option else one.metavar or (one.name or "").upper()
        rows += f"| `{_line(shown)}` | {_line(getattr(one, 'help', '') or '')} |\n"
    if rows:
        text += f"\n| | |\n|---|---|\n{rows}"
    if lines := examples_in(command.epilog):
        text += "\n" + "".join(f"- `{line}`\n" for line in lines)
    below = {one: load(one) for one in COMMANDS} if depth == 2 else getattr(command, "commands", {})
    for key, inner in sorted(below.items()):
        if not inner.hidden:
            text += f"\n{_command(f'{name} {key}', inner, min(depth + 1, 4))}"
    return text


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES = {
    "settings.md": settings,
    "cli.md": commands,
    "types.md": types,
    "properties.md": properties,
    "metrics.md": metrics,
}


def text(name: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", PAGES[name]())


if __name__ == "__main__":
    for name in PAGES:
        (REFERENCE / name).write_text(text(name), encoding="utf-8")
