"""Rows that were sent for one table, from the bytes that a baby segment keeps of them.

A collector reads them to refuse what the table cannot take, and intake reads them again in the same way.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.json as pa_json

from moulin.errors import InvalidInput
from moulin.formats.baby_segment import Payload

_PLAIN = (pa.types.is_string, pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)


def read_rows(payload: Payload, data: bytes, schema: pa.Schema) -> pa.Table:
    """The rows as they were sent. JSON is read with the table's own types where it has such. InvalidInput for bytes
    that are no rows."""
    if payload is Payload.NDJSON and not data.strip():
        return schema.empty_table().select([])
    try:
        if payload is Payload.ARROW:
            with pa.ipc.open_stream(data) as reader:
                return reader.read_all()
        if payload is Payload.NDJSON:
            known = pa.schema([field for field in schema if any(is_kind(field.type) for is_kind in _PLAIN)])
            return pa_json.read_json(io.BytesIO(data), parse_options=pa_json.ParseOptions(explicit_schema=known))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInput(f"The rows cannot be read: {str(error).splitlines()[0][:200]}") from None
    raise InvalidInput(f"An entry of {payload.name} holds no rows of one table.")
