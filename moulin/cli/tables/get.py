"""`moulin get`: one row by its key."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import time
from decimal import Decimal
from typing import Annotated, Any

import typer

from moulin.cli.documents import write_document
from moulin.cli.help import examples
from moulin.cli.options import Json, TableName, open_lake
from moulin.cli.output import show_values
from moulin.cli.query.forms import FormatName, OutputFile, chosen_format
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.model.key.key import Key
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimeType,
)


def register(root: typer.Typer) -> None:
    root.command(epilog=examples("moulin get shop.customers 1"))(get)


def get(
    context: typer.Context,
    table: TableName,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key value, or a JSON array for several key columns.")],
    kind: FormatName = "table",
    output: OutputFile = None,
    as_json: Json = False,
) -> None:
    """Show the row with a key. Exits with 1 if there is none."""
    kind = chosen_format(kind, output, as_json)
    with open_lake(context) as lake:
        found = lake.table(table)
        schema = found.state().schema
        columns = Key.of(schema)
        if columns is None:
            raise FailedPrecondition(f"{table} has no primary key; use moulin scan {table} --where ...")
        row = found.get(parse_key(columns, key))
    if row is None:
        raise NotFound(f"{table} has no row with key {key}.")
    if as_json and output is None:
        write_document({"row": row})
    elif kind == "table" and output is None:
        show_values(row, False, data=True)
    else:
        from moulin.cli.query.formats import write  # here: one row on the screen needs little
        from moulin.cli.query.results import Result
        from moulin.model.rows.rows import to_batches
        from moulin.model.schema.arrow import shown_schema

        write(Result(shown_schema(schema), iter(to_batches([row], schema))), kind, output)


def parse_key(columns: Key, text: str) -> Any:
    """Parse the key value of the command line."""
    if len(columns.fields) == 1:
        return _value(text, columns.fields[0].field_type, columns.names[0])
    names = ", ".join(columns.names)
    try:
        parts = json.loads(text, parse_float=Decimal)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or len(parts) != len(columns.fields):
        raise InvalidInput(f"The key has {len(columns.fields)} columns: pass a JSON array of {names}.")
    return tuple(_value(part, f.field_type, f.name) for part, f in zip(parts, columns.fields, strict=True))


_READERS: dict[type[IcebergType], tuple[Callable[[str], Any], str]] = {
    BooleanType: ({"true": True, "false": False}.__getitem__, "true or false"),
    IntegerType: (int, "a whole number"),
    LongType: (int, "a whole number"),
    DecimalType: (Decimal, "a number"),
    TimeType: (time.fromisoformat, "a time such as 12:30:00"),
    BinaryType: (bytes.fromhex, "bytes in hexadecimal"),
    FixedType: (bytes.fromhex, "bytes in hexadecimal"),
}


def _value(given: Any, kind: IcebergType, name: str) -> Any:
    read, wanted = _READERS.get(type(kind), (str, "text"))
    if isinstance(given, list | dict) or given is None or (isinstance(kind, StringType) and not isinstance(given, str)):
        raise InvalidInput(f"Key column {name} must be {wanted}, not {json.dumps(given, default=str)}.")
    text = str(given).lower() if isinstance(given, bool) else str(given)
    try:
        return read(text)
    except (ValueError, KeyError, ArithmeticError):
        raise InvalidInput(f"Key column {name} must be {wanted}, not {text!r}.") from None
