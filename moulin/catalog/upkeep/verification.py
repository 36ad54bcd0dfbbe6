"""The files that the rows of a catalog name, each with what its bytes must satisfy: for `check` and for mirrors."""

# Decisions: docs/decisions/0187

from __future__ import annotations

import hashlib
import io
import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import fastavro
import sqlalchemy as sa

from moulin.catalog.commit import backfills
from moulin.catalog.segments import key_indexes
from moulin.catalog.sql import schema as s
from moulin.errors import MoulinError
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.formats.journal import Journal
from moulin.formats.key_index import KeyIndex
from moulin.formats.puffin import read_deletion_vectors
from moulin.formats.secondary_index import IndexFile
from moulin.model.facts import SegmentFacts
from moulin.model.tags import PARTITION_STATISTICS_PREFIX, STATISTICS_PREFIX, statistics_of
from moulin.storage import paths

Verify = Callable[[bytes], str | None]


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that the catalog names: its size and SHA-256 where they were recorded, and what else must hold.

    An `adopted` segment is a foreign file: its size and footer must be unchanged.
    """

    path: str
    size: int | None = None
    sha256: bytes | None = None
    verify: Verify | None = None
    adopted: SegmentFacts | None = None

    def problem(self, data: bytes) -> str | None:
        """The problem with the bytes of this file; None if they are intact."""
        if self.size is not None and len(data) != self.size:
            return f"it has {len(data)} bytes, not {self.size}"
        if self.sha256 is not None and hashlib.sha256(data).digest() != self.sha256:
            return "its SHA-256 is not the one recorded"
        try:
            return self.verify(data) if self.verify is not None else None
        except MoulinError as error:
            return error.message


def known_files(connection: sa.Connection, after: int = 0) -> Iterator[KnownFile]:
    """Every file of kept versions after `after`."""
    g, j = s.segments, s.journals
    segments = sa.select(g.c.path, g.c.size, g.c.sha256).where(g.c.added_version > after, ~g.c.inline)
    for row in connection.execute(segments.order_by(g.c.number)):
        if not paths.is_adopted(row.path):
            yield KnownFile(row.path, row.size, row.sha256)
    for index in key_indexes.matching(connection, g.c.added_version > after):
        yield KnownFile(index.path, index.size, verify=partial(_is_key_index, index.path))
    yield from _vector_files(connection, after)
    f = s.column_files
    columns = sa.select(f.c.path, f.c.size, f.c.sha256).where(f.c.added_version > after).order_by(f.c.path)
    for path, size, sha256 in connection.execute(columns):
        yield KnownFile(path, size, sha256)
    for path in connection.execute(sa.select(j.c.path).where(j.c.version > after)).scalars():
        yield KnownFile(path, verify=partial(_is_journal, path))
    yield from _index_files(connection, after)
    for path, digest in backfills.files(connection, after):
        yield KnownFile(path, sha256=digest)
    a = s.set_asides
    asides = sa.select(a.c.path).where(a.c.version > after, a.c.path != "").distinct()
    yield from (KnownFile(path) for path in connection.execute(asides).scalars())
    yield from _statistics(connection)


def adopted_files(connection: sa.Connection) -> Iterator[KnownFile]:
    """The adopted files of kept versions. A mirror does not copy them."""
    g = s.segments
    query = sa.select(g.c.path, g.c.size, g.c.sha256, g.c.rows, g.c.number, g.c.facts).where(sa.text(s.IN_BASE_PATH))
    for row in connection.execute(query.order_by(g.c.path)):
        adopted = codec.decode_adopted(pb.SegmentColumns.FromString(row.facts))
        if adopted is not None:
            facts = SegmentFacts(row.number, row.path, row.rows, row.size, 0, 0, 0, (), row.sha256, adopted=adopted)
            yield KnownFile(row.path, row.size, adopted=facts)


def projection_files(connection: sa.Connection) -> Iterator[KnownFile]:
    """The Iceberg projections in use. They can be rebuilt, so mirrors do not copy them."""
    f = s.projection_files
    for row in connection.execute(sa.select(f.c.path, f.c.size).order_by(f.c.path)):
        is_document = row.path.endswith((".json", ".avro"))
        yield KnownFile(row.path, row.size, verify=_is_document if is_document else None)


def _is_document(data: bytes) -> str | None:
    """JSON, or an Avro file: each block ends with the marker that its header announces."""
    if data.startswith(b"Obj\x01"):
        try:
            deque(fastavro.block_reader(io.BytesIO(data)), maxlen=0)
        except Exception as error:  # noqa: BLE001 - of any kind, for damage may be anywhere
            return f"it is cut or damaged ({error or type(error).__name__})"
        return None
    try:
        json.loads(data)
    except ValueError:
        return "it is neither JSON nor an Avro file"
    return None


def _vector_files(connection: sa.Connection, after: int) -> Iterator[KnownFile]:
    d, g = s.deletion_vectors, s.segments
    vectors: dict[str, list[Any]] = {}
    query = sa.select(d, g.c.path.label("segment_path")).join(g, g.c.number == d.c.segment)
    for row in connection.execute(query.where(d.c.added_version > after).order_by(d.c.path)):
        vectors.setdefault(row.path, []).append(row)
    for path, rows in vectors.items():
        yield KnownFile(path, verify=partial(_holds_vectors, rows))


def _index_files(connection: sa.Connection, after: int) -> Iterator[KnownFile]:
    """Files of secondary indexes that cover a segment; others wait for clean-up."""
    c, f, g = s.index_coverage, s.index_files, s.segments
    covered: dict[str, dict[int, int]] = {}
    query = sa.select(c.c.path, c.c.segment, g.c.rows).join(g, g.c.number == c.c.segment)
    query = query.join(f, f.c.path == c.c.path).where(f.c.added_version > after)
    for row in connection.execute(query):
        covered.setdefault(row.path, {})[row.segment] = row.rows
    files = sa.select(f.c.path, f.c.size, f.c.entries).where(f.c.added_version > after)
    for row in connection.execute(files.order_by(f.c.path)):
        if row.path in covered:
            yield KnownFile(row.path, row.size, verify=partial(_is_index, row.path, row.entries, covered[row.path]))


def _statistics(connection: sa.Connection) -> Iterator[KnownFile]:
    """Statistics that engines attached to snapshots; only their size was recorded."""
    for table_id, properties in connection.execute(sa.select(s.tables.c.id, s.tables.c.properties)):
        for prefix in (STATISTICS_PREFIX, PARTITION_STATISTICS_PREFIX):
            for one in statistics_of(properties, prefix).values():
                if (path := _below_table(table_id, str(one.get("statistics-path", "")))) is not None:
                    yield KnownFile(path, one.get("file-size-in-bytes"))


def _below_table(table_id: UUID, location: str) -> str | None:
    """The path of a file that an engine named by its address, if it lies in the folder of this table."""
    folder = f"{paths.table_prefix(table_id)}/"
    _, found, rest = location.partition(f"/{folder}")
    return f"{folder}{rest}" if found and rest else None


def _holds_vectors(rows: list[Any], data: bytes) -> str | None:
    """A Puffin file holds the vectors that rows say, at their offsets, for the files they are for."""
    found = {vector.offset: (blob, vector) for blob, vector in read_deletion_vectors(data)}
    for row in rows:
        blob, vector = found.get(row.offset, (None, None))
        if blob is None or vector is None or vector.length != row.length:
            return f"the vector of segment {row.segment} is not at offset {row.offset}"
        based = paths.parse_base_path(row.segment_path)
        if not blob.referenced_data_file.endswith(row.segment_path if based is None else based[1]):
            return f"the vector at offset {row.offset} is not for segment {row.segment}"
        if vector.cardinality != row.cardinality:
            return f"the vector of segment {row.segment} marks {vector.cardinality} rows, not {row.cardinality}"
    return None


def _is_key_index(path: str, data: bytes) -> str | None:
    index = KeyIndex(lambda start, length: data[start : start + length], len(data), path)
    for number in range(index.blocks):
        index.load(number)
    return None


def _is_index(path: str, entries: int, segments: dict[int, int], data: bytes) -> str | None:
    index = IndexFile(lambda start, length: data[start : start + length], len(data), path)
    index.verify()
    if index.entries != entries:
        return f"it has {index.entries} entries, not {entries}"
    for number, rows in segments.items():
        position = index.index_of.get(number)
        if position is None or int(index.rows[position]) != rows:
            return f"it does not cover the {rows} rows of segment {number}"
    return None


def _is_journal(path: str, data: bytes) -> str | None:
    Journal.decode(data).verify()
    return None
