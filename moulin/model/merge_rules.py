"""What `table.merge` does with each row of its source: update, delete or leave the row of its key, insert the rest.

Conditions and values are written as a `where` is, over `source.<column>` and `target.<column>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import count
from typing import Literal as Choice
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, DoubleType, FloatType, NestedField, StructType

from moulin.errors import InvalidInput
from moulin.model.conversion import Misfit, Target, absent, fit
from moulin.model.key import Key
from moulin.model.names import did_you_mean
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Column, columns_of
from moulin.model.predicate.evaluation import evaluate
from moulin.model.python_values import from_python
from moulin.model.type_reader import to_type
from moulin.model.types import renumber
from moulin.model.where import parse_where
from moulin.model.where.formula import Formula, Term
from moulin.model.where.literal import Literal
from moulin.model.where.reader import Reader
from moulin.model.where.syntax import parse_text

SOURCE, TARGET = "source", "target"
Matched: TypeAlias = Choice["update", "delete"] | None
NotMatched: TypeAlias = Choice["insert"] | None


@dataclass(frozen=True)
class MergeRules:
    """The rules of one merge, checked. Small, and sent to tasks: what is parsed is parsed again there.

    `source` is the schema of the rows that come in: columns that the table has too are of its types.
    """

    schema: Schema
    source: Schema
    matched: Matched
    values: Mapping[str, str] = field(default_factory=dict)
    condition: str | None = None
    not_matched: NotMatched = "insert"

    @classmethod
    def of(
        cls,
        schema: Schema,
        source: pa.Schema,
        when_matched: str | None,
        when_matched_set: Mapping[str, str] | None,
        when_matched_if: str | None,
        when_not_matched: str | None,
    ) -> MergeRules:
        """The rules for a table of `schema` and rows of `source`; InvalidInput says what is wrong with them."""
        if when_matched not in ("update", "delete", None):
            raise InvalidInput(f'when_matched is "update", "delete" or None, not {when_matched!r}.')
        if when_not_matched not in ("insert", None):
            raise InvalidInput(f'when_not_matched is "insert" or None, not {when_not_matched!r}.')
        if when_matched is None and when_not_matched is None:
            raise InvalidInput("This merge would do nothing: give when_matched, when_not_matched, or both.")
        if when_matched != "update" and when_matched_set:
            raise InvalidInput('when_matched_set says how rows are updated: it needs when_matched="update".')
        if when_matched is None and when_matched_if is not None:
            raise InvalidInput("when_matched_if chooses among matched rows: it needs when_matched.")
        values = dict(when_matched_set or {})
        rules = cls(schema, _source_schema(schema, source), when_matched, values, when_matched_if, when_not_matched)  # type: ignore[arg-type]
        rules._check()
        return rules

    def _check(self) -> None:
        key = Key.of(self.schema)
        assert key is not None
        table = {column.name: column for column in self.schema.fields}
        given = {column.name for column in self.source.fields}
        for name in key.names:
            if name not in given:
                raise InvalidInput(f"The source lacks the key column {name}: rows are matched by the table's key.")
        for name, text in self.values.items():
            if name not in table:
                raise InvalidInput(f"when_matched_set names {name!r}, which is no column.{did_you_mean(name, table)}")
            if name in key.names:
                raise InvalidInput(f"when_matched_set cannot change {name}: it is part of the key.")
            if not isinstance(text, str):
                raise InvalidInput(f"when_matched_set takes expressions as text, not {text!r} for column {name}.")
        if self.not_matched:
            for column in self.schema.fields:
                if column.required and column.name not in given and Target.of(column).default is None:
                    raise InvalidInput(
                        f"Column {column.name} is required and the source lacks it: rows cannot be inserted. "
                        "Add it, or say when_not_matched=None."
                    )
        used = {column.path[1] for column in self._columns if column.path[0] == SOURCE and len(column.path) > 1}
        for name in given - used:
            if name not in table:
                raise InvalidInput(
                    f"The source has a column {name!r} that the table lacks and that nothing uses."
                    f"{did_you_mean(name, table)} Drop it from the source."
                )
        self._evaluated(self._pairs.empty_table())

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The columns of the row that is there which must be read; none when only its position matters."""
        needed = {column.path[1] for column in self._columns if column.path[0] == TARGET and len(column.path) > 1}
        if any(column.path == (TARGET,) for column in self._columns):
            needed |= {column.name for column in self.schema.fields}
        if self.matched == "update":
            given = set(self.values) if self.values else {column.name for column in self.source.fields}
            key = {self.schema.find_column_name(number) for number in self.schema.identifier_field_ids}
            needed |= {column.name for column in self.schema.fields if column.name not in given | key}
        return tuple(column.name for column in self.schema.fields if column.name in needed)

    def choose(self, source: pa.Table, target: pa.Table) -> pa.ChunkedArray | None:
        """Which of the matched rows are updated or deleted; None: all. `target` has `target_columns`."""
        if self._predicate is None or self._predicate.is_true:
            return None
        if self._predicate.is_false:
            return pa.chunked_array([pa.repeat(False, source.num_rows)])
        return pc.fill_null(
            self._computed(self._predicate.expression, _paired(source, target), "when_matched_if"), False
        )

    def updated(self, source: pa.Table, target: pa.Table) -> pa.Table:
        """The rows that take the place of matched ones, in the table's schema."""
        computed = self._evaluated(_paired(source, target)) if self.values else {}
        key = {self.schema.find_column_name(number) for number in self.schema.identifier_field_ids}
        columns = []
        for column in self.schema.fields:
            if column.name in computed:
                columns.append(computed[column.name])
            elif column.name in source.column_names and (not self.values or column.name in key):
                columns.append(source.column(column.name))
            else:
                columns.append(target.column(column.name))
        return _fitted(columns, self.schema)

    def inserted(self, source: pa.Table) -> pa.Table:
        """Rows of keys that are not there, in the table's schema."""
        columns = [
            source.column(column.name)
            if column.name in source.column_names
            else absent(Target.of(column), source.num_rows)
            for column in self.schema.fields
        ]
        return _fitted(columns, self.schema)

    def _evaluated(self, pairs: pa.Table) -> dict[str, pa.ChunkedArray | pa.Array]:
        found: dict[str, pa.ChunkedArray | pa.Array] = {}
        for name, term in self._terms.items():
            target = Target.of(self.schema.find_field(name))
            if isinstance(term, Literal):
                found[name] = _literal(term, self.schema.find_field(name), target, pairs.num_rows)
            else:
                expression = term.stored if isinstance(term, Column) else term.expression
                found[name] = self._computed(expression, pairs, f"when_matched_set of {name}")
                _fit_column(found[name], target)
        return found

    def _computed(self, expression: pc.Expression, pairs: pa.Table, what: str) -> pa.ChunkedArray:
        try:
            return evaluate(expression, pairs)
        except pa.ArrowException as error:
            raise InvalidInput(f"{what} cannot be computed: {str(error).splitlines()[0]}.") from None

    @cached_property
    def _pair_schema(self) -> Schema:
        """One struct for each side, so that `source.x` and `target.x` are fields of columns."""
        sides = [
            NestedField(place, name, StructType(*schema.fields), required=False)
            for place, (name, schema) in enumerate(((SOURCE, self.source), (TARGET, self.schema)), 1)
        ]
        made = renumber(StructType(*sides), count(1).__next__)
        assert isinstance(made, StructType)
        return Schema(*made.fields)

    @cached_property
    def _pairs(self) -> pa.Schema:
        from moulin.model.arrow import arrow_schema

        return arrow_schema(self._pair_schema)

    @cached_property
    def _predicate(self) -> Predicate | None:
        if self.condition is None:
            return None
        try:
            return parse_where(self.condition, self._pair_schema)
        except InvalidInput as error:
            raise InvalidInput(f"when_matched_if: {error.message} Name columns as source.x and target.x.") from None

    @cached_property
    def _terms(self) -> dict[str, Term]:
        found = {}
        for name, text in self.values.items():
            try:
                found[name] = Reader(self._pair_schema).term(parse_text(text))
            except InvalidInput as error:
                raise InvalidInput(
                    f"when_matched_set of {name}: {error.message} Name columns as source.x and target.x."
                ) from None
        return found

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        columns = [] if self._predicate is None else list(columns_of(self._predicate.condition))
        for term in self._terms.values():
            columns += [term] if isinstance(term, Column) else term.columns if isinstance(term, Formula) else ()
        return tuple(columns)

    def __getstate__(self) -> dict[str, object]:
        names = ("schema", "source", "matched", "values", "condition", "not_matched")
        return {name: self.__dict__[name] for name in names}


def _source_schema(schema: Schema, source: pa.Schema) -> Schema:
    """The columns of the source: those of the table with its types, others with their own."""
    table = {column.name: column for column in schema.fields}
    key = {schema.find_column_name(number) for number in schema.identifier_field_ids}
    fields = []
    for place, given in enumerate(source, 1):
        known = table.get(given.name)
        kind = known.field_type if known is not None else to_type(given.type, f"column {given.name} of the source")
        fields.append(NestedField(place, given.name, kind, required=given.name in key))
    if len({column.name for column in fields}) < len(fields):
        raise InvalidInput("The source has two columns of one name: rename or drop one of them.")
    made = renumber(StructType(*fields), count(1).__next__)
    assert isinstance(made, StructType)
    return Schema(*made.fields)


def _paired(source: pa.Table, target: pa.Table) -> pa.Table:
    sides = {SOURCE: source, TARGET: target}
    return pa.table({name: rows.to_struct_array() for name, rows in sides.items() if rows.num_columns})


def _literal(term: Literal, column: NestedField, target: Target, rows: int) -> pa.Array:
    value: object = term.value
    if isinstance(value, Decimal) and not isinstance(column.field_type, DecimalType):
        floating = isinstance(column.field_type, FloatType | DoubleType)
        value = float(value) if floating else int(value) if value == int(value) else value
    try:
        if isinstance(value, str) and not pa.types.is_string(target.type):
            one = pa.array([value]).cast(target.type)
        else:
            one = from_python([value], target)
    except (Misfit, pa.ArrowException, TypeError, ValueError):
        raise InvalidInput(
            f"when_matched_set of {column.name}: {term.sql} is no value of type {column.field_type}."
        ) from None
    return one.take(pa.array([0] * rows, pa.int64())) if rows != 1 else one


def _fitted(columns: list[pa.ChunkedArray | pa.Array], schema: Schema) -> pa.Table:
    from moulin.model.arrow import arrow_schema

    fitted = [_fit_column(c, Target.of(f)) for c, f in zip(columns, schema.fields, strict=True)]
    return pa.Table.from_arrays(fitted, schema=arrow_schema(schema))


def _fit_column(column: pa.ChunkedArray | pa.Array, target: Target) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    try:
        if pa.types.is_decimal256(array.type):  # what decimals are computed in
            array = array.cast(target.type if pa.types.is_decimal(target.type) else pa.float64())
        return fit(array, target, rounding=True)
    except Misfit as misfit:
        raise InvalidInput(f"Column {misfit.path}: {misfit.reason}") from None
    except pa.ArrowException as error:
        raise InvalidInput(f"Column {target.path}: {str(error).splitlines()[0]}.") from None


__all__ = ["MergeRules"]
