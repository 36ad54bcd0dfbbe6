"""The output formats of rows, and the options that choose one."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from moulin.errors import InvalidInput

TEXT, BINARY = ("table", "json", "csv"), ("parquet", "arrow")
FORMATS: Final = (*TEXT, *BINARY)
DOCUMENT: Final = "document"  # what --json prints

FormatName = Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="Output format of the rows.")]
OutputFile = Annotated[str | None, typer.Option("--output", metavar="FILE", help="Write the rows to a file.")]


def chosen_format(kind: str, output: str | None, as_json: bool) -> str:
    """The format of --format and --json; InvalidInput if it is unknown or needs a file."""
    if kind not in FORMATS:
        raise InvalidInput(f"Unknown format {kind!r}: use {', '.join(FORMATS)}.")
    if as_json and kind not in ("table", "json"):
        raise InvalidInput(f"--json and --format {kind} cannot be combined.")
    if kind in BINARY and output is None:
        raise InvalidInput(f"Format {kind} needs a file: add --output FILE.")
    return DOCUMENT if as_json else kind


__all__ = ["BINARY", "DOCUMENT", "FORMATS", "TEXT", "FormatName", "OutputFile", "chosen_format"]
