"""Finds which rows of its tables a statement needs, from the plan that DuckDB makes.

DuckDB does not expose filters before it opens files, so a statement is planned twice. In the *dry plan*, a *stand-in*
replaces each table: a scan with only the columns, into which DuckDB cannot push filters. Every pushed-down filter is
then an expression directly above a stand-in. Rows that the filters above all stand-ins of a table drop can be removed
without changing the result.

An unknown filter counts as true. Conditions are never negated, so this is also correct inside AND and OR.
"""

# Decisions: docs/decisions/0275

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from moulin.duck.columns import quoted, quoted_text, shown_type
from moulin.model.predicate.condition import (
    FALSE,
    FLIPPED,
    TRUE,
    Column,
    Comparand,
    Compare,
    Condition,
    IsNull,
    Operator,
    conjunction,
    disjunction,
)
from moulin.model.schema import values as ice
from moulin.model.schema.values import Schema
from moulin.model.where.conditions import begins_with

_MARK = "moulin:"
_ROWS = 1_000_000_000  # that DuckDB expects of a stand-in: never so few that it could leave out a filter
_EXPLAIN = re.compile(r"\s*EXPLAIN\b(?:\s+ANALYZE\b)?(?:\s*\([^()]*\))?", re.IGNORECASE)

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Named:
    """A table that a statement names, at a version."""

    table: UUID
    version: int
    schema: Schema


def stand_in(number: int, schema: Schema) -> str:
    """A SELECT in the place of a table in a dry plan; it has the columns of the table and is told by `number`."""
    values = ", ".join(f"CAST(NULL AS {shown_type(field.field_type)})" for field in schema.fields)
    names = ", ".join(f"column{index + 1} AS {quoted(field.name)}" for index, field in enumerate(schema.fields))
    return f"SELECT {names} FROM repeat_row({quoted_text(f'{_MARK}{number}')}, {values}, num_rows := {_ROWS})"


def planned_text(text: str) -> str:
    """What is to be planned of a statement: DuckDB serializes no plan of EXPLAIN."""
    explain = _EXPLAIN.match(text)
    return text if explain is None else text[explain.end() :]


def asked(plan: str | None, named: Mapping[int, Named]) -> dict[tuple[UUID, int], Condition]:
    """What a dry plan asks of each table at a version; all rows are asked of one that is not in the result.

    `plan` is what json_serialize_plan returned.
    """
    found: dict[tuple[UUID, int], list[Condition]] = {}
    try:
        for scan in _scans(json.loads(plan or "{}").get("plans", []), named):
            found.setdefault((scan.table.table, scan.table.version), []).append(scan.condition)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return {}  # a plan of another form than those that are known
    return {key: disjunction(conditions) for key, conditions in found.items()}


@dataclass(frozen=True, slots=True)
class _Scan:
    """A stand-in and the operators right above it that drop rows.

    `shown` is what they give to the next operator: columns of the table, and conditions where DuckDB has computed
    whether a row is in a list. None is what is not understood.
    """

    table: Named
    shown: tuple[Column | Condition | None, ...]
    condition: Condition = TRUE


def _scans(plans: list[Any], named: Mapping[int, Named]) -> Iterator[_Scan]:
    """Every stand-in of a plan, with all of the operators right above it."""
    left: list[Any] = list(plans)
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            scan = _scan(node, named)
            if scan is None:
                left += node.values()
            else:
                yield scan


def _scan(node: Json, named: Mapping[int, Named]) -> _Scan | None:
    match node:
        case {"type": "LOGICAL_GET", "name": "repeat_row", "parameters": [{"value": str(mark)}, *_]}:
            table = named.get(int(mark.removeprefix(_MARK)) if re.fullmatch(f"{_MARK}[0-9]+", mark) else -1)
            if table is None:
                return None
            columns = [_column(table.schema, one["index"] - 1) for one in node["column_indexes"]]
            return _Scan(table, _projected(columns, node["projection_ids"]))
        case {"type": "LOGICAL_FILTER", "children": [child], "expressions": expressions}:
            scan = _scan(child, named)
            if scan is None:
                return None
            kept = conjunction([scan.condition, *(_condition(one, scan.shown) for one in expressions)])
            return _Scan(scan.table, _projected(scan.shown, node["projection_map"]), kept)
        case {"type": "LOGICAL_COMPARISON_JOIN", "join_type": "MARK", "children": [child, {"collection": listed}]}:
            scan = _scan(child, named)
            if scan is None:
                return None
            mark_of = _listed(node["conditions"], listed["values"], scan.shown)
            return _Scan(
                scan.table, (*_projected(scan.shown, node.get("left_projection_map", [])), mark_of), scan.condition
            )
    return None


_Shown = Sequence[Column | Condition | None]


def _projected(shown: _Shown, numbers: list[int]) -> tuple[Column | Condition | None, ...]:
    """The columns of these numbers; all when there are none."""
    return tuple(shown[number] for number in numbers) if numbers else tuple(shown)


def _column(schema: Schema, number: int) -> Column | None:
    """A column of the table that a condition may be about."""
    if not 0 <= number < len(schema.fields):
        return None
    field = schema.fields[number]
    return Column((field.name,), field.field_id, field.field_type) if field.field_type.is_primitive else None


def _listed(conditions: list[Json], values: list[list[Json]], shown: _Shown) -> Condition:
    """The rows that have a match in a list that DuckDB joins with: that is what it makes of a long IN."""
    match conditions:
        case [
            {"comparison": "COMPARE_EQUAL", "left": left, "right": {"expression_class": "BOUND_REF", "index": index}}
        ]:
            constants = ({"expression_class": "BOUND_CONSTANT", "value": value} for value in values[index])
            return disjunction(_comparison("=", left, one, shown) for one in constants)
    return TRUE


def _condition(node: Json, shown: _Shown) -> Condition:
    """The rows for which an expression is TRUE, or more of them."""
    match node:
        case {"expression_class": "BOUND_CONJUNCTION", "type": kind, "children": [*children]}:
            join = conjunction if kind == "CONJUNCTION_AND" else disjunction
            return join(_condition(child, shown) for child in children)
        case {"expression_class": "BOUND_COMPARISON", "type": kind, "left": left, "right": right}:
            return _comparison(_OPERATORS.get(kind), left, right, shown)
        case {"expression_class": "BOUND_BETWEEN", "input": value, "lower": lower, "upper": upper}:
            ends: tuple[Operator, Operator] = (
                ">=" if node.get("lower_inclusive") else ">",
                "<=" if node.get("upper_inclusive") else "<",
            )
            return conjunction(
                _comparison(end, value, bound, shown) for end, bound in zip(ends, (lower, upper), strict=True)
            )
        case {"type": "COMPARE_IN", "children": [value, *choices]}:
            return disjunction(_comparison("=", value, choice, shown) for choice in choices)
        case {"type": "OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL" as kind, "children": [value]}:
            column = _referred(value, shown)
            return TRUE if column is None else IsNull(column, kind == "OPERATOR_IS_NOT_NULL")
        case {"name": "prefix" | "starts_with", "children": [value, {"value": {"value": str(prefix)}}]}:
            column = _referred(value, shown)
            if column is not None and isinstance(column.type, ice.StringType):
                return begins_with(column, prefix)
        case {"expression_class": "BOUND_REF", "index": index}:
            found = shown[index]
            if not isinstance(found, Column):
                return TRUE if found is None else found
            return Compare(found, "=", 1) if isinstance(found.type, ice.BooleanType) else TRUE
        case {"expression_class": "BOUND_CONSTANT", "value": {"type": {"id": "BOOLEAN"}, "is_null": True}}:
            return FALSE
    return TRUE


def _comparison(operator: Operator | None, left: Json, right: Json, shown: _Shown) -> Condition:
    if operator is None:
        return TRUE
    if left.get("expression_class") == "BOUND_CONSTANT":
        left, right, operator = right, left, FLIPPED[operator]
    column = _referred(left, shown)
    if column is None or right.get("expression_class") != "BOUND_CONSTANT":
        return TRUE
    constant = right["value"]
    if constant["is_null"]:
        return FALSE
    if constant["type"] != left["return_type"]:
        return TRUE
    if isinstance(column.type, ice.TimestamptzNanoType):
        return _cut_moment(column, operator, constant["value"])
    comparand = _comparand(column.type, constant["value"])
    return TRUE if comparand is None else Compare(column, operator, comparand)


def _referred(node: Json, shown: _Shown) -> Column | None:
    """The column that an expression is; None when it is something else."""
    found = shown[node["index"]] if node.get("expression_class") == "BOUND_REF" else None
    return found if isinstance(found, Column) else None


_OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        "COMPARE_EQUAL": "=",
        "COMPARE_NOTEQUAL": "!=",
        "COMPARE_LESSTHAN": "<",
        "COMPARE_LESSTHANOREQUALTO": "<=",
        "COMPARE_GREATERTHAN": ">",
        "COMPARE_GREATERTHANOREQUALTO": ">=",
    }
)


def _comparand(kind: ice.IcebergType, value: Any) -> Comparand | None:
    """A constant of the type that DuckDB has for `kind`; None when it is not understood."""
    read = _COMPARANDS.get(type(kind))
    try:
        return None if read is None else read(value)
    except (TypeError, ValueError, KeyError):
        return None


def _cut_moment(column: Column, operator: Operator, micros: Any) -> Condition:
    """A comparison of nanoseconds that DuckDB sees cut towards 1970 to microseconds."""
    if not isinstance(micros, int) or operator == "!=":
        return TRUE
    lower, upper = micros * 1_000 - 999, micros * 1_000 + 999
    ends = [] if operator in ("<", "<=") else [Compare(column, ">=", lower)]
    return conjunction(ends + ([] if operator in (">", ">=") else [Compare(column, "<=", upper)]))


def _whole(value: Any) -> int:
    """Whole numbers and times; those of 128 bits come in halves."""
    if isinstance(value, dict):
        return (int(value["upper"]) << 64) + int(value["lower"])
    if not isinstance(value, int):
        raise ValueError(value)
    return int(value)


def _floating(value: Any) -> float | None:
    if not isinstance(value, int | float):
        raise ValueError(value)
    return None if math.isnan(value) else float(value)


def _uuid(value: Any) -> bytes:
    return (_whole(value) + (1 << 127)).to_bytes(16, "big")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(value)
    return value


_COMPARANDS: Mapping[type[ice.IcebergType], Callable[[Any], Comparand | None]] = MappingProxyType(
    {
        ice.BooleanType: _whole,
        ice.IntegerType: _whole,
        ice.LongType: _whole,
        ice.FloatType: _floating,
        ice.DoubleType: _floating,
        ice.DecimalType: _whole,
        ice.DateType: _whole,
        ice.TimeType: _whole,
        ice.TimestampType: _whole,
        ice.TimestamptzType: _whole,
        ice.TimestampNanoType: _whole,
        ice.StringType: _text,
        ice.UUIDType: _uuid,
    }
)
