"""Turns data files of engines into segments: they are read and compared with their manifest, or trusted.

They are copied into segment folders, where every reader of the lake expects them; files in base paths may stay.
"""

# Decisions: docs/decisions/0065, docs/decisions/0491, docs/decisions/0497, docs/decisions/0631

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from moulin.errors import InvalidInput, MoulinError, Unsupported
from moulin.formats.segment.footer import footer_facts, read_footer, sequence_range, split_offsets
from moulin.formats.segment.reader import SegmentReader
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.commit import trust
from moulin.iceberg.rest.commit.engine_files import (
    ADDED,
    DataFile,
    Folder,
    TableFolder,
    checked_partition,
    partition_of,
)
from moulin.model.entities import TableState
from moulin.model.facts import AdoptedFile, ColumnFacts, SegmentFacts
from moulin.model.layout.bounds import time_range_ns
from moulin.model.schema.arrow import LAST_UPDATED_SEQUENCE_FIELD_ID, ROW_ID_FIELD_ID, leaves, show, shown_schema
from moulin.model.schema.values import Schema
from moulin.storage import paths
from moulin.table.context import Context

_SHA256 = 32  # bytes of one; zeros for an unverified file


class Arrivals:
    """The data files that one snapshot adds to a table, and files that the engine no longer needs."""

    foreign: Mapping[int, int] | None = None

    def __init__(self, context: Context, state: TableState, schema_id: int, verify: str) -> None:
        self.context, self.state, self.store = context, state, context.store
        self.schema_id, self.schema = schema_id, state.schemas[schema_id]
        self.folder: Folder = TableFolder(context, state)
        self.verify = verify
        self.leftovers: list[str] = []

    def _reserve(self, count: int) -> range:
        first = self.context.catalog.reserve_segments(count) if count else 0
        return range(first, first + count)

    def _arrived(self, file: DataFile, number: int, at: int) -> SegmentFacts | None:
        """Convert a data file to a segment: read and compared with its manifest, or trusted."""
        if not trust.is_read(self.verify, at):
            return self._believed(file, number)
        if self.foreign is None and paths.is_adopted(path := self.folder.path(file.location)):
            etag = self.folder.etag(file.location)
            _, footer, table, _ = self._read(file)
            checked_partition(self.state, file, table, self.schema)
            return self._staying(file, number, path, footer_facts(footer, self.schema), etag)
        return self._segment(file, number)

    def _believed(self, file: DataFile, number: int) -> SegmentFacts | None:
        """A file with the facts of its manifest. One in a base path stays there, and is not checked."""
        where, record = file.location, file.record
        if str(record["file_format"]).upper() != "PARQUET":
            raise Unsupported(f"{where} is {record['file_format']}: data files are Parquet.")
        columns = trust.manifest_facts(record, self.schema, where)
        path = self.folder.path(where)
        if paths.is_adopted(path):
            return self._staying(file, number, path, columns)
        if not record["record_count"]:
            return None
        source, data = self._path(file), self.folder.read(where)
        path = paths.segment_path(self.state.id, number, secrets.token_hex(4))
        facts = self._as_said(file, number, path, columns)
        self.store.put_fresh(path, data)
        self.leftovers.append(source)
        return replace(facts, sha256=hashlib.sha256(data).digest())

    def _staying(
        self, file: DataFile, number: int, path: str, columns: tuple[ColumnFacts, ...], etag: str = ""
    ) -> SegmentFacts | None:
        """A file below a base path as a segment where it lies. With an `etag`, it is read as long as it has that."""
        if not file.record["record_count"]:
            return None
        adopted = AdoptedFile(self.state.id, (), location=file.location, unread=True, etag=etag)
        return replace(self._as_said(file, number, path, columns), adopted=adopted)

    def _as_said(self, file: DataFile, number: int, path: str, columns: tuple[ColumnFacts, ...]) -> SegmentFacts:
        """A segment with the rows, size and partition that the manifest says of its file."""
        times = self._times(file.location, columns, file.record["record_count"])
        return SegmentFacts(
            number,
            path,
            file.record["record_count"],
            file.record["file_size_in_bytes"],
            0,
            self.schema_id,
            file.spec_id,
            partition_of(self.state, file),
            bytes(_SHA256),
            columns,
            times[0],
            times[1],
            split_offsets=_offsets(file.record),
        )

    def _read(self, file: DataFile) -> tuple[bytes, Any, pa.Table, dict[int | None, int]]:
        """The bytes of a data file, its footer, its rows, and columns by field id; rejected if its manifest is
        wrong.
        """
        where, record = file.location, file.record
        if str(record["file_format"]).upper() != "PARQUET":
            raise Unsupported(f"{where} is {record['file_format']}: data files are Parquet.")
        data = self.folder.read(where)
        try:
            footer = read_footer(pa.BufferReader(data), where)
            with SegmentReader(pa.BufferReader(data), self.schema, name=where) as reader:
                table = reader.table()
            _require_values(table, self.schema)
            show(table, shown_schema(self.schema))  # lists of a fixed length, which engines know nothing of
        except (MoulinError, pa.ArrowException, OSError) as error:
            raise InvalidInput(f"{where} does not fit the table: {' '.join(str(error).split())[:300]}") from None
        rows = table.num_rows
        stored = {leaf.field_id: leaf.index for leaf in leaves(footer.schema.to_arrow_schema())}
        if not any(one in self.schema.field_ids for one in stored if one is not None):
            raise InvalidInput(f"{where} has no field ids of the table's columns.")
        if rows != record["record_count"] or len(data) != record["file_size_in_bytes"]:
            raise InvalidInput(
                f"{where} has {rows} rows and {len(data)} bytes; its manifest says {record['record_count']} and "
                f"{record['file_size_in_bytes']}."
            )
        return data, footer, table, stored

    def _segment(self, file: DataFile, number: int) -> SegmentFacts | None:
        """Copy a data file into the folder of a segment; its facts come from its bytes. One without rows is none."""
        file = self._own_spec(file)
        where, path = file.location, self._path(file)
        data, footer, table, stored = self._read(file)
        rows, columns = table.num_rows, footer_facts(footer, self.schema)
        self.leftovers.append(path)
        if not rows:
            return None
        lowest, highest = (None, None) if self.foreign is not None else sequence_range(footer)
        if highest is not None and highest > self.state.last_sequence:
            raise InvalidInput(f"{where} holds rows of sequence number {highest}, which is yet to come.")
        numbers = (ROW_ID_FIELD_ID, LAST_UPDATED_SEQUENCE_FIELD_ID)
        kept = self.foreign is None and all(one in stored for one in numbers)  # those of another table are invalid here
        lineage = kept and not _nulls(footer, [stored[one] for one in numbers])
        times = self._times(where, columns, rows)
        target = paths.segment_path(self.state.id, number, secrets.token_hex(4))
        facts = SegmentFacts(
            number,
            target,
            rows,
            len(data),
            0,
            self.schema_id,
            file.spec_id,
            checked_partition(self.state, file, table, self.schema),
            hashlib.sha256(data).digest(),
            columns,
            times[0],
            times[1],
            has_lineage=lineage,
            seq_min=lowest if lineage else None,
            seq_max=highest if lineage else None,
            split_offsets=split_offsets(footer),
        )
        self.store.put_fresh(target, data)
        return facts

    def _path(self, file: DataFile) -> str:
        """The path of a new data file; rejected if the location is not allowed."""
        where, path = file.location, self.folder.path(file.location)
        if self.foreign is not None:
            return path
        if file.status != ADDED:
            raise InvalidInput(f"{where} is listed as existing, and the table does not have it.")
        if not path.startswith(paths.data_prefix(self.state.id) + "/") or paths.parse_segment_path(path):
            raise InvalidInput(f"{where} is not a path for a new data file: write below {self.folder.location}/data.")
        return path

    def _own_spec(self, file: DataFile) -> DataFile:
        """The file with the table's own id of its partition spec."""
        if self.foreign is None:
            return file
        if file.spec_id not in self.foreign:
            raise Unsupported(f"{file.location} is of an older partition spec: rewrite the table's files first.")
        return replace(file, spec_id=self.foreign[file.spec_id])

    def _times(self, where: str, columns: Sequence[ColumnFacts], rows: int) -> tuple[int | None, int | None]:
        if self.state.event_time is None:
            return None, None
        facts = next((one for one in columns if one.field_id == self.state.event_time), None)
        if facts is not None and facts.nulls == rows:
            return None, None
        if facts is None or facts.lower is None or facts.upper is None:
            raise InvalidInput(f"{where} has no statistics for the table's event time: write it with them.")
        return time_range_ns(self.schema.find_type(self.state.event_time), facts.lower, facts.upper)


def _offsets(record: Json) -> tuple[int, ...]:
    """Where row groups begin, as a manifest has it; nothing when that makes no sense."""
    given = [int(one) for one in record.get("split_offsets") or ()]
    fits = given == sorted(given) and all(0 <= one <= record["file_size_in_bytes"] for one in given)
    return tuple(given) if fits else ()


def _require_values(rows: pa.Table, schema: Schema) -> None:
    """Refuse rows with a null in a column that is required; the file itself may declare it as optional."""
    for field in schema.fields:
        if field.required and rows[field.name].null_count:
            raise InvalidInput(f"column {field.name} is required, and a row has a null in it.")


def _nulls(footer: object, indices: Sequence[int]) -> bool:
    """Whether some of these columns have nulls, as far as the footer knows."""
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]  # type: ignore[attr-defined]
    for group in groups:
        for index in indices:
            chunk = group.column(index)
            if not chunk.is_stats_set or not chunk.statistics.has_null_count or chunk.statistics.null_count:
                return True
    return False


__all__ = ["Arrivals"]
