"""Converts sqlglot's tree of a `where` to a condition over the columns of a schema."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from moulin.errors import InvalidInput
from moulin.model.predicate.condition import (
    FALSE,
    Column,
    Compare,
    Condition,
    Constant,
    Operator,
    complement,
    conjunction,
    disjunction,
)
from moulin.model.schema.schema import unknown_column
from moulin.model.schema.values import BooleanType, NestedField, Schema, StructType
from moulin.model.where.conditions import array_contains, between, compare, is_nan, is_null, matches, one_of, same
from moulin.model.where.formula import Arithmetic, Term, absolute, arithmetic, changed_case, map_value, negative
from moulin.model.where.literal import Literal, cast, read_number, shown
from moulin.model.where.parser import MAX_DEPTH, TOO_DEEP, chain, cut, described, only, operand, path, refuse

_COMPARISONS: Mapping[type[exp.Expression], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: Mapping[type[exp.Expression], Arithmetic] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_CONDITIONS = (
    *_COMPARISONS,
    exp.And,
    exp.Or,
    exp.Not,
    exp.In,
    exp.Between,
    exp.Is,
    exp.Like,
    exp.ILike,
    exp.Escape,
    exp.IsNan,
    exp.ArrayContains,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)


class Reader:
    """Turns sqlglot's tree into a condition. `negate` asks for the rows for which the opposite is TRUE.

    `aliases` are other names of columns.
    """

    def __init__(self, schema: Schema, aliases: Mapping[str, str]) -> None:
        self._schema, self._aliases = schema, aliases
        self._depth = 0

    def condition(self, node: exp.Expression, negate: bool) -> Condition:
        self._depth += 1
        if self._depth > 4 * MAX_DEPTH:
            raise InvalidInput(TOO_DEEP)
        found = self._condition(node, negate)
        self._depth -= 1
        return found

    def _condition(self, node: exp.Expression, negate: bool) -> Condition:
        match node:
            case exp.Paren():
                return self.condition(operand(node), negate)
            case exp.Not():
                return self.condition(operand(node), not negate)
            case exp.And() | exp.Or():
                parts = [self.condition(part, negate) for part in chain(node)]
                return conjunction(parts) if isinstance(node, exp.And) != negate else disjunction(parts)
            case exp.Boolean():
                return Constant(node.this != negate)
            case exp.Null():
                return FALSE
            case exp.In():
                return self._in(node, negate)
            case exp.Between():
                this, low, high = self._terms(node, "this", "low", "high")
                return between(this, low, high, negated=negate)
            case exp.Is():
                return self._is(node, negate)
            case exp.Like() | exp.ILike() | exp.Escape():
                return self._like(node, negate)
            case exp.IsNan():
                (this,) = self._terms(node, "this")
                return is_nan(this, negated=negate)
            case exp.ArrayContains():
                lists, value = self._terms(node, "this", "expression")
                return array_contains(lists, value, negated=negate)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                found = same(*self._terms(node, "this", "expression"))
                return found if isinstance(node, exp.NullSafeEQ) != negate else complement(found)
        operator = _COMPARISONS.get(type(node))
        if operator is not None:
            left, right = self._terms(node, "this", "expression")
            return compare(operator, left, right, negated=negate)
        return self._truth(node, negate)

    def _truth(self, node: exp.Expression, negate: bool) -> Condition:
        term = self.term(node)
        if isinstance(term, Literal) and isinstance(term.value, bool | None):
            return FALSE if term.value is None else Constant(term.value != negate)
        if isinstance(term, Column) and isinstance(term.type, BooleanType):
            return Compare(term, "=", 0 if negate else 1)
        what = f"column {term.name} is of type {term.type}" if isinstance(term, Column) else "a value stands alone"
        raise InvalidInput(f"A where must be a condition, but {what}: compare it with something.")

    def _in(self, node: exp.In, negate: bool) -> Condition:
        if node.args.get("query") is not None:
            refuse("sub-queries")
        only(node, "this", "expressions")
        this = self.term(node.this)
        choices = [self.term(choice) for choice in node.expressions]
        if not choices:
            raise InvalidInput("The list after `in` is empty: write at least one value in parentheses.")
        return one_of(this, choices, negated=negate)

    def _is(self, node: exp.Is, negate: bool) -> Condition:
        only(node, "this", "expression")
        this, wanted = node.this, node.expression
        inner = this.unnest() if isinstance(this, exp.Paren) else this
        if isinstance(wanted, exp.Boolean):
            found = self.condition(this, not wanted.this)
        elif not isinstance(wanted, exp.Null):
            refuse(f"`is {type(wanted).__name__.lower()}`")
        elif isinstance(inner, _CONDITIONS):
            found = complement(disjunction([self.condition(this, False), self.condition(this, True)]))
        else:
            found = is_null(self.term(this))
        return complement(found) if negate else found

    def _like(self, node: exp.Expression, negate: bool) -> Condition:
        escape = "\\"
        if isinstance(node, exp.Escape):
            only(node, "this", "expression")
            given, node = self.term(node.expression), node.this
            if not isinstance(given, Literal) or not isinstance(given.value, str) or len(given.value) != 1:
                raise InvalidInput("The escape of a like is one character in single quotes.")
            escape = given.value
        if not isinstance(node, exp.Like | exp.ILike):
            refuse("`escape` without `like`")
        only(node, "this", "expression", "negate")
        this, pattern = self.term(node.this), self.term(node.expression)
        negated = negate != bool(node.args.get("negate"))
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str | None):
            raise InvalidInput("The pattern of a like is text in single quotes.")
        if pattern.value is None or (isinstance(this, Literal) and this.value is None):
            return FALSE
        return matches(this, pattern.value, escape, ignore_case=isinstance(node, exp.ILike), negated=negated)

    def _terms(self, node: exp.Expression, *names: str) -> list[Term]:
        only(node, *names)
        return [self.term(node.args[name]) for name in names]

    def term(self, node: exp.Expression) -> Term:
        self._depth += 1
        if self._depth > 4 * MAX_DEPTH:
            raise InvalidInput(TOO_DEEP)
        found = self._term(node)
        self._depth -= 1
        return found

    def _term(self, node: exp.Expression) -> Term:
        match node:
            case exp.Paren():
                return self.term(operand(node))
            case exp.Literal():
                return Literal(node.this, f"'{node.this}'") if node.is_string else _number(node.this)
            case exp.Boolean():
                return Literal(bool(node.this), str(node.this).lower())
            case exp.Null():
                return Literal(None, "null")
            case exp.HexString():
                return _bytes(node)
            case exp.Column() | exp.Dot():
                return self._column(node)
            case exp.Bracket():
                return self._map_value(node)
            case exp.Cast() | exp.TryCast():
                return self._cast(node)
            case exp.Neg():
                return negative(self.term(operand(node)))
            case exp.Abs():
                return absolute(self.term(operand(node)))
            case exp.Lower() | exp.Upper():
                return changed_case("lower" if isinstance(node, exp.Lower) else "upper", self.term(operand(node)))
        operator = _ARITHMETIC.get(type(node))
        if operator is None:
            refuse(described(node))
        left, right = self._terms(node, "this", "expression")
        return arithmetic(operator, left, right)

    def _map_value(self, node: exp.Bracket) -> Term:
        only(node, "this", "expressions")
        keys = [self.term(key) for key in node.expressions]
        if len(keys) != 1 or not isinstance(keys[0], Literal) or not isinstance(keys[0].value, str):
            raise InvalidInput("A key in brackets is one text in single quotes: attributes['http.route'].")
        return map_value(self.term(node.this), keys[0].value)

    def _cast(self, node: exp.Expression) -> Literal:
        only(node, "this", "to", "safe")
        this, to = self.term(node.this), node.args["to"]
        if not isinstance(this, Literal):
            refuse("a cast of anything but a literal")
        sizes = [int(size.name) for size in to.expressions if size.name.isdigit()]
        found = cast(this, to.this.name, sizes[1] if len(sizes) > 1 else None)
        if found is None:
            raise InvalidInput(
                f"{shown(this)} is not exactly a value of type {to.this.name.lower()}: correct it or use lake.sql."
            )
        return found

    def _column(self, node: exp.Expression) -> Column:
        names = path(node)
        names[0] = self._aliases.get(names[0].lower(), names[0])
        fields: tuple[NestedField, ...] = self._schema.fields
        found: list[str] = []
        column: NestedField | None = None
        for index, name in enumerate(names):
            column = _named(fields, name)
            if column is None:
                raise InvalidInput(unknown_column(self._schema, cut(".".join([*found, *names[index:]]))).message)
            found.append(column.name)
            fields = column.field_type.fields if isinstance(column.field_type, StructType) else ()
        assert column is not None, "a name has a part"
        return Column(tuple(found), column.field_id, column.field_type)


def _named(fields: tuple[NestedField, ...], name: str) -> NestedField | None:
    exact = [field for field in fields if field.name == name]
    alike = exact or [field for field in fields if field.name.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _number(text: str) -> Literal:
    number = read_number(text)
    if number is None:
        raise InvalidInput(f"The where has a number that cannot be read: {cut(text)!r}.")
    return Literal(number, text)


def _bytes(node: exp.HexString) -> Literal:
    try:
        return Literal(bytes.fromhex(node.this), f"x'{node.this}'")
    except ValueError:
        raise InvalidInput(f"x'{cut(node.this)}' is not valid: write two hex digits per byte.") from None
