"""The statement that makes a table like a given one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from moulin.model.entities import TableState
from moulin.model.layout.partition import call_text
from moulin.model.layout.partition_spec import TimeTransform
from moulin.model.layout.sort_order import NullOrder, SortDirection
from moulin.model.names import quote
from moulin.model.schema import values as ice
from moulin.model.schema.schema import key_names
from moulin.model.schema.single_value import to_json
from moulin.model.tags import shown
from moulin.pipeline.statements.definitions import COLUMN_TYPE, COMMENT, EVENT_TIME, SORT_BY

_SPARK: Mapping[type[ice.IcebergType], str] = MappingProxyType(
    {
        ice.LongType: "bigint",
        ice.TimestampType: "timestamp_ntz",
        ice.TimestamptzType: "timestamp",
        ice.TimestampNanoType: "timestamp_ntz",
        ice.TimestamptzNanoType: "timestamp",
        ice.UUIDType: "string",
        ice.FixedType: "binary",
        ice.TimeType: "time(6)",
    }
)
_FOREIGN = (ice.TimestampNanoType, ice.TimestamptzNanoType, ice.UUIDType, ice.FixedType)


def create_text(state: TableState) -> str:
    """CREATE TABLE for a table with the columns, key, partitioning, order and properties of this one."""
    schema, key = state.schema, key_names(state.schema)
    lines = [_column(field) for field in schema.fields]
    if key:
        lines.append(f"PRIMARY KEY ({', '.join(map(quote, key))})")
    properties = _properties(state)
    parts = [f"CREATE TABLE {quote(state.database, state.name)} (\n  " + ",\n  ".join(lines) + "\n)", "USING moulin"]
    if state.spec.fields:
        parts.append(f"PARTITIONED BY ({', '.join(_partitioning(state, quoted=True))})")
    if comment := properties.pop(COMMENT, None):
        parts.append(f"COMMENT {text_literal(comment)}")
    if properties:
        listed = ",\n  ".join(f"{text_literal(k)} = {text_literal(v)}" for k, v in sorted(properties.items()))
        parts.append(f"TBLPROPERTIES (\n  {listed}\n)")
    return "\n".join(parts)


def partition_fields(state: TableState) -> list[str]:
    """The partitioning as `set_partitioning` takes it."""
    return _partitioning(state, quoted=False)


def sort_fields(state: TableState, *, quoted: bool = False) -> list[str]:
    """The sort order as `set_sort_order` takes it, or with names between quotes."""
    found = []
    for field in state.sort_order.fields:
        name = state.schema.find_column_name(field.source_id) or ""
        words = [call_text(field.transform, quote(*name.split(".")) if quoted else name)]
        descending, last = field.direction == SortDirection.DESC, field.null_order == NullOrder.NULLS_LAST
        words += ["desc"] if descending else []
        words += [f"nulls {'last' if last else 'first'}"] if descending != last else []
        found.append(" ".join(words))
    return found


def text_literal(text: str) -> str:
    """Text between quotes, as Spark reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spark_text(kind: ice.IcebergType) -> str:
    """The type as Spark's DDL writes what it shows of it."""
    match kind:
        case ice.StructType():
            return f"struct<{', '.join(_inner(field) for field in kind.fields)}>"
        case ice.ListType():
            return f"array<{spark_text(kind.element_type)}>"
        case ice.MapType():
            return f"map<{spark_text(kind.key_type)}, {spark_text(kind.value_type)}>"
    return _SPARK.get(type(kind), str(kind))


def _inner(field: ice.NestedField) -> str:
    return f"{quote(field.name)}: {spark_text(field.field_type)}{_rest(field)}"


def _column(field: ice.NestedField) -> str:
    default = field.write_default
    shown_default = "" if default is None else f" DEFAULT {_default(field.field_type, default)}"
    return f"{quote(field.name)} {spark_text(field.field_type)}{_rest(field, shown_default)}"


def _rest(field: ice.NestedField, default: str = "") -> str:
    comment = f" COMMENT {text_literal(field.doc)}" if field.doc else ""
    return f"{' NOT NULL' if field.required else ''}{default}{comment}"


def _default(kind: ice.IcebergType, value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case bytes():
            return f"X'{value.hex()}'"
        case float():
            return f"{value!r}D"
        case int() if not isinstance(kind, ice.TimestampNanoType | ice.TimestamptzNanoType):
            return f"{value}L" if abs(value) >= 2**31 else str(value)
        case Decimal():
            return text_literal(str(value))
        case datetime() if isinstance(kind, ice.TimestamptzType):
            return text_literal(value.astimezone(UTC).isoformat())
        case str():
            return text_literal(value)
    return text_literal(str(to_json(kind, value)))


def _properties(state: TableState) -> dict[str, str]:
    properties = dict(shown(state.properties))
    if state.event_time_field is not None:
        properties[EVENT_TIME] = state.schema.find_column_name(state.event_time_field.field_id) or ""
    if state.sort_order.fields and not state.schema.identifier_field_ids:
        properties[SORT_BY] = ", ".join(sort_fields(state, quoted=True))
    for field in state.schema.fields:
        if _is_foreign(field.field_type):
            properties[COLUMN_TYPE + field.name] = _lake_text(field.field_type)
    return properties


def _is_foreign(kind: ice.IcebergType) -> bool:
    """Whether Spark's DDL lacks something of the type."""
    match kind:
        case ice.StructType():
            return any(_is_foreign(field.field_type) for field in kind.fields)
        case ice.ListType():
            return kind.element_required or kind.length is not None or _is_foreign(kind.element_type)
        case ice.MapType():
            return kind.value_required or _is_foreign(kind.key_type) or _is_foreign(kind.value_type)
    return isinstance(kind, _FOREIGN)


def _lake_text(kind: ice.IcebergType) -> str:
    """The type as `parse_type` reads it."""
    match kind:
        case ice.StructType():
            fields = (f"{field.name}: {_lake_text(field.field_type)}{_need(field.required)}" for field in kind.fields)
            return f"struct<{', '.join(fields)}>"
        case ice.ListType():
            length = "" if kind.length is None else f"[{kind.length}]"
            return f"list<{_lake_text(kind.element_type)}{_need(kind.element_required)}>{length}"
        case ice.MapType():
            return f"map<{_lake_text(kind.key_type)}, {_lake_text(kind.value_type)}{_need(kind.value_required)}>"
    return str(kind)


def _need(required: bool) -> str:
    return " not null" if required else ""


def _partitioning(state: TableState, *, quoted: bool) -> list[str]:
    found = []
    for field in state.spec.fields:
        name = state.schema.find_column_name(field.source_id) or ""
        name = quote(*name.split(".")) if quoted else name
        text = call_text(field.transform, name)
        plural = quoted and isinstance(field.transform, TimeTransform)  # Spark says days(ts)
        found.append(f"{field.transform}s({name})" if plural else text)
    return found
