"""The clauses of a merge on any condition, bound to the table and to the columns of the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.assignments import Assignments
from moulin.model.names import did_you_mean
from moulin.model.pairs import ALIASES, SOURCE, TARGET, pair_schema, unreadable
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Column, columns_of, conjunction
from moulin.model.rows.conversion import Misfit, Target, fit
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.model.schema.schema import key_names
from moulin.model.schema.type_reader import to_type
from moulin.model.schema.types import renumber
from moulin.model.schema.values import NestedField, Schema, StructType
from moulin.model.where import Where, parse_where
from moulin.model.where.conditions import same
from moulin.model.where.join import Join, parse_join
from moulin.table.edit.edits import Action, Clause


class Match(StrEnum):
    """Which rows a clause is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """A clause as the user wrote it: `values` of None are those of all columns that the source has.

    `what` is the name of the call, for messages.
    """

    match: Match
    action: Action
    what: str
    values: Mapping[str, object] | None = None
    condition: Where = None


@dataclass(frozen=True)
class MergeRule:
    """A clause that is bound: over pairs, or over one side of them. `unchanged` must hold for rows that it updates."""

    match: Match
    action: Action
    what: str
    values: Assignments | None
    condition: Predicate | None
    unchanged: Predicate | None = None

    @property
    def clause(self) -> Clause:
        return Clause(self.action, () if self.values is None else self.values.names)

    @property
    def columns(self) -> tuple[Column, ...]:
        predicates = (predicate for predicate in (self.condition, self.unchanged) if predicate is not None)
        found = [column for predicate in predicates for column in columns_of(predicate.condition)]
        return (*found, *(() if self.values is None else self.values.columns))


@dataclass(frozen=True)
class MergeStatement:
    """A merge that is bound to the schemas of a table and of a source, checked. Sent to tasks."""

    schema: Schema
    source: Schema
    join: Join
    rules: tuple[MergeRule, ...]

    @classmethod
    def of(cls, table: str, schema: Schema, source: Schema, on: str, clauses: Sequence[MergeClause]) -> MergeStatement:
        """InvalidInput says what is wrong with the condition or with a clause."""
        pair = pair_schema(source, schema)
        try:
            join = parse_join(on, pair, SOURCE, TARGET, ALIASES)
        except InvalidInput as error:
            raise unreadable("on", error, pair) from None
        binding = _Binding(table, schema, source, pair, join)
        made = cls(schema, source, join, tuple(binding.rule(clause) for clause in clauses))
        made._check_use(clauses)
        return made

    def of_match(self, match: Match) -> list[tuple[int, MergeRule]]:
        """The clauses for some rows, in their order, with their numbers."""
        return [(number, rule) for number, rule in enumerate(self.rules) if rule.match is match]

    def target_columns(self) -> list[str]:
        """The columns of the table that must be read to match rows and to compute values."""
        return _of_side((*self.join.columns, *self._columns(self.rules)), TARGET, self.schema)

    def source_columns(self) -> list[str]:
        """The columns of the source that matching needs, and clauses for rows of the table."""
        rules = (rule for rule in self.rules if rule.match is not Match.NOT_MATCHED)
        return _of_side((*self.join.columns, *self._columns(rules)), SOURCE, self.source)

    def _columns(self, rules: Iterable[MergeRule]) -> tuple[Column, ...]:
        return tuple(column for rule in rules for column in rule.columns)

    def _check_use(self, clauses: Sequence[MergeClause]) -> None:
        """Refuse a column of the source that goes nowhere although all columns were asked for."""
        if all(clause.values is not None or clause.action is Action.DELETE for clause in clauses):
            return
        table = {column.name for column in self.schema.fields}
        used = set(_of_side((*self.join.columns, *self._columns(self.rules)), SOURCE, self.source))
        for column in self.source.fields:
            if column.name not in table | used:
                raise InvalidInput(
                    f"The source has a column {column.name!r} that the table lacks and no expression uses."
                    f"{did_you_mean(column.name, table)} Drop it from the source."
                )


@dataclass(frozen=True, slots=True)
class _Binding:
    table: str
    schema: Schema
    source: Schema
    pair: Schema
    join: Join

    def rule(self, clause: MergeClause) -> MergeRule:
        of_source, of_target = (Schema(field) for field in self.pair.fields)
        rows = {
            Match.MATCHED: self.pair,
            Match.NOT_MATCHED: of_source,
            Match.NOT_MATCHED_BY_SOURCE: of_target,
        }[clause.match]
        try:
            condition = None if clause.condition is None else parse_where(clause.condition, rows, ALIASES)
        except InvalidInput as error:
            raise unreadable(f"The condition of {clause.what}", error, rows) from None
        if clause.action is Action.DELETE:
            return MergeRule(clause.match, clause.action, clause.what, None, condition)
        values = self._all(clause) if clause.values is None else self._given(clause, rows)
        values.over(empty_table(arrow_schema(rows)))
        unchanged = None
        if clause.action is Action.INSERT:
            self._check_required(values)
        elif clause.values is None:
            unchanged = self._same_key()
        return MergeRule(clause.match, clause.action, clause.what, values, condition, unchanged)

    def _given(self, clause: MergeClause, rows: Schema) -> Assignments:
        assert clause.values is not None
        sql = f'lake.sql("merge into {self.table} ...")'
        values = Assignments.of(self.schema, clause.values, rows, clause.what, aliases=ALIASES, sql=sql)
        if clause.action is Action.UPDATE:
            values.refuse_key()
        return values

    def _all(self, clause: MergeClause) -> Assignments:
        """The columns that both have; of an update, those of the key excepted."""
        left_out = key_names(self.schema) if clause.action is Action.UPDATE else ()
        given = {
            name: column
            for name, column in self._columns(SOURCE).items()
            if any(field.name == name for field in self.schema.fields) and name not in left_out
        }
        if not given and clause.action is Action.UPDATE:
            raise InvalidInput(f"{clause.what}: the source has no columns of the table except its key.")
        return Assignments(self.schema, given, clause.what)

    def _columns(self, side: str) -> dict[str, Column]:
        """The columns of one side, as terms."""
        struct = next(field.field_type for field in self.pair.fields if field.name == side)
        assert isinstance(struct, StructType)
        return {field.name: Column((side, field.name), field.field_id, field.field_type) for field in struct.fields}

    def _same_key(self) -> Predicate | None:
        """That the source has the key of the row; None when that is certain, or the source has no key."""
        source, target = self._columns(SOURCE), self._columns(TARGET)
        certain = {(one.left, one.right) for one in self.join.equal if isinstance(one.left, Column)}
        asked = [
            same(target[name], source[name])
            for name in key_names(self.schema)
            if name in source and (source[name], target[name]) not in certain
        ]
        return Predicate.of(self.pair, conjunction(asked), "the same key") if asked else None

    def _check_required(self, values: Assignments) -> None:
        for field in self.schema.fields:
            if field.required and field.name not in values.values and Target.of(field).default is None:
                raise InvalidInput(
                    f"{values.what}: column {field.name} is required, but has no value. Add it to the "
                    "values, or to the source."
                )


def _of_side(columns: Iterable[Column], side: str, schema: Schema) -> list[str]:
    """The columns of one side among those of pairs, in the order of its schema."""
    needed = {column.path[1] for column in columns if column.path[0] == side and len(column.path) > 1}
    whole = any(column.path == (side,) for column in columns)
    return [field.name for field in schema.fields if whole or field.name in needed]


def source_types(schema: Schema, source: pa.Schema) -> Schema:
    """The columns of a source: those that the table has in its types, unless they do not fit, others in their own."""
    table = {column.name: column for column in schema.fields}
    columns = []
    for number, given in enumerate(source, 1):
        known = table.get(given.name)
        if known is not None and _fits(given.type, known):
            kind = known.field_type
        else:
            kind = to_type(given.type, f"column {given.name} of the source")
        columns.append(NestedField(number, given.name, kind, required=False))
    if len({column.name for column in columns}) < len(columns):
        raise InvalidInput("The source has two columns with the same name: rename or drop one of them.")
    made = renumber(StructType(*columns), count(1).__next__)
    assert isinstance(made, StructType)
    return Schema(*made.fields)


def _fits(given: pa.DataType, column: NestedField) -> bool:
    try:
        fit(pa.nulls(0, given), Target.of(column))
    except Misfit:
        return False
    return True
