"""TableVersions: the methods of `Table` for versions, tags and changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from moulin.errors import InvalidInput, MoulinError, NotFound
from moulin.model.entities import CommitInfo
from moulin.model.operations import Restore, SetProperties
from moulin.model.tags import Ref, check_ref_name, refs_of
from moulin.model.where import Where
from moulin.table.handle import TableHandle, whole_number
from moulin.table.read.feed import Feed
from moulin.table.snapshot import Snapshot
from moulin.table.write.writes import Outcome


class TableVersions(TableHandle):
    """Versions of a table: list, read, tag, restore, compare."""

    def history(self, limit: int | None = None) -> list[CommitInfo]:
        """List the commits of the table, newest first, back to the oldest kept version (`state().oldest_version`).

        >>> [str(info.kind) for info in lake.table("shop.orders").history()]
        ['append', 'create']
        """
        self._require_open()
        if self._shown is None:
            return self._context.catalog.history(self.id, limit)
        return [info for info in self._context.catalog.history(self.id) if info.version <= self._shown][:limit]

    def at(
        self, version: int | None = None, timestamp: datetime | str | None = None, tag: str | None = None
    ) -> Snapshot:
        """The table at a version of the lake, at a time, or at a tag.

        As a context manager it pins the version, so that clean-up keeps it.

        >>> orders = lake.table("shop.orders")
        >>> before = orders.version
        >>> _ = orders.delete_where("id = 1")
        >>> orders.count(), orders.at(version=before).count()
        (0, 1)
        """
        if [version, timestamp, tag].count(None) != 2:
            raise InvalidInput("at() takes exactly one of version, timestamp and tag.")
        if timestamp is not None:
            version = self._context.catalog.version_at(to_nanos(timestamp))
        if tag is not None:
            version = self._ref(tag).version
        return Snapshot(self._context, self._state(version))

    def as_of(self, at: int | str | datetime | None = None) -> Snapshot:
        """The table at a version, a tag or a time; by default now, including all puts.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.tag("end-of-year")
        >>> orders.as_of("end-of-year").count()
        1
        """
        if at is None:
            if not self._read_only and (keyed := self._keyed()) is not None:
                keyed.flush()
            return Snapshot(self._context, self._state())
        if isinstance(at, datetime):
            return self.at(timestamp=at)
        return self.at(tag=at) if isinstance(at, str) else self.at(version=at)

    def tag(self, name: str, version: int | None = None) -> Outcome:
        """Tag a version, by default the newest. An existing tag is moved. A tagged version is kept.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.tag("end-of-year")
        >>> _ = orders.delete_where("id = 1")
        >>> orders.at(tag="end-of-year").count()
        1
        """
        state = self._writable()
        if version is None and (keyed := self._keyed()) is not None:
            keyed.flush()
            state = self._state()
        chosen = state.head_version if version is None else whole_number(version)
        self._state(chosen)
        ref = Ref(check_ref_name(name), chosen)
        return self._set(SetProperties({ref.key: ref.to_json()}))

    def tags(self) -> dict[str, int]:
        """The tagged versions by name, including read-only branches created by Iceberg engines.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.tag("end-of-year")
        >>> list(orders.tags())
        ['end-of-year']
        """
        return {name: ref.version for name, ref in refs_of(self._state().properties).items()}

    def drop_tag(self, name: str) -> Outcome:
        """Remove a tag. Its version then expires as usual.

        >>> orders = lake.table("shop.orders")
        >>> _ = orders.tag("end-of-year")
        >>> _ = orders.drop_tag("end-of-year")
        >>> orders.tags()
        {}
        """
        self._writable()
        return self._set(SetProperties({}, (self._ref(name).key,)))

    def restore(self, version: int) -> Outcome:
        """Restore the rows and the schema of an older version, as a new version.

        The result counts the rows added, removed and changed. For that, row ids are read from the
        replaced segments; if these cannot be read, all of their rows count.

        >>> orders = lake.table("shop.orders")
        >>> before = orders.version
        >>> _ = orders.delete_where("id = 1")
        >>> orders.restore(before).rows_added
        1
        """
        if self._writable() and (keyed := self._keyed()) is not None:
            from moulin.table.bulk import bulk

            restored = bulk.restore(self._context, keyed, whole_number(version)).version
        else:
            restored = self._set(Restore(whole_number(version))).version
        try:
            counted = self.changes(restored - 1, restored, columns=[]).counts()
        except MoulinError:  # the restore is committed, even if the removed rows are damaged
            summary = next(info.summary for info in self.history() if info.version == restored)
            counted = {"insert": int(summary.get("added-records", 0)), "delete": int(summary.get("deleted-records", 0))}
        return Outcome(restored, counted.get("insert", 0), counted.get("delete", 0), counted.get("update_after", 0))

    def changes(
        self,
        since: int,
        until: int | None = None,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        net: bool = False,
    ) -> Feed:
        """The changed rows in the versions after `since`, up to `until` or now.

        Changes are listed version by version; with `net`, only the difference between the two versions. Every version
        from `since` on must still be kept.

        >>> orders = lake.table("shop.orders")
        >>> before = orders.version
        >>> _ = orders.update(set={"amount": 10.0}, where="id = 1")
        >>> orders.changes(before, columns=["amount"]).to_arrow()["_change_type"].to_pylist()
        ['update_before', 'update_after']
        """
        self._require_open()
        if until is None:
            self.settle()
        last = self._shown if until is None else whole_number(until)
        state = self._context.catalog.state_until(self.id, whole_number(since), last)
        return Feed(self._context, state, since, columns=columns, where=where, net=net)

    def _ref(self, name: str) -> Ref:
        found = refs_of(self._state().properties)
        if name not in found:
            known = f"; it has {', '.join(map(repr, found))}" if found else ""
            raise NotFound(f"Table {self.name} has no tag {name!r}{known}.")
        return found[name]


def to_nanos(timestamp: datetime | str) -> int:
    """Unix nanoseconds of a time, limited to 64 bits; text is ISO 8601, in UTC unless it has a zone."""
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError:
            raise InvalidInput(f"{timestamp!r} is not a time: write it like 2024-03-01T12:00:00+00:00.") from None
    if not isinstance(timestamp, datetime):
        raise InvalidInput(f"timestamp must be a datetime or ISO 8601 text, not {timestamp!r}.")
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=UTC)
    delta = timestamp - datetime(1970, 1, 1, tzinfo=UTC)
    nanos = (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1000
    return max(-(2**63), min(nanos, 2**63 - 1))
