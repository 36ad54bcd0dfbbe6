"""MergeBuilder: builds a merge on any condition, clause by clause."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.entities import TableState
from moulin.model.schema.values import Schema
from moulin.model.where import Where
from moulin.table.context import Context
from moulin.table.edit.commit import apply_edits
from moulin.table.edit.edits import Action, Edits
from moulin.table.edit.merge import merge_edits
from moulin.table.edit.merge_source import MergeSource
from moulin.table.edit.merge_statement import Match, MergeClause, MergeStatement, source_types
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.write.writes import Outcome


class MergeBuilder:
    """A merge of the rows of a source into a table, which `table.merge(source, on=...)` returns; `execute` runs it.

    Of several clauses for the same rows, the first whose condition holds is applied. Conditions and values are written
    as a `where` is, over `source.<column>` and `target.<column>` (or `s.` and `t.`); a value that is not text is that
    value. Rows that are updated keep their `_row_id`.

        outcome = (
            orders.merge(rows, on="target.id = source.id and target.day = source.day")
            .when_matched_delete(condition="source.amount = 0")
            .when_matched_update({"amount": "target.amount + source.amount"})
            .when_not_matched_insert_all()
            .execute()
        )
    """

    def __init__(
        self,
        context: Context,
        newest: Callable[[], TableState],
        keyed: Callable[[], KeyedTable | None],
        source: object,
        on: str,
    ) -> None:
        self._context, self._newest, self._keyed = context, newest, keyed
        self._source, self._on = MergeSource.of(context, source, newest().schema), on
        self._clauses: list[MergeClause] = []

    def when_matched_update(self, set: Mapping[str, object], condition: Where = None) -> MergeBuilder:
        """Give columns of matched rows new values: `{"amount": "source.amount", "state": "'paid'"}`.

        >>> orders = lake.table("shop.orders")
        >>> merge = orders.merge([{"id": 1, "amount": 1.0}, {"id": 2, "amount": 2.0}], on="target.id = source.id")
        >>> merge.when_matched_update({"amount": "source.amount + target.amount"}).execute().rows_updated
        1
        """
        return self._with(Match.MATCHED, Action.UPDATE, "when_matched_update", _named(set), condition)

    def when_matched_update_all(self, condition: Where = None) -> MergeBuilder:
        """Set the columns that the source has in matched rows; others keep their values, and so does the key.

        `orders.merge(rows, on="t.id = s.id").when_matched_update_all("s.ts > t.ts")`

        >>> orders = lake.table("shop.orders")
        >>> merge = orders.merge([{"id": 1, "amount": 1.0}, {"id": 2, "amount": 2.0}], on="target.id = source.id")
        >>> merge.when_matched_update_all("source.amount > 0").execute().rows_updated
        1
        """
        return self._with(Match.MATCHED, Action.UPDATE, "when_matched_update_all", None, condition)

    def when_matched_delete(self, condition: Where = None) -> MergeBuilder:
        """Delete matched rows: `.when_matched_delete("source.amount = 0")`.

        >>> orders = lake.table("shop.orders")
        >>> merge = orders.merge([{"id": 1, "amount": 1.0}, {"id": 2, "amount": 2.0}], on="target.id = source.id")
        >>> merge.when_matched_delete().execute().rows_deleted
        1
        """
        return self._with(Match.MATCHED, Action.DELETE, "when_matched_delete", None, condition)

    def when_not_matched_insert(self, values: Mapping[str, object], condition: Where = None) -> MergeBuilder:
        """Insert rows of the source that match none: `{"id": "source.id", "amount": 0}`.

        Other columns have their default, or are null. Expressions are over `source.<column>` alone.

        >>> orders = lake.table("shop.orders")
        >>> merge = orders.merge([{"id": 1, "amount": 1.0}, {"id": 2, "amount": 2.0}], on="target.id = source.id")
        >>> merge.when_not_matched_insert({"id": "source.id", "customer": "'new'"}).execute().rows_added
        1
        """
        return self._with(Match.NOT_MATCHED, Action.INSERT, "when_not_matched_insert", _named(values), condition)

    def when_not_matched_insert_all(self, condition: Where = None) -> MergeBuilder:
        """Insert rows of the source that match none, with the columns that it has.

        `orders.merge(rows, on="t.id = s.id").when_not_matched_insert_all("s.amount > 0")`

        >>> orders = lake.table("shop.orders")
        >>> merge = orders.merge([{"id": 1, "amount": 1.0}, {"id": 2, "amount": 2.0}], on="target.id = source.id")
        >>> merge.when_not_matched_insert_all().execute().rows_added
        1
        """
        return self._with(Match.NOT_MATCHED, Action.INSERT, "when_not_matched_insert_all", None, condition)

    def when_not_matched_by_source_update(self, set: Mapping[str, object], condition: Where = None) -> MergeBuilder:
        """Give columns new values in rows of the table that match no row of the source: `{"state": "'gone'"}`.

        Expressions are over `target.<column>` alone. The whole table is read.

        >>> merge = lake.table("shop.orders").merge([{"id": 2}], on="target.id = source.id")
        >>> merge.when_not_matched_by_source_update({"customer": "'gone'"}).execute().rows_updated
        1
        """
        what = "when_not_matched_by_source_update"
        return self._with(Match.NOT_MATCHED_BY_SOURCE, Action.UPDATE, what, _named(set), condition)

    def when_not_matched_by_source_delete(self, condition: Where = None) -> MergeBuilder:
        """Delete rows of the table that match no row of the source; the whole table is read.

        `.when_not_matched_by_source_delete("target.day = '2024-05-31'")` deletes among those of a day.

        >>> merge = lake.table("shop.orders").merge([{"id": 2}], on="target.id = source.id")
        >>> merge.when_not_matched_by_source_delete().execute().rows_deleted
        1
        """
        what = "when_not_matched_by_source_delete"
        return self._with(Match.NOT_MATCHED_BY_SOURCE, Action.DELETE, what, None, condition)

    def execute(self) -> Outcome:
        """Run the merge, as one version; none when nothing changes. The outcome has the counts of rows.

        InvalidInput when more than one row of the source matches a row that is updated or deleted.

        >>> orders = lake.table("shop.orders")
        >>> merge = orders.merge([{"id": 1, "amount": 1.0}, {"id": 2, "amount": 2.0}], on="target.id = source.id")
        >>> merge.when_not_matched_insert_all("source.amount < 10").execute().rows_added
        1
        """
        if not self._clauses:
            raise InvalidInput("This merge would do nothing: add a clause, for example when_matched_update_all().")
        first = self._newest()
        schema, statement = self._bound(first)
        rows: pa.Table = self._source.table(self._context, schema, first.full_name)

        def compute(state: TableState) -> Edits:
            if state.schema.schema_id == first.schema.schema_id:
                return merge_edits(self._context, state, statement, rows)
            now, bound = self._bound(state)
            return merge_edits(self._context, state, bound, self._source.table(self._context, now, state.full_name))

        return apply_edits(self._context, self._newest, self._keyed(), compute, {"statement": "MERGE"})

    def _bound(self, state: TableState) -> tuple[Schema, MergeStatement]:
        schema = source_types(state.schema, self._source.schema)
        return schema, MergeStatement.of(state.full_name, state.schema, schema, self._on, self._clauses)

    def _with(
        self, match: Match, action: Action, what: str, values: Mapping[str, object] | None, condition: Where
    ) -> MergeBuilder:
        before = next((clause for clause in self._clauses if clause.match is match and clause.condition is None), None)
        if before is not None:
            raise InvalidInput(
                f"{what} would never apply: {before.what} before it has no condition, so it applies to all rows."
            )
        self._clauses.append(MergeClause(match, action, what, values, condition))
        return self


def _named(values: Mapping[str, object]) -> Mapping[str, object]:
    """Values by column; not None, which stands for all columns. Others are refused when the merge is bound."""
    return {} if values is None else values
