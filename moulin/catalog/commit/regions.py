"""Regions of keyed tables: their writers, and how far each log is covered by segments.

A claim increments the epoch and takes no version. Every commit that changes rows of a keyed table lists the regions it
holds; it is rejected if one was claimed by another process, or has advanced. A region has an owner from its claim until
its writer has flushed everything and releases it. A dead owner remains recorded, so that its log is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.objects.tables import find_by_id, load
from moulin.catalog.segments.live import decode_partition, encode_partition
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft
from moulin.catalog.sql.pool import Pool
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import Fenced, InvalidInput, NotFound
from moulin.formats import messages as pb
from moulin.model.entities import Region, TableState
from moulin.model.region_spec import RegionSpec, changed_at, is_erased, retired_up_to, with_spec

RECOVERED = "a catalog that was lost"  # the owner of regions after a recovery: their logs are read
EPOCH_JUMP = 1 << 20  # added by a recovery: more claims than a lost catalog can have made unnoticed
NUMBER_JUMP = 1 << 20  # likewise, of regions


def find(pool: Pool, table_id: UUID, value: tuple[bytes | None, ...]) -> Region:
    """The region of `value` (empty: the whole table); a new region gets a number."""
    r = s.regions
    stored = encode_partition(value)
    known = sa.select(r).where(r.c.table_id == table_id, r.c.value == stored)
    with pool.read() as connection:
        found = connection.execute(known).first()
    if found is not None:
        return to_region(found)
    with pool.unordered() as connection:
        # Serialized per table, so that two do not take one number, and the spec cannot change.
        connection.execute(sa.select(s.tables.c.id).where(s.tables.c.id == table_id).with_for_update())
        _check_value(load(connection, find_by_id(connection, table_id)), value)
        found = connection.execute(known).first()
        if found is not None:
            return to_region(found)
        last = sa.select(sa.func.coalesce(sa.func.max(r.c.number), 0)).where(r.c.table_id == table_id)
        number = max(connection.execute(last).scalar_one(), _lost_numbers(pool)) + 1 if value else 0
        new = {"table_id": table_id, "number": number, "value": stored, "owner": ""}
        connection.execute(r.insert().values(**new, epoch=0, covered=0, generation=0))
        return Region(number, value, 0, "", 0, 0)


def _lost_numbers(pool: Pool) -> int:
    """A lost catalog may have used numbers up to this one: their logs contain rows of other regions."""
    return ((pool.incarnation or 1) - 1) * NUMBER_JUMP


def _check_value(state: TableState, value: tuple[bytes | None, ...]) -> None:
    """Reject a region that no key of the table can be in: it would be claimed and flushed with the others forever."""
    if not state.schema.identifier_field_ids or not RegionSpec.of(state.schema, state.properties).owns(value):
        raise InvalidInput(
            f"{state.full_name} has no such region: its regions have changed, or it has no primary key. Open the "
            f"table again."
        )


def begin(draft: Draft, table_id: UUID, numbers: Mapping[tuple[bytes | None, ...], int]) -> None:
    """The regions of a table's first rows, none of them claimed."""
    state = load(draft.connection, find_by_id(draft.connection, table_id), current=draft.version)
    if len(set(numbers.values())) != len(numbers) or any((number > 0) != bool(v) for v, number in numbers.items()):
        raise InvalidInput("Region numbers start from 1; 0 is the region of a table without region fields.")
    for value, number in numbers.items():
        _check_value(state, value)
        stored = encode_partition(value)
        new = {"table_id": table_id, "number": number, "value": stored, "owner": ""}
        draft.connection.execute(s.regions.insert().values(**new, epoch=0, covered=0, generation=1))
        draft.table(table_id).regions.append(pb.Region(number=number, value=stored, generation=1))


def claim(pool: Pool, table_id: UUID, number: int, owner: str) -> Region:
    """Become the writer of a region; the previous writer is fenced."""
    r = s.regions
    mine = (r.c.table_id == table_id) & (r.c.number == number)
    with pool.unordered() as connection:
        find_by_id(connection, table_id)
        connection.execute(r.update().where(mine).values(epoch=r.c.epoch + 1, owner=owner))
        row = connection.execute(sa.select(r).where(mine)).first()
        if row is None:
            raise NotFound(f"The table has no region {number}: request a region number first.")
        table = find_by_id(connection, table_id)  # after the update: a change of the spec updates the region, too
        if number <= retired_up_to(table.properties) or is_erased(decode_partition(row.value)):
            raise Fenced(f"The regions of {table.name} have changed: open the table again.")
        return to_region(row)


def of_now(change: TableChange) -> set[int]:
    """The numbers of the current regions of a table; a clone may have others."""
    state = load(change.connection, change.row)
    spec = RegionSpec.of(state.schema, state.properties)
    return {region.number for region in list_all(change.connection, change.table_id) if spec.owns(region.value)}


def changed_version(pool: Pool, table_id: UUID) -> int:
    """The version of the current division of a table's keys; 0 if it never changed."""
    with pool.read() as connection:
        return changed_at(find_by_id(connection, table_id).properties)


def divide(change: TableChange, properties: Mapping[str, str], text: str) -> dict[str, str]:
    """`properties` of a table whose keys are divided differently from this version on. All its regions end.

    REQUIRES: they are held, and their logs are empty. Afterwards they have no owner.
    """
    r, connection = s.regions, change.connection
    mine = r.c.table_id == change.table_id
    for use in change.commit.regions:
        held = sa.and_(mine, r.c.number == use.number, r.c.epoch == use.epoch)
        if connection.execute(r.update().where(held).values(epoch=r.c.epoch + 1, owner="")).rowcount != 1:
            raise Fenced(f"Region {use.number} of {change.name} was claimed by another process; nothing was changed.")
    after = connection.execute(sa.select(sa.func.coalesce(sa.func.max(r.c.number), 0)).where(mine)).scalar_one()
    return with_spec(properties, change.row.properties, text, int(after), change.draft.version)


def release(pool: Pool, table_id: UUID, number: int, epoch: int) -> None:
    """Record that the writer of this epoch has flushed everything. Does nothing if it was fenced."""
    r = s.regions
    mine = (r.c.table_id == table_id) & (r.c.number == number) & (r.c.epoch == epoch)
    with pool.unordered() as connection:
        connection.execute(r.update().where(mine).values(owner=""))


def claimed_tables(connection: sa.Connection, branch: str | None = None) -> list[UUID]:
    """The live tables, of main or of a branch, with regions that were claimed and not released.

    The writer that claimed them lives, or died.
    """
    rows = _CLAIMED.all(connection, {}) if branch is None else _CLAIMED_ON.all(connection, {"branch": branch})
    return [row.table_id for row in rows]


def _claimed(on_branch: bool) -> Prepared:
    r, t, d, b = s.regions, s.tables, s.databases, s.branches
    named = sa.select(b.c.id).where(b.c.name == sa.bindparam("branch"), b.c.tombstoned_at.is_(None))
    mine = d.c.branch_id == named.scalar_subquery() if on_branch else d.c.branch_id.is_(None)
    live = (t.c.id == r.c.table_id) & t.c.tombstoned_at.is_(None) & (d.c.id == t.c.database_id)
    return Prepared(sa.select(r.c.table_id).where(r.c.owner != "", live, mine).distinct())


_CLAIMED, _CLAIMED_ON = _claimed(on_branch=False), _claimed(on_branch=True)


def list_all(connection: sa.Connection, table_id: UUID) -> list[Region]:
    """Every region that was ever claimed."""
    r = s.regions
    rows = connection.execute(sa.select(r).where(r.c.table_id == table_id).order_by(r.c.number))
    return [to_region(row) for row in rows]


def epoch(connection: sa.Connection, table_id: UUID, number: int) -> int:
    """The epoch that may write a region now."""
    r = s.regions
    found = connection.execute(sa.select(r.c.epoch).where(r.c.table_id == table_id, r.c.number == number)).scalar()
    return int(found or 0)


def to_region(row: Any) -> Region:
    return Region(row.number, decode_partition(row.value), row.epoch, row.owner, row.covered, row.generation)


def advance(change: TableChange) -> None:
    """Check that the commit holds its regions, and record how far it covers their logs.

    A region is in manifests from its first commit on, even if that covers nothing: segments contain its number, which
    must mean the same keys after a recovery.
    """
    r, retired = s.regions, retired_up_to(change.row.properties)
    for use in change.commit.regions:
        if use.number <= retired:
            raise Fenced(f"The regions of {change.name} have changed: open the table again.")
        mine = (r.c.table_id == change.table_id) & (r.c.number == use.number)
        row = change.connection.execute(sa.select(r).where(mine)).first()
        if row is None or row.epoch != use.epoch:
            by = f" by {row.owner}" if row is not None and row.owner else ""
            raise Fenced(
                f"{change.name} was claimed{by} since this writer opened it; nothing was written. Open the table again."
            )
        if row.covered != use.covered:
            raise Fenced(
                f"The log of {change.name} is covered to {row.covered}, not {use.covered}; open the table again."
            )
        if use.reached > use.covered or not row.generation:
            generation = row.generation + 1
            change.connection.execute(r.update().where(mine).values(covered=use.reached, generation=generation))
            change.manifest.regions.append(
                pb.Region(
                    number=row.number, value=row.value, epoch=row.epoch, covered=use.reached, generation=generation
                )
            )


def stored(connection: sa.Connection, table_id: UUID) -> Iterable[pb.Region]:
    """All regions, for a full manifest."""
    r = s.regions
    for row in connection.execute(sa.select(r).where(r.c.table_id == table_id).order_by(r.c.number)):
        yield pb.Region(
            number=row.number, value=row.value, epoch=row.epoch, covered=row.covered, generation=row.generation
        )


def adopt(connection: sa.Connection, table_id: UUID, found: Iterable[Region]) -> None:
    """Add the regions of logs found by a recovery, except those in manifests."""
    r = s.regions
    rows = connection.execute(sa.select(r.c.number, r.c.value).where(r.c.table_id == table_id)).all()
    numbers, values = {row.number for row in rows}, {row.value for row in rows}
    for region in found:
        value = encode_partition(region.value)
        if region.number not in numbers and value not in values:
            made = pb.Region(number=region.number, value=value, epoch=region.epoch, covered=region.covered)
            connection.execute(r.insert(), recovered(table_id, [made]))
            values.add(value)


def release_retired(connection: sa.Connection, table_id: UUID, retired: int) -> None:
    """After a recovery: regions of earlier specs need no owner, because their logs were empty when they ended."""
    r = s.regions
    mine = sa.and_(r.c.table_id == table_id, r.c.number <= retired)
    connection.execute(r.update().where(mine).values(owner=""))


def recovered(table_id: UUID, regions: Iterable[pb.Region]) -> Sequence[dict[str, Any]]:
    """Rows of regions from manifests; their writers, if still running, are fenced."""
    return [
        {
            "table_id": table_id,
            "number": region.number,
            "value": region.value,
            "epoch": region.epoch + EPOCH_JUMP,
            "owner": "" if is_erased(decode_partition(region.value)) else RECOVERED,
            "covered": region.covered,
            "generation": region.generation,
        }
        for region in regions
    ]
