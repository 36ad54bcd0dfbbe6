"""Publishing a branch: what it did becomes one version of main, for all tables or none.

A table that main has not changed since the branch began is taken as it is on the branch, in the catalog alone. For
others the rows of both sides are compared here, and the branch's are written again where they would bring ids of the
branch to main.
"""

# Decisions: docs/decisions/0413, docs/decisions/0414

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from moulin.catalog.commit.publishing import BRANCH, TablePublication, require_unpublished
from moulin.catalog.commit.table_commit import Stale, TableCommit
from moulin.errors import Conflict, Fenced, MoulinError, NotFound
from moulin.model.columns import compute as pc
from moulin.model.conflicts import Verdict
from moulin.model.entities import BranchTable, TableState
from moulin.model.facts import SegmentFacts
from moulin.model.layout.partition_rows import split_by_partition
from moulin.model.layout.sort_rows import sort_indices
from moulin.model.operations import Kind, RegionUse, Upsert
from moulin.model.publication import foreseen, merge_settings, schema_changes
from moulin.model.region_spec import PROPERTY as REGIONS
from moulin.model.region_spec import RegionSpec, changed_at
from moulin.model.schema.arrow import ROW_ID, lineage_fields
from moulin.model.where import parse_where
from moulin.table.branch_diff import CHANGED, CREATED, RENAMED, TableDiff, property_changes, table_diff
from moulin.table.commit.change import DataChange
from moulin.table.commit.retry import retry
from moulin.table.compact.compaction import fold
from moulin.table.context import Context
from moulin.table.index.index import update_indexes
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.tables import keyed_table
from moulin.table.properties import effective
from moulin.table.publish_rows import Comparison, Side
from moulin.table.read.feed import Feed
from moulin.table.read.feed_reader import CHANGE_TYPE, FeedReader
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import bulk_level, write_ordered
from moulin.table.write.writes import number_source

_REPLACED = frozenset({Kind.OVERWRITE, Kind.RESTORE, Kind.TRIM, Kind.FILL})


@dataclass(frozen=True, slots=True)
class Publication:
    """What a publish brought to main: the `version` that has it, and one entry for each table that differs.

    `version` is the one that it would be for a dry run.
    """

    branch: str
    version: int
    tables: tuple[TableDiff, ...]
    dry_run: bool = False


def publish(context: Context, branch_context: Context, branch: str, *, dry_run: bool) -> Publication:
    """Publish a branch; see `Lake.publish`. `context` is main's."""

    indexed: set[UUID] = set()

    def run() -> Publication:
        with ExitStack() as held:
            one = _Publish(context, branch_context, branch, held)
            done = one.run(dry_run=dry_run)
            indexed.update(one.indexed)
            return done

    done = retry(context.config.commit_attempts, run, _may_help)
    if not dry_run:
        for table_id in indexed:
            with suppress(MoulinError):  # it is published: the next change of the table covers what this left out
                update_indexes(context, context.catalog.table_by_id(table_id))
    return done


def _may_help(error: MoulinError) -> bool:
    return isinstance(error, Stale) and error.verdict in (Verdict.REBASE, Verdict.RETRY)


class _Publish:
    """One attempt. Keyed tables are held on both sides, and flushed, until `held` ends."""

    def __init__(self, context: Context, branch_context: Context, branch: str, held: ExitStack) -> None:
        self._context, self._branch_context, self._held = context, branch_context, held
        self._catalog, self._branch = context.catalog, context.catalog.branch(branch)
        self.indexed: set[UUID] = set()  # tables of main that may get indexes of the branch

    def run(self, *, dry_run: bool) -> Publication:
        name = self._branch.name
        require_unpublished(self._branch)
        uses = self._hold(dry_run=dry_run)
        self._fold()
        found = self._catalog.branch_tables(name)
        with self._catalog.writing():
            parts = [
                self._part(table, uses.get(table.own_id, ()), dry_run=dry_run)
                for table in found
                if table.wrote and table.source_id is not None and table.after is not None
            ]
            self.indexed = {part.commit.table_id for part in parts if self._catalog.indexes(part.own_id)}
            done = self._catalog.publish_branch(name, parts, dry_run=dry_run)
        diffs = (
            (table_diff(self._branch_context, table) for table in found) if dry_run else self._done(found, done.version)
        )
        return Publication(name, done.version, tuple(diffs), dry_run)

    def _fold(self) -> None:
        """Write columns that the branch filled into the segments that main is to take."""
        for table in self._catalog.branch_tables(self._branch.name):
            if table.beside and table.after is not None:
                fold(self._branch_context, self._catalog.table_by_id(table.own_id))

    def _hold(self, *, dry_run: bool) -> dict[UUID, tuple[RegionUse, ...]]:
        """Hold the keyed tables that the branch may have written, on both sides; what main's commits must name."""
        catalog, uses = self._catalog, dict[UUID, tuple[RegionUse, ...]]()
        waiting = {*catalog.claimed_tables(branch=self._branch.name), *self._branch_context.keyed}
        for own_id in sorted(waiting):
            with suppress(NotFound):  # dropped on the branch: what its log has goes with it
                catalog.table_by_id(own_id)
                if (own := keyed_table(self._branch_context, own_id)) is not None:
                    self._keep(own)
        for table in catalog.branch_tables(self._branch.name):
            if not table.wrote or table.source_id is None or table.after is None:
                continue
            main = self._source(table)
            if (keyed := keyed_table(self._context, main.id)) is not None:
                # Where main changed the table, rows may be written again; else it takes the regions as they are.
                also = main.head_version > self._branch.version and not dry_run
                values = [region.value for region in catalog.regions(table.own_id)] if also else []
                uses[table.own_id] = self._keep(keyed, values)
        return uses

    def _source(self, table: BranchTable) -> TableState:
        """Main's table for one of the branch."""
        assert table.source_id is not None
        try:
            return self._catalog.table_by_id(table.source_id)
        except NotFound:
            raise Conflict(
                f"Table {table.before} was changed on branch {self._branch.name} and was dropped on main since version "
                f"{self._branch.version}. Resurrect it on main, or drop it on the branch.",
                requirement=f"Table {table.before}",
                expected="was changed",
                found="was dropped",
            ) from None

    def _keep(self, keyed: KeyedTable, also: Sequence[tuple[bytes | None, ...]] = ()) -> tuple[RegionUse, ...]:
        try:
            _, uses = self._held.enter_context(keyed.held(also=lambda: also, reserved=True, may_go=True))
        except Fenced as error:
            raise Conflict(f"A publish cannot hold a table that another process writes now. {error.message}") from error
        return tuple(uses)

    def _part(self, table: BranchTable, uses: tuple[RegionUse, ...], *, dry_run: bool) -> TablePublication:
        """The changes of main's table from one of the branch."""
        main = self._source(table)
        began = self._branch.version
        commit = TableCommit(main.id, main.version, Upsert(), {BRANCH: self._branch.name}, uses)
        if main.head_version <= began and not self._regions_differ(main.id, table.own_id):
            return TablePublication(table.own_id, table.head, commit)
        own, then = self._catalog.table_by_id(table.own_id), self._catalog.table_by_id(main.id, began)
        merged = merge_settings(main.full_name, self._branch.name, then, main, own)
        self._refuse_replaced(table, main)
        state = foreseen(main, own, merged)
        return self._compared(table, then, own, main, state, commit, dry_run=dry_run)

    def _regions_differ(self, main_id: UUID, own_id: UUID) -> bool:
        """Whether a region has different numbers on the two sides, so that segments of the branch name a wrong one."""
        mine = {region.value: region.number for region in self._catalog.regions(main_id)}
        theirs = {region.value: region.number for region in self._catalog.regions(own_id)}
        common = [value for value, number in theirs.items() if mine.get(value, number) != number]
        taken = [number for value, number in theirs.items() if value not in mine and number in mine.values()]
        return bool(common or taken)

    def _refuse_divided(self, own: TableState, main: TableState) -> None:
        """Rows of the branch are in regions that main no longer has."""
        on_branch, on_main = (RegionSpec.of(state.schema, state.properties) for state in (own, main))
        if not on_branch.is_as(on_main):
            raise Conflict(
                f"Table {main.full_name}: its keys were divided into other regions on main since version "
                f"{self._branch.version}, and branch {self._branch.name} changed its rows. Begin a new branch, and "
                "change them there.",
                requirement=f"the regions of {main.full_name}",
                expected=own.properties.get(REGIONS, "one"),
                found=main.properties.get(REGIONS, "one"),
                winner=changed_at(main.properties),
            )

    def _refuse_replaced(self, table: BranchTable, main: TableState) -> None:
        for info in self._catalog.history(table.own_id):
            if info.version > table.since and info.kind in {kind.value for kind in _REPLACED}:
                raise Conflict(
                    f"Table {main.full_name}: branch {self._branch.name} changed all rows by the {info.kind} of "
                    f"version {info.version}, and main changed the table by version {main.head_version}, both since "
                    f"version {self._branch.version}. Begin a new branch, and do it again there.",
                    requirement=f"the rows of {main.full_name}",
                    expected=f"{info.kind} by version {info.version}",
                    found=f"changed by version {main.head_version}",
                    winner=main.head_version,
                )

    def _compared(
        self,
        table: BranchTable,
        then: TableState,
        own: TableState,
        main: TableState,
        becomes: TableState,
        commit: TableCommit,
        *,
        dry_run: bool,
    ) -> TablePublication:
        """The changes of main's table if main has changed it too."""
        catalog, context = self._catalog, self._context
        (own_entry,) = catalog.feed(own.id, table.since, own.version, net=True)
        (main_entry,) = catalog.feed(main.id, self._branch.version, main.version, net=True)
        sides = Side(context, own.schema, own_entry), Side(context, main.schema, main_entry)
        both = Comparison(context, self._branch.name, then, (own, sides[0]), (main, sides[1]))
        positions, regions = both.positions(), None
        if both.key is not None:
            self._refuse_divided(own, main)
            both.refuse_common_keys()
            mine = {region.value: region.number for region in catalog.regions(main.id)}
            known = catalog.regions(own.id)
            regions = {region.number for region in known if mine.get(region.value, region.number) == region.number}
        if dry_run:
            return TablePublication(table.own_id, table.head, commit, moved=True)
        taken, again = both.adoptable(regions)
        added = self._written(becomes, sides[0], again) if again else ()
        change = DataChange(
            main.id,
            main.version,
            Kind.UPSERT,
            added=tuple(added),
            positions=positions,
            summary=commit.summary,
            regions=commit.regions,
            exact=True,
        )
        adopted = tuple(one.facts.number for index in taken if (one := own_entry.segments[index].after) is not None)
        return TablePublication(table.own_id, table.head, context.committer.prepared(change), True, adopted)

    def _written(self, state: TableState, side: Side, share: Sequence[int]) -> list[SegmentFacts]:
        """Rows of segments of the branch as segments of main: updated rows keep their ids, new ones get others."""
        context, layout, numbers = self._context, Layout.of(state), number_source(self._context)
        limit = effective(context.config, state.properties).append_segment_bytes
        keyed = keyed_table(context, state.id)
        written: list[SegmentFacts] = []
        for rows in _pieces(_came(context, state, side, share), limit):
            split = [((), rows)] if keyed is None else keyed.spec.split(rows)
            for value, part in split:
                region = 0 if keyed is None else context.catalog.region(state.id, value).number
                for partition, some in split_by_partition(part, layout.spec, layout.schema):
                    order = sort_indices(some, layout.sort_order, layout.schema)
                    ordered = some if order is None else some.take(order)
                    level = bulk_level(ordered)
                    written += write_ordered(
                        context.store, layout, ordered, partition, numbers, level=level, lineage=True, region=region
                    )
        return written

    def _done(self, found: Sequence[BranchTable], version: int) -> Iterator[TableDiff]:
        """What the tables of main show of it: the rows are counted there, since the branch is dropped."""
        for table in found:
            is_gone = table.after is None
            yield table_diff(self._branch_context, table) if is_gone else self._of_main(table, version)

    def _of_main(self, table: BranchTable, version: int) -> TableDiff:
        state = self._catalog.table_by_id(table.source_id or table.own_id, version)
        renamed = table.before not in (None, table.after)
        head = CREATED if table.before is None else RENAMED if renamed else CHANGED
        before = table.before if renamed else None
        name = table.after or ""
        if table.source_id is None:
            return TableDiff(name, head, before, _feed=lambda: Feed(self._context, state, version, whole=True))
        if not table.wrote:
            return TableDiff(name, head, before)
        then = self._catalog.table_by_id(state.id, version - 1)
        return TableDiff(
            name,
            head,
            before,
            schema_changes(then, state),
            property_changes(then, state),
            lambda: Feed(self._context, state, version - 1, net=True),
        )


def _came(context: Context, state: TableState, side: Side, share: Sequence[int]) -> Iterator[pa.Table]:
    """Rows that the branch inserted or updated, with the ids of those that main has."""
    schema = state.schema
    names = tuple(field.name for field in schema.fields)
    reader = FeedReader(context.store, schema, names, parse_where(None, schema))
    row_id, sequence = lineage_fields()
    for batch in reader.read(side.entry, context.vectors, set(share)):
        kept = batch.filter(pc.is_in(batch.column(CHANGE_TYPE), pa.array(["insert", "update_after"])))
        if kept.num_rows:
            ids = kept.column(ROW_ID)
            known = pc.less(ids, pa.scalar(side.entry.next_row_id, pa.int64()))
            rows = pa.Table.from_batches([kept.select(names)])
            rows = rows.append_column(row_id, pc.if_else(known, ids, pa.scalar(None, pa.int64())))
            yield rows.append_column(sequence, pa.nulls(rows.num_rows, pa.int64()))


def _pieces(tables: Iterator[pa.Table], limit: int) -> Iterator[pa.Table]:
    """Tables put together to about `limit` bytes each."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(one.nbytes for one in held) >= limit:
            yield pa.concat_tables(held).combine_chunks()
            held = []
    if held:
        yield pa.concat_tables(held).combine_chunks()
