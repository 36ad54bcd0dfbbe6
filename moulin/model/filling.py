"""Pending columns: columns that are being filled, segment by segment, and are not complete yet.

A pending column is in the schema as a placeholder: a read-only column of nulls. Its values go into column files under a
new field id. When every live segment has them, the field replaces the placeholder, in one version. The state of the
fill is stored in a table property.

A filled column can be filled again: then the old column is read and written as before until the new values replace it.
"""

# Decisions: docs/decisions/0421, docs/decisions/0470, docs/decisions/0472

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from moulin.errors import InvalidInput
from moulin.model.schema.documents import type_document, type_of
from moulin.model.schema.schema import nested_ids
from moulin.model.schema.values import IcebergType, NestedField, Schema
from moulin.model.tags import COMPUTED_PREFIX, FILLING_PREFIX


@dataclass(frozen=True, slots=True)
class Filling:
    """A column that is being filled.

    `placeholder` is the temporary field id of the column, `number` the one under which its values are stored,
    `type` its type with the ids of inner fields. `reads` are the ids of the columns that it is computed from, which
    keep their names of the schema `schema_id`. `sql` is the expression; without one, only the original caller can
    continue. With `again` the placeholder is the column as it was filled before, with its values.
    """

    placeholder: int
    number: int
    type: IcebergType
    schema_id: int
    reads: tuple[int, ...] = ()
    sql: str | None = None
    again: bool = False

    @property
    def key(self) -> str:
        return f"{FILLING_PREFIX}{self.placeholder}"

    def field(self, name: str) -> NestedField:
        """The column as it will be."""
        return NestedField(self.number, name, self.type, required=False)

    @property
    def stored_ids(self) -> frozenset[int]:
        """The ids of the fields that are stored, inner ones included."""
        return frozenset(nested_ids(self.field("")))

    def to_json(self) -> str:
        document = {
            "number": self.number,
            "type": type_document(self.type),
            "schema-id": self.schema_id,
            "reads": list(self.reads),
            "sql": self.sql,
        }
        if self.again:
            document["again"] = True
        return json.dumps(document, sort_keys=True)


def read_filling(key: str, text: str) -> Filling:
    """The pending column that a property holds."""
    try:
        document = json.loads(text)
        placeholder, number = int(key.removeprefix(FILLING_PREFIX)), document["number"]
        reads, sql, schema_id = tuple(document["reads"]), document["sql"], document["schema-id"]
        again = document.get("again", False)
        whole = isinstance(again, bool) and all(type(one) is int for one in (number, schema_id, *reads))
        if not whole or not (sql is None or isinstance(sql, str)):
            raise ValueError
        return Filling(placeholder, number, type_of(document["type"]), schema_id, reads, sql, again)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InvalidInput(f"Property {key!r} is not a valid description of a pending column.") from None


def unwritable(properties: Mapping[str, str], schema: Schema) -> dict[str, Filling]:
    """The columns that nobody may write: they are being filled for the first time."""
    return {name: one for name, one in fillings_of(properties, schema).items() if not one.again}


def computed_marks(properties: Mapping[str, str]) -> dict[str, str]:
    """What says of columns that they got their values from fills, of which the feed says nothing."""
    return {key: text for key, text in properties.items() if key.startswith(COMPUTED_PREFIX)}


def fillings_of(properties: Mapping[str, str], schema: Schema) -> dict[str, Filling]:
    """The pending columns of a table, by name."""
    marks = [key for key in properties if key.startswith(FILLING_PREFIX)]
    if not marks:
        return {}
    names = {field.field_id: field.name for field in schema.fields}
    found = (read_filling(key, properties[key]) for key in marks)
    return {names[one.placeholder]: one for one in found if one.placeholder in names}


def without_pending(
    schema: Schema, schemas: Mapping[int, Schema], now: Schema, properties: Mapping[str, str]
) -> Schema:
    """A schema of a table without the columns that were pending in it, whose nulls are no values.

    `schemas` are all of the table's, `now` its newest. A placeholder is known by its field id: the ids before it, those
    of the column whose values are stored, are in no schema yet.
    """
    pending = {one.placeholder for one in unwritable(properties, now).values()}
    real = {field.field_id for field in now.fields} - pending
    kept = [
        field
        for field in schema.fields
        if field.field_id in real or not (field.field_id in pending or _was_pending(field, schemas))
    ]
    return schema if len(kept) == len(schema.fields) else Schema(*kept, schema_id=schema.schema_id)


def _was_pending(field: NestedField, schemas: Mapping[int, Schema]) -> bool:
    stored = field.field_id - len(nested_ids(field))
    first = min(number for number, one in schemas.items() if field.field_id in one.field_ids)
    return (
        stored > 0 and first > min(schemas) and all(stored not in schemas[n].field_ids for n in schemas if n <= first)
    )


__all__ = ["Filling", "computed_marks", "fillings_of", "read_filling", "unwritable", "without_pending"]
