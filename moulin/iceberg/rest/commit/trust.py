"""Decides which data files of an engine are verified, and computes facts of unverified files from their manifest.

With `all`, every file of a commit is read and compared with its manifest. With `manifest`, facts come from the
manifest, and files below base paths stay where the engine wrote them. With `sample`, the first file of a commit and
every tenth after it are read, and the others are trusted. `new-writers` is one of the other two for each writer
(`writers.py`).
"""

# Decisions: docs/decisions/0491, docs/decisions/0700

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moulin.config import Config
from moulin.errors import Corrupt, InvalidInput
from moulin.iceberg.format.json import Json
from moulin.model.facts import ColumnFacts
from moulin.model.layout.bounds import bound_from_bytes
from moulin.model.schema.values import PrimitiveType, Schema
from moulin.table.properties import effective

ALL, SAMPLE, MANIFEST, NEW_WRITERS = "all", "sample", "manifest", "new-writers"
_EVERY: Final = 10


def mode(config: Config, properties: Mapping[str, str]) -> str:
    """How files of commits to a table with these properties are checked."""
    return effective(config, properties).iceberg_verify


def is_read(verify: str, index: int) -> bool:
    """Whether the file of this index in its commit is read."""
    return verify == ALL or (verify == SAMPLE and index % _EVERY == 0)


def manifest_facts(record: Json, schema: Schema, where: str) -> tuple[ColumnFacts, ...]:
    """The facts of columns that a manifest states; one that cannot be true is refused."""
    rows = record["record_count"]
    sizes, values, nulls, nans = (
        _numbers(record, name) for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    )
    lower, upper = _bounds(record, "lower_bounds"), _bounds(record, "upper_bounds")
    found = []
    for number in schema.field_ids:
        kind = schema.find_type(number)
        if number not in values or not isinstance(kind, PrimitiveType):
            continue
        empty = nulls.get(number, 0)
        if min(values[number], empty, nans.get(number, 0)) < 0 or max(empty, nans.get(number, 0)) > values[number]:
            raise InvalidInput(f"{where}: the manifest counts more nulls or NaNs than values of field {number}.")
        if number not in nulls:
            continue  # without a count of nulls nothing is known of it
        found.append(
            ColumnFacts(
                number,
                values[number],
                empty,
                nans.get(number),
                sizes.get(number, 0),
                _checked(kind, lower.get(number), where),
                _checked(kind, upper.get(number), where),
            )
        )
    for field in schema.fields:
        if field.required and nulls.get(field.field_id, 0) > 0:
            raise InvalidInput(f"{where}: column {field.name} is required, and {nulls[field.field_id]} rows lack it.")
    if not 0 <= rows < 1 << 31 or record["file_size_in_bytes"] < 0:
        raise InvalidInput(f"{where} has {rows} rows and {record['file_size_in_bytes']} bytes: no file has.")
    return tuple(found)


def _numbers(record: Json, name: str) -> dict[int, int]:
    return {int(number): int(value) for number, value in _pairs(record, name)}


def _bounds(record: Json, name: str) -> dict[int, bytes]:
    return {int(number): bytes(value) for number, value in _pairs(record, name)}


def _pairs(record: Json, name: str) -> list[tuple[Any, Any]]:
    given = record.get(name) or ()
    return list(given.items()) if isinstance(given, dict) else [(one["key"], one["value"]) for one in given]


def _checked(kind: PrimitiveType, value: bytes | None, where: str) -> bytes | None:
    if value is not None:
        try:
            bound_from_bytes(kind, value)
        except Corrupt as error:
            raise InvalidInput(f"{where}: {error.message}") from None
    return value


__all__ = ["ALL", "MANIFEST", "NEW_WRITERS", "SAMPLE", "is_read", "manifest_facts", "mode"]
