"""Records of streams beyond one version of the lake. Spark queries and the console read fresh rows with it."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from uuid import UUID

from moulin.catalog.backend import CatalogBackend
from moulin.errors import NotFound
from moulin.ingest.intake.backlog import backlog
from moulin.ingest.intake.intake import BabySegmentFacts, Targets, candidates
from moulin.model.ingest import StreamList
from moulin.storage.store import Store
from moulin.table.write.layout import Layout


class FreshSegments:
    """The baby segments past the frontiers of `listed`, and the tables that their records go to.

    A record is in a segment of `version`, or in a baby segment that `of` returns for its table; never in both.
    """

    def __init__(self, store: Store, catalog: CatalogBackend, listed: StreamList) -> None:
        self.version = listed.version
        self._store, self._catalog, self._listed = store, catalog, listed
        self._tables = candidates(listed)
        self._streams = {stream.id: stream for stream in listed.streams if not stream.is_drained}

    @cached_property
    def baby_segments(self) -> list[BabySegmentFacts]:
        """Those past the frontiers; the same for all tables."""
        return [
            baby_segment
            for stream in self._streams.values()
            for baby_segment in backlog(self._store, stream).baby_segments
        ]

    @cached_property
    def targets(self) -> Targets:
        """Layouts as of the version, so that fresh rows have the columns that its rows have."""
        layouts = {}
        for table_id in self._tables:
            try:
                state = self._catalog.table_by_id(table_id, self.version)
            except NotFound:
                continue  # dropped: no query sees it
            if not state.schema.identifier_field_ids:
                layouts[table_id] = Layout.of(state)
        return Targets(self._listed.routing, self._listed.tables, layouts)

    @cached_property
    def routing(self) -> Hashable:
        """What decides, beside a baby segment itself, which rows it gives to which table."""
        schemas = tuple(sorted((t, layout.schema.schema_id) for t, layout in self.targets.layouts.items()))
        return self._listed.routing_seq, schemas

    def of(self, table_id: UUID) -> list[BabySegmentFacts]:
        """The baby segments that may have rows of a table which its segments have not."""
        if table_id not in self._tables:
            return []
        return [one for one in self.baby_segments if one.offset > self._taken_in(one.stream_id, table_id)]

    def _taken_in(self, stream_id: UUID, table_id: UUID) -> int:
        """The last baby segment of a stream that a table has rows of in segments, or need not have."""
        stream = self._streams[stream_id]
        return next((table.merged_offset for table in stream.tables if table.table_id == table_id), stream.frontier)


__all__ = ["FreshSegments"]
