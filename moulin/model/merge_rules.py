"""The rules of `table.merge` for each source row: update, delete or keep the row with its key, or insert.

Conditions and values are written as a `where` is, over `source.<column>` and `target.<column>`; those of rows that are
inserted over `source.<column>` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Literal as Choice
from typing import TypeAlias

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.assignments import fit_column, term_values
from moulin.model.key.key import Key
from moulin.model.names import did_you_mean
from moulin.model.pairs import SOURCE, TARGET, pair_schema, paired, true_for, unreadable
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Column, columns_of
from moulin.model.rows.conversion import Target, absent
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.model.schema.schema import key_names
from moulin.model.schema.type_reader import to_type
from moulin.model.schema.types import renumber
from moulin.model.schema.values import NestedField, Schema, StructType
from moulin.model.where import parse_term, parse_where
from moulin.model.where.formula import Term, term_columns
from moulin.model.where.literal import Literal

Matched: TypeAlias = Choice["update", "delete"] | None
NotMatched: TypeAlias = Choice["insert"] | None


@dataclass(frozen=True)
class MergeRules:
    """The rules of one merge, parsed and checked. Sent to tasks.

    `source` is the schema of the rows that come in: columns that the table has too are of its types. Conditions and
    values are over pairs of a source row and a target row, one struct each.
    """

    schema: Schema
    source: Schema
    matched: Matched
    values: Mapping[str, Term]
    condition: Predicate | None
    not_matched: NotMatched
    delete_condition: Predicate | None
    insert_values: Mapping[str, Term]
    insert_condition: Predicate | None

    @classmethod
    def of(
        cls,
        schema: Schema,
        source: pa.Schema,
        when_matched: str | None,
        when_matched_set: Mapping[str, str] | None,
        when_matched_if: str | None,
        when_not_matched: str | None,
        when_matched_delete_if: str | None = None,
        when_not_matched_set: Mapping[str, str] | None = None,
        when_not_matched_if: str | None = None,
    ) -> MergeRules:
        """The rules for a table of `schema` and rows of `source`; InvalidInput says what is wrong with them."""
        if when_matched not in ("update", "delete", None):
            raise InvalidInput(f'when_matched must be "update", "delete" or None, not {when_matched!r}.')
        if when_not_matched not in ("insert", None):
            raise InvalidInput(f'when_not_matched must be "insert" or None, not {when_not_matched!r}.')
        if when_matched is None and when_not_matched is None:
            raise InvalidInput("This merge would do nothing: give when_matched, when_not_matched, or both.")
        if when_matched != "update" and when_matched_set:
            raise InvalidInput('when_matched_set needs when_matched="update".')
        if when_matched is None and when_matched_if is not None:
            raise InvalidInput("when_matched_if needs when_matched.")
        if when_matched != "update" and when_matched_delete_if is not None:
            raise InvalidInput(
                "when_matched_delete_if needs "
                'when_matched="update". To only delete, use when_matched="delete" and when_matched_if.'
            )
        if when_not_matched is None and (when_not_matched_set or when_not_matched_if is not None):
            raise InvalidInput('when_not_matched_set and when_not_matched_if need when_not_matched="insert".')
        came = _source_schema(schema, source)
        _check_names(schema, came, when_matched_set or {}, when_not_matched_set or {})
        if when_not_matched:
            _check_required(schema, came, when_not_matched_set or {})
        pair = pair_schema(came, schema)
        source_only = Schema(pair.fields[0])  # the pair of a row that has no match
        rules = cls(
            schema,
            came,
            matched=when_matched,  # type: ignore[arg-type]
            not_matched=when_not_matched,  # type: ignore[arg-type]
            condition=_condition(when_matched_if, pair, "when_matched_if"),
            delete_condition=_condition(when_matched_delete_if, pair, "when_matched_delete_if"),
            insert_condition=_condition(when_not_matched_if, source_only, "when_not_matched_if"),
            values=_terms(when_matched_set or {}, pair, "when_matched_set"),
            insert_values=_terms(when_not_matched_set or {}, source_only, "when_not_matched_set"),
        )
        rules._check_use()
        rules._check_types(empty_table(arrow_schema(pair)))
        return rules

    def _check_use(self) -> None:
        """Refuses a column of the source that goes nowhere."""
        table = {column.name for column in self.schema.fields}
        used = {column.path[1] for column in self._columns if column.path[0] == SOURCE and len(column.path) > 1}
        for name in {column.name for column in self.source.fields} - used:
            if name not in table:
                raise InvalidInput(
                    f"The source has a column {name!r} that the table lacks and no expression uses."
                    f"{did_you_mean(name, table)} Remove it from the source."
                )

    def _check_types(self, pairs: pa.Table) -> None:
        """Refuses values that do not fit their columns; `pairs` has no rows."""
        self._evaluated(pairs, self.values, "when_matched_set")
        self._evaluated(pairs.select([SOURCE]), self.insert_values, "when_not_matched_set")

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
        """Which of the matched rows are updated or deleted; None: all. `target` has `target_columns`.

        Rows that `doomed` names are not to be updated, whatever this says.
        """
        return true_for(self.condition, paired(source.num_rows, source, target), source.num_rows, "when_matched_if")

    def doomed(self, source: pa.Table, target: pa.Table) -> pa.ChunkedArray | None:
        """Which of the matched rows are deleted where others are updated; None when nothing was said of that."""
        if self.delete_condition is None:
            return None
        found = true_for(
            self.delete_condition, paired(source.num_rows, source, target), source.num_rows, "when_matched_delete_if"
        )
        return pa.chunked_array([pa.repeat(True, source.num_rows)]) if found is None else found

    def insertable(self, source: pa.Table) -> pa.ChunkedArray | None:
        """Which of the rows without a match are inserted; None: all."""
        return true_for(self.insert_condition, paired(source.num_rows, source), source.num_rows, "when_not_matched_if")

    def updated(self, source: pa.Table, target: pa.Table) -> pa.Table:
        """The rows that take the place of matched ones, in the table's schema."""
        computed = (
            self._evaluated(paired(source.num_rows, source, target), self.values, "when_matched_set")
            if self.values
            else {}
        )
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
        named = self.insert_values
        computed = self._evaluated(paired(source.num_rows, source), named, "when_not_matched_set") if named else {}
        key = {self.schema.find_column_name(number) for number in self.schema.identifier_field_ids}
        columns = []
        for column in self.schema.fields:
            if column.name in computed:
                columns.append(computed[column.name])
            elif column.name in source.column_names and (not named or column.name in key):
                columns.append(source.column(column.name))
            else:
                columns.append(absent(Target.of(column), source.num_rows))
        return _fitted(columns, self.schema)

    def _evaluated(
        self, pairs: pa.Table, terms: Mapping[str, Term], what: str
    ) -> dict[str, pa.ChunkedArray | pa.Array]:
        found: dict[str, pa.ChunkedArray | pa.Array] = {}
        for name, term in terms.items():
            target = Target.of(self.schema.find_field(name))
            found[name] = term_values(term, self.schema.find_field(name), target, pairs, what)
            if not isinstance(term, Literal):
                fit_column(found[name], target)
        return found

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        columns: list[Column] = []
        for predicate in (self.condition, self.delete_condition, self.insert_condition):
            columns += [] if predicate is None else columns_of(predicate.condition)
        for term in (*self.values.values(), *self.insert_values.values()):
            columns += term_columns(term)
        return tuple(columns)


def _check_names(schema: Schema, source: Schema, values: Mapping[str, str], insert_values: Mapping[str, str]) -> None:
    """Refuses a source without the key, and values of columns that cannot be set."""
    key = Key.of(schema)
    assert key is not None
    table = {column.name for column in schema.fields}
    given = {column.name for column in source.fields}
    for name in key.names:
        if name not in given:
            raise InvalidInput(f"The source lacks the key column {name}: rows are matched by the table's key.")
    for what, texts in (("when_matched_set", values), ("when_not_matched_set", insert_values)):
        for name, text in texts.items():
            if name not in table:
                raise InvalidInput(f"{what} names {name!r}, which is not a column.{did_you_mean(name, table)}")
            if name in key.names:
                raise InvalidInput(f"{what} cannot change {name}: it is part of the key.")
            if not isinstance(text, str):
                raise InvalidInput(f"{what} must have expressions as text, not {text!r} for column {name}.")


def _check_required(schema: Schema, source: Schema, insert_values: Mapping[str, str]) -> None:
    """Refuses inserts that would leave a required column without a value."""
    made = {*insert_values, *key_names(schema)} if insert_values else {column.name for column in source.fields}
    for column in schema.fields:
        if column.required and column.name not in made and Target.of(column).default is None:
            lacking = "when_not_matched_set" if insert_values else "the source"
            raise InvalidInput(
                f"Column {column.name} is required and {lacking} lacks it: rows cannot be inserted. Add it, or use "
                f"when_not_matched=None."
            )


def _condition(text: str | None, schema: Schema, what: str) -> Predicate | None:
    if text is None:
        return None
    try:
        return parse_where(text, schema)
    except InvalidInput as error:
        raise unreadable(what, error, schema) from None


def _terms(values: Mapping[str, str], schema: Schema, what: str) -> dict[str, Term]:
    found = {}
    for name, text in values.items():
        try:
            found[name] = parse_term(text, schema)
        except InvalidInput as error:
            raise unreadable(f"{what} of {name}", error, schema) from None
    return found


def _source_schema(schema: Schema, source: pa.Schema) -> Schema:
    """The columns of the source: those of the table with its types, others with their own."""
    table = {column.name: column for column in schema.fields}
    key = {schema.find_column_name(number) for number in schema.identifier_field_ids}
    columns = []
    for number, given in enumerate(source, 1):
        known = table.get(given.name)
        kind = known.field_type if known is not None else to_type(given.type, f"column {given.name} of the source")
        columns.append(NestedField(number, given.name, kind, required=given.name in key))
    if len({column.name for column in columns}) < len(columns):
        raise InvalidInput("The source has two columns with the same name: rename or drop one of them.")
    made = renumber(StructType(*columns), count(1).__next__)
    assert isinstance(made, StructType)
    return Schema(*made.fields)


def _fitted(columns: list[pa.ChunkedArray | pa.Array], schema: Schema) -> pa.Table:
    fitted = [fit_column(c, Target.of(f)) for c, f in zip(columns, schema.fields, strict=True)]
    return pa.Table.from_arrays(fitted, schema=arrow_schema(schema))


__all__ = ["MergeRules"]
