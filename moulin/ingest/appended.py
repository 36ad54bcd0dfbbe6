"""Decodes appended rows for one table from a baby segment.

A collector decodes them to reject rows that do not fit the table, and intake decodes them again in the same way.
"""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.json as pa_json

from moulin.errors import InvalidInput
from moulin.formats.baby_segment import Payload
from moulin.formats.row_file import check_texts, json_columns, json_culprit


def read_rows(payload: Payload, data: bytes, schema: pa.Schema) -> pa.Table:
    """The rows as they were sent. JSON is parsed with the table's types. InvalidInput for invalid bytes."""
    if payload is Payload.NDJSON and not data.strip():
        return schema.empty_table().select([])
    try:
        if payload is Payload.ARROW:
            with pa.ipc.open_stream(data) as reader:
                return reader.read_all()
        if payload is Payload.NDJSON:
            return _lines(data, schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInput(f"The rows cannot be read: {str(error).splitlines()[0][:200]}") from None
    raise InvalidInput(f"An entry of {payload.name} holds no rows of one table.")


def _lines(data: bytes, schema: pa.Schema) -> pa.Table:
    known = json_columns(schema)  # nulls are checked later, with the column's name
    whole = pa_json.ReadOptions(block_size=max(len(data), 1 << 20))  # a row larger than a block is rejected

    def read(options: pa_json.ParseOptions) -> pa.Table:
        return pa_json.read_json(io.BytesIO(data), whole, options)

    try:
        rows = read(pa_json.ParseOptions(explicit_schema=pa.schema(known)))
    except pa.ArrowInvalid as error:
        culprit = json_culprit(known, read) if str(error).startswith("Failed to convert") else None
        raise error if culprit is None else ValueError(f"column {culprit}: {error}") from None
    check_texts(rows)
    # Arrow adds the columns that no row has; they get their defaults when they are absent, and not when they are null.
    absent = [field.name for field in known if json.dumps(field.name, ensure_ascii=False).encode() not in data]
    return rows.drop_columns([name for name in absent if rows[name].null_count == rows.num_rows])
