"""What a branch did: its tables against those of main when the branch began."""

# Decisions: docs/decisions/0412

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from moulin.model.entities import BranchTable, TableState
from moulin.model.publication import schema_changes
from moulin.model.tags import shown
from moulin.table.context import Context
from moulin.table.read.feed import Feed

CREATED, DROPPED, RENAMED, CHANGED = "created", "dropped", "renamed", "changed"


@dataclass(frozen=True)
class TableDiff:
    """One table of a branch that differs from its fork version.

    `kind` is created, dropped, renamed or changed; `before` is the old name of a renamed one. `schema` has a line for
    each change of columns, partitioning, order and indexes; `properties` has the old and the new value of each that
    changed.
    `inserted`, `updated` and `deleted` count rows, when they are first asked for; `rows` has the rows themselves.
    """

    name: str
    kind: str
    before: str | None = None
    schema: tuple[str, ...] = ()
    properties: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    _feed: Callable[[], Feed] | None = field(default=None, repr=False, compare=False)

    def rows(self) -> pa.RecordBatchReader:
        """The changed rows, in the form of a change feed: `_change_type`, `_row_id` and the columns."""
        if self._feed is None:
            return pa.RecordBatchReader.from_batches(pa.schema([]), [])
        return self._feed().to_reader()

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        return {} if self._feed is None else self._feed().counts()

    @property
    def inserted(self) -> int:
        return self._counts.get("insert", 0)

    @property
    def updated(self) -> int:
        return self._counts.get("update_after", 0)

    @property
    def deleted(self) -> int:
        return self._counts.get("delete", 0)


@dataclass(frozen=True, slots=True)
class BranchDiff:
    """The changes of the branch `branch` since its fork version `version`: one entry for each changed table."""

    branch: str
    version: int
    tables: tuple[TableDiff, ...]

    def __iter__(self) -> Iterator[TableDiff]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def __bool__(self) -> bool:
        return bool(self.tables)


def diff(context: Context, branch: str) -> BranchDiff:
    """What a branch did; `context` is that of the branch. What was put is in versions already."""
    catalog = context.catalog
    found = tuple(table_diff(context, table) for table in catalog.branch_tables(branch))
    return BranchDiff(branch, catalog.branch(branch).version, found)


def table_diff(context: Context, table: BranchTable) -> TableDiff:
    """One table of a branch against what it began as."""
    if table.after is None:
        return TableDiff(table.before or "", DROPPED)
    now = context.catalog.table_by_id(table.own_id)
    if table.before is None:
        return TableDiff(table.after, CREATED, _feed=lambda: Feed(context, now, table.since, whole=True))
    renamed = table.before != table.after
    head = RENAMED if renamed else CHANGED, table.before if renamed else None
    if not table.wrote:
        return TableDiff(table.after, *head)
    then = context.catalog.table_by_id(table.own_id, table.since)
    return TableDiff(
        table.after,
        *head,
        (*schema_changes(then, now), *(f"create index {one.name}" for one in context.catalog.indexes(now.id))),
        property_changes(then, now),
        lambda: Feed(context, now, table.since, net=True),
    )


def property_changes(then: TableState, now: TableState) -> dict[str, tuple[str | None, str | None]]:
    """Properties with their values at both states, where these differ; names of versions are left out."""
    old, new = shown(then.properties), shown(now.properties)
    return {key: (old.get(key), new.get(key)) for key in sorted({*old, *new}) if old.get(key) != new.get(key)}
