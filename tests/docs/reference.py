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
        shown = ", ".join([*one.opts, *one.secondary_opts]) if is_option else (one.name or "").upper()
        rows += f"| `{shown}` | {_line(getattr(one, 'help', '') or '')} |\n"
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


PAGES = {"settings.md": settings, "cli.md": commands}


def text(name: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", PAGES[name]())


if __name__ == "__main__":
    for name in PAGES:
        (REFERENCE / name).write_text(text(name), encoding="utf-8")
