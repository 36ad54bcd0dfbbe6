"""Translates resolved Spark expressions that our kernels compute with the same result for every row.

`pipeline.sql.filters` reads what a filter surely means; here nothing may be missing and nothing may be added. What is
not known to be the same raises Inexact, and is left to Spark: other types, casts that may fail, functions, sub-queries,
everything that depends on the settings of the session. Whole numbers that overflow make the kernel fail, whatever
Spark does about them: a caller has Spark compute the statement then.
"""

# Decisions: docs/decisions/0294

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import NEGATED, Column, Condition, IsNull, conjunction, disjunction
from moulin.model.schema import values as ice
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.values import Schema
from moulin.model.where.conditions import begins_with, compare, is_nan, one_of
from moulin.model.where.formula import Formula, Kind, Term, term_columns
from moulin.model.where.literal import Literal
from moulin.pipeline.sql.catalyst import Expression
from moulin.pipeline.sql.expressions import WHOLE, Node, read_expression
from moulin.pipeline.sql.filters import OPERATORS, FilterReader

_SAME_TYPES: Mapping[type[ice.IcebergType], str] = MappingProxyType(
    {
        ice.BooleanType: "boolean",
        ice.IntegerType: "integer",
        ice.LongType: "long",
        ice.FloatType: "float",
        ice.DoubleType: "double",
        ice.DecimalType: "decimal",
        ice.StringType: "string",
        ice.DateType: "date",
        ice.TimestampType: "timestamp_ntz",
        ice.TimestamptzType: "timestamp",
    }
)
"""Types whose values Spark has, orders and compares as we do, with the names that Spark has for them in JSON."""

_ARITHMETIC = MappingProxyType(
    {"Add": pc.add_checked, "Subtract": pc.subtract_checked, "Multiply": pc.multiply_checked}
)
_COMPUTED = MappingProxyType({"integer": pa.int32(), "long": pa.int64(), "double": pa.float64()})
_WIDER = {("integer", "long"), ("integer", "double"), ("long", "double"), ("float", "double")}
_PATTERN = "%_\\"


class Inexact(Exception):
    """Only Spark knows what an expression means."""


def exact_condition(schema: Schema, expression: Expression, every: Any) -> Condition:
    """The condition that holds for the rows for which a resolved expression is true, and for no others.

    Raises Inexact when there is none. `every` takes every node of a tree. REQUIRES: constants are folded.
    """
    reader = _ExactReader(schema, expression, every)
    try:
        return reader.condition
    except InvalidInput as error:
        raise Inexact from error


def exact_value(schema: Schema, field: ice.NestedField, expression: Expression, every: Any) -> Term | pa.Array:
    """What a resolved expression gives to a column for each row, as `Assignments` has it; Inexact as above."""
    return _ExactReader(schema, expression, every).value(field)


class _ExactReader(FilterReader):
    """Reads one expression."""

    def read(self, node: Node, negated: bool) -> Condition:
        if node.kind in ("And", "Or"):
            join = conjunction if (node.kind == "And") is not negated else disjunction
            return join([self.read(operand, negated) for operand in node.operands])
        if node.kind == "Not":
            return self.read(node.operands[0], not negated)
        operator = OPERATORS.get(node.kind)
        if operator is not None or (node.kind == "EqualNullSafe" and not negated):
            return self._compared(node, negated)
        if node.kind in ("IsNull", "IsNotNull"):
            return IsNull(self._known(node.operands[0]), (node.kind == "IsNull") is negated)
        if node.kind == "IsNaN":
            return is_nan(self._known(node.operands[0]), negated=negated)
        if node.kind == "In":
            return self._listed(node, negated)
        if node.kind in ("Like", "StartsWith"):
            return self._beginning(node, negated)
        if node.kind == "Literal" and node.fields["dataType"] in ("boolean", "void"):
            return super().read(node, negated)
        if node.kind == "AttributeReference" and node.fields["dataType"] == "boolean":
            self._known(node)
            return super().read(node, negated)
        raise Inexact

    def _compared(self, node: Node, negated: bool) -> Condition:
        left, right = node.operands
        if left.kind == "Literal":
            left, right = right, left
        column, literal = self._known(left), self._literal_beside(left, right)
        if node.kind == "EqualNullSafe":
            return IsNull(column, False) if literal.value is None else compare("=", column, literal)
        operator = NEGATED[OPERATORS[node.kind]] if negated else OPERATORS[node.kind]
        if node.operands[0] is left:
            return compare(operator, column, literal)
        return compare(operator, literal, column)

    def _listed(self, node: Node, negated: bool) -> Condition:
        first, *rest = node.operands
        column = self._known(first)
        if column.is_floating:  # Spark tells -0.0 from 0.0 in long lists, and not in short ones
            raise Inexact
        return one_of(column, [self._literal_beside(first, one) for one in rest], negated=negated)

    def _beginning(self, node: Node, negated: bool) -> Condition:
        """Text that begins so; of patterns, those that ask for this alone."""
        column, pattern = self._known(node.operands[0]), node.operands[1]
        text = self._literal_beside(node.operands[0], pattern).value
        if not isinstance(text, str) or not isinstance(column.type, ice.StringType):
            raise Inexact
        if node.kind == "Like":
            if not text.endswith("%") or str(self._objects.apply(node.index).escapeChar()) != "\\":
                raise Inexact
            text = text[:-1]
            if any(special in text for special in _PATTERN):
                raise Inexact
        return begins_with(column, text, negated=negated)

    def _known(self, node: Node) -> Column:
        """The column that a node is, perhaps in a wider type. Fields of structs are not looked into."""
        inner = node.operands[0] if node.kind == "Cast" else node
        column = self.column(node) if inner.kind == "AttributeReference" else None
        if column is None or not _is_same(column.type, inner.fields["dataType"]):
            raise Inexact
        return column

    def _literal_beside(self, beside: Node, node: Node) -> Literal:
        """A literal of the type that the node beside it has."""
        if node.kind != "Literal":
            raise Inexact
        column = self._known(beside)
        if node.fields["value"] is not None and node.fields["dataType"] != beside.fields["dataType"]:
            raise Inexact
        literal = self.literal(column, node)
        if literal is None:
            raise Inexact
        return literal

    def value(self, field: ice.NestedField) -> Term | pa.Array:
        """What the expression gives to a column."""
        node = read_expression(self._expression.toJSON())
        if node.kind == "Alias":
            node = node.operands[0]
        if not _is_same(field.field_type, _result_of(node)):
            raise Inexact
        if node.kind == "Literal":
            return self._constant(node, arrow_type(field.field_type))
        if node.kind == "AttributeReference":
            return self._known(node)
        return self._formula(node)

    def _constant(self, node: Node, kind: pa.DataType) -> pa.Array:
        given, name = node.fields["value"], node.fields["dataType"]
        if given is None:
            return pa.nulls(1, kind)
        if name in ("date", "timestamp", "timestamp_ntz"):
            whole = pa.int32() if name == "date" else pa.int64()
            return pa.array([int(self._value(node))], whole).cast(kind)
        value: Any = given == "true" if name == "boolean" else given
        if name in WHOLE:
            value = int(given)
        elif name in ("float", "double"):
            value = float(given)
        elif name.startswith("decimal"):
            value = Decimal(given)
        try:
            return pa.array([value], kind)
        except pa.ArrowException as error:
            raise Inexact from error

    def _formula(self, node: Node) -> Formula:
        """Sums, differences and products, computed in the types in which Spark computes them."""
        name = _result_of(node) or ""
        kind: Kind = "floating" if name in ("float", "double") else "whole"
        if node.kind == "Literal" and name in _COMPUTED:
            return Formula(pc.scalar(self._constant(node, _COMPUTED[name])[0]), kind)
        if node.kind == "AttributeReference" and name in (*_COMPUTED, "float"):
            column = self._known(node)
            return Formula(column.stored, kind, (column,))
        if node.kind == "Cast":
            inner = self._formula(node.operands[0])
            if (_result_of(node.operands[0]), name) not in _WIDER:
                raise Inexact
            return Formula(inner.expression.cast(_COMPUTED[name]), kind, inner.columns)
        make = _ARITHMETIC.get(node.kind)
        if make is None or name not in _COMPUTED:
            raise Inexact
        one, other = (self._formula(operand) for operand in node.operands)
        return Formula(make(one.expression, other.expression), kind, (*term_columns(one), *term_columns(other)))


def _result_of(node: Node) -> str | None:
    """Spark's name for the type of what a node gives; None where JSON does not say."""
    if node.kind in _ARITHMETIC:
        kinds = {_result_of(operand) for operand in node.operands}
        return kinds.pop() if len(kinds) == 1 else None
    kind = node.fields.get("dataType")
    return kind if isinstance(kind, str) else None


def _is_same(kind: ice.IcebergType, name: object) -> bool:
    """Whether Spark shows a column of ours in this type, and nothing is lost by it."""
    if isinstance(kind, ice.DecimalType):
        return name == f"decimal({kind.precision},{kind.scale})"
    return _SAME_TYPES.get(type(kind)) == name


__all__ = ["Inexact", "exact_condition", "exact_value"]
