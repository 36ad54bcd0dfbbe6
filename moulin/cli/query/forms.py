"""The forms in which rows are printed, and the options that choose one."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from moulin.errors import InvalidInput

TEXT, BINARY = ("table", "json", "csv"), ("parquet", "arrow")
FORMATS: Final = (*TEXT, *BINARY)
DOCUMENT: Final = "document"  # what --json prints

FormatName = Annotated[str, typer.Option("--format", metavar="|".join(FORMATS), help="The form of the rows.")]
OutputFile = Annotated[str | None, typer.Option("--output", metavar="FILE", help="Write the rows to a file.")]


def chosen_format(kind: str, output: str | None, as_json: bool) -> str:
    """The form that --format and --json ask for; InvalidInput for one that is not known or has no file to go to."""
    if kind not in FORMATS:
        raise InvalidInput(f"There is no format {kind!r}: choose {', '.join(FORMATS)}.")
    if as_json and kind not in ("table", "json"):
        raise InvalidInput(f"--json and --format {kind} exclude each other: leave one out.")
    if kind in BINARY and output is None:
        raise InvalidInput(f"Rows as {kind} go to a file: name it with --output FILE.")
    return DOCUMENT if as_json else kind


__all__ = ["BINARY", "DOCUMENT", "FORMATS", "TEXT", "FormatName", "OutputFile", "chosen_format"]
