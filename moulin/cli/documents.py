"""JSON on standard output.

With --json a command prints a document: an object with `json_version`, and a list under `rows`. A process that runs
until it is stopped prints one such object per line for everything that happens. `--format json` prints rows of tables
as a plain list.
"""

# Decisions: docs/decisions/0243, docs/decisions/0670

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moulin.printable import printable_json

JSON_VERSION: Final = 1
"""Version of the documents. It is increased when a key is removed or changes its meaning, not for new keys."""


class ReaderGone(Exception):
    """Standard output was closed, as with `| head`. Not an OSError, which typer would report as a failure."""


def write_document(values: Mapping[str, Any]) -> None:
    """One document, on several lines."""
    _write(printable_json(_json({"json_version": JSON_VERSION, **values}, indent=2)) + "\n")


def write_event(values: Mapping[str, Any]) -> None:
    """One document on a line of its own, written at once."""
    _write(printable_json(_json({"json_version": JSON_VERSION, **values})) + "\n")
    flush()


def write_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """A document with a list; its rows are written while they are read, one per line."""
    _write(f'{{"json_version": {JSON_VERSION}, "rows": ')
    _write_list(rows)
    _write("}\n")


def write_list(rows: Iterable[Mapping[str, Any]]) -> None:
    """A plain list, for rows of tables as data."""
    _write_list(rows)
    _write("\n")


def _write_list(rows: Iterable[Mapping[str, Any]]) -> None:
    opened = False
    for row in rows:
        _write((",\n  " if opened else "[\n  ") + printable_json(_json(row)))
        opened = True
    _write("\n]" if opened else "[]")


def _json(value: Any, indent: int | None = None) -> str:
    from moulin.model.rows.texts import json_text  # here: help loads no part of a lake

    return json_text(value, indent)


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise ReaderGone from None


def flush() -> None:
    """Write what is still in memory, so that an error is noticed."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None


__all__ = [
    "JSON_VERSION",
    "ReaderGone",
    "flush",
    "write_document",
    "write_event",
    "write_list",
    "write_rows",
]
