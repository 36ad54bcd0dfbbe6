"""A predicate: which rows of a table a `where` takes. Made once, by `where.parse_where` or by another front end, and
sent to tasks as it is.

Only rows for which it is TRUE match, as in SQL: `a != 1` and `not (a = 1)` leave out rows where a is null. Floats
follow Spark: NaN equals NaN and is greater than every other number, and -0.0 equals 0.0. (A pyarrow expression means
what it means to Arrow, for which no comparison with NaN holds but !=.) Pruning never leaves out a row that matches,
and `must_match` never takes in one that does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.facts import ColumnFacts
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.predicate.condition import FALSE, TRUE, Column, Condition, columns_of, complement, expression_of
from moulin.model.predicate.evaluation import evaluate
from moulin.model.predicate.outline import outline
from moulin.model.predicate.prune import narrow, possible, state_of_facts, state_of_partition, time_range
from moulin.model.predicate.terms import Term, terms_of
from moulin.model.schema.values import Schema

_DESCRIPTION = 200


@dataclass(frozen=True, eq=False)
class Predicate:
    """`condition` is simplified: TRUE or FALSE when that can be seen without data. `text` is what the user wrote."""

    schema: Schema
    condition: Condition
    text: str

    @classmethod
    def everything(cls, schema: Schema) -> Predicate:
        """Takes every row."""
        return cls(schema, TRUE, "true")

    @classmethod
    def of(cls, schema: Schema, condition: Condition, text: str) -> Predicate:
        """The predicate of `condition`, which is over columns of `schema`."""
        if narrow(condition, {}) is None:
            condition = FALSE
        elif narrow(complement(condition), {}) is None:
            condition = TRUE
        return cls(schema, condition, text)

    def __getstate__(self) -> dict[str, object]:
        """What tasks get: without what is computed from it."""
        return {"schema": self.schema, "condition": self.condition, "text": self.text}

    @property
    def is_true(self) -> bool:
        return self.condition == TRUE

    @property
    def is_false(self) -> bool:
        return self.condition == FALSE

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The top-level columns that `expression` and `mask` read, in the order of the schema."""
        needed = {column.path[0] for column in self._columns}
        return tuple(field.name for field in self.schema.fields if field.name in needed)

    @cached_property
    def expression(self) -> pc.Expression:
        """True for exactly the rows that match, and false or null for others.

        It is over rows of `arrow_schema(schema)`, or of `columns` alone.
        """
        return expression_of(self.condition)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Conditions that together are this one, those first that read least. A row matches if all of them are true."""
        return terms_of(self.condition, self.schema)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows of `batch` match. It needs `columns`, others are not looked at."""
        if self.is_true or self.is_false:
            return pa.repeat(self.is_true, batch.num_rows)
        source = pa.Table.from_batches([batch.select(list(self.columns))])
        try:
            found = evaluate(self.expression, source)
        except pa.ArrowException as error:
            raise InvalidInput(
                f"The where {self.describe()!r} cannot be evaluated: {str(error).splitlines()[0]}."
            ) from error
        return pc.fill_null(pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], pa.bool_()), False)

    def may_match(self, facts: Mapping[int, ColumnFacts], rows: int) -> bool:
        """Whether a segment of `rows` rows may hold a match; `facts` are by field id, what is missing is unknown."""
        return possible(self.condition, state_of_facts(self._columns, facts, rows))

    def must_match(self, facts: Mapping[int, ColumnFacts], rows: int) -> bool:
        """Whether every row of such a segment surely matches."""
        return not possible(self._complement, state_of_facts(self._columns, facts, rows))

    def may_match_partition(self, spec: PartitionSpec, schema: Schema, partition: tuple[bytes | None, ...]) -> bool:
        """Whether a segment with this partition tuple may hold a match. `schema` has the source columns of `spec`."""
        return possible(self.condition, state_of_partition(self._columns, spec, schema, partition))

    def must_match_partition(self, spec: PartitionSpec, schema: Schema, partition: tuple[bytes | None, ...]) -> bool:
        """Whether every row of a segment with this partition tuple surely matches."""
        return not possible(self._complement, state_of_partition(self._columns, spec, schema, partition))

    def time_range(self, field_id: int) -> tuple[int | None, int | None] | None:
        """The closed range of Unix nanoseconds in which a date or timestamp column of every match lies.

        An end is None when open, and both are when a row with null may match. None when nothing matches. Ends are moved
        into 64 bits, as those of a segment's own time range are.
        """
        column = next((column for column in self._columns if column.field_id == field_id), None)
        if column is None:
            return None if self.is_false else (None, None)
        return time_range(narrow(self.condition, {}), column)

    @cached_property
    def field_ids(self) -> frozenset[int]:
        """The fields whose facts `may_match` and `must_match` look at."""
        return frozenset(column.field_id for column in self._columns)

    def describe(self) -> str:
        """What the user wrote, on one line, cut to a length that fits an error."""
        return _cut(" ".join(self.text.split()))

    def outline(self) -> str:
        """The same without values, for what is kept: see `outline.py`."""
        return _cut(outline(self.condition))

    @cached_property
    def _columns(self) -> tuple[Column, ...]:
        return columns_of(self.condition)

    @cached_property
    def _complement(self) -> Condition:
        return complement(self.condition)


def _cut(line: str) -> str:
    return line if len(line) <= _DESCRIPTION else line[: _DESCRIPTION - 3] + "..."
