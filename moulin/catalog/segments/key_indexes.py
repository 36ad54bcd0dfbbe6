"""Where the key indexes of segments lie, as rows of the catalog say it."""

# Decisions: docs/decisions/0610

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.storage import paths


@dataclass(frozen=True, slots=True)
class KeyIndexFile:
    """The key index of a segment: its path, and its size in bytes."""

    segment: int
    path: str
    size: int


def matching(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> Iterator[KeyIndexFile]:
    """The key indexes of segments for which a condition over `segments` holds, in the order of their numbers."""
    g = s.segments
    adopted = sa.case((sa.text(s.IN_BASE_PATH), g.c.facts), else_=sa.null())
    columns = (g.c.number, g.c.path, g.c.sha256, g.c.index_size, adopted.label("details"))
    query = sa.select(*columns).where(g.c.index_size > 0, condition).order_by(g.c.number)
    for row in connection.execute(query):
        yield KeyIndexFile(row.number, _path(row.number, row.path, row.sha256, row.details), row.index_size)


def of_segments(connection: sa.Connection, numbers: Collection[int]) -> list[KeyIndexFile]:
    """The key indexes of those of these segments that have one."""
    return [
        found for chunk in chunks(sorted(numbers)) for found in matching(connection, s.segments.c.number.in_(chunk))
    ]


def _path(number: int, path: str, sha256: bytes, details: bytes | None) -> str:
    adopted = None if details is None else codec.decode_adopted(pb.SegmentColumns.FromString(details))
    if adopted is None:
        return paths.key_index_path(path)
    return paths.adopted_key_index_path(adopted.owner, number, sha256)


__all__ = ["KeyIndexFile", "matching", "of_segments"]
