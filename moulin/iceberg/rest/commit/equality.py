"""Equality deletes of engines: finds the deleted rows when the snapshot is committed.

They apply to every row older than the snapshot, in the delete file's partition if its spec has fields. Null equals
null. The rows are hidden by deletion vectors; the delete files are removed.
"""

# Decisions: docs/decisions/0513

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from moulin.errors import InvalidInput, MoulinError, Unsupported
from moulin.formats import deletion_vector
from moulin.formats.segment.footer import read_footer
from moulin.formats.segment.reader import SegmentReader
from moulin.iceberg.rest.commit.engine_files import DataFile, Folder, partition_of
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.layout.partition import PartitionTuple
from moulin.model.schema.arrow import leaves
from moulin.model.schema.values import PrimitiveType
from moulin.table.context import Context
from moulin.table.find.locate import locate
from moulin.table.read.footers import open_reader
from moulin.table.write.upsert import sorted_keys

Positions = dict[int, BitMap64]


@dataclass(frozen=True, slots=True)
class EqualityDelete:
    """One delete file: its columns, values, and partition (None: all)."""

    names: tuple[str, ...]
    values: pa.Table
    spec_id: int
    partition: PartitionTuple | None

    def is_about(self, segment: LiveSegment) -> bool:
        facts = segment.facts
        return self.partition is None or (facts.spec_id, facts.partition) == (self.spec_id, self.partition)


def read_deletes(folder: Folder, state: TableState, files: Sequence[DataFile]) -> list[EqualityDelete]:
    """The rows of equality delete files, checked against their manifest."""
    return [_read(folder, state, file) for file in files]


def _read(folder: Folder, state: TableState, file: DataFile) -> EqualityDelete:
    where, record = file.location, file.record
    if str(record["file_format"]).upper() != "PARQUET":
        raise Unsupported(f"{where} is {record['file_format']}: delete files are Parquet or Puffin.")
    names = _columns(state, where, record.get("equality_ids") or ())
    data = folder.read(where)
    try:
        footer = read_footer(pa.BufferReader(data), where)
        there = {leaf.field_id for leaf in leaves(footer.schema.to_arrow_schema())}
        with SegmentReader(pa.BufferReader(data), state.schema, columns=names, name=where) as reader:
            values = reader.table()
    except (MoulinError, pa.ArrowException, OSError) as error:
        raise InvalidInput(f"{where} does not fit the table: {' '.join(str(error).split())[:300]}") from None
    if not set(record["equality_ids"]) <= there:
        raise InvalidInput(f"{where} lacks a column that its equality ids name.")
    if values.num_rows != record["record_count"]:
        raise InvalidInput(f"{where} has {values.num_rows} rows; its manifest says {record['record_count']}.")
    spec = state.specs.get(file.spec_id)
    if spec is None:
        raise InvalidInput(f"{where} is of partition spec {file.spec_id}, which the table does not have.")
    return EqualityDelete(names, values, file.spec_id, partition_of(state, file) if spec.fields else None)


def _columns(state: TableState, where: str, ids: Sequence[int]) -> tuple[str, ...]:
    known = {field.field_id: field for field in state.schema.fields}
    if not ids or not all(number in known for number in ids):
        raise InvalidInput(f"{where} compares columns {list(ids)}: an equality delete names columns of the table.")
    for number in ids:
        if not isinstance(known[number].field_type, PrimitiveType):
            raise Unsupported(f"{where} compares {known[number].name}, which is nested: compare plain columns.")
    return tuple(known[number].name for number in ids)


def find_rows(
    context: Context, state: TableState, segments: Iterable[LiveSegment], deletes: Sequence[EqualityDelete]
) -> Positions:
    """The positions of the rows that delete files name, by segment. Where they name the table's key, by its indexes."""
    found: Positions = {}
    key, every = Key.of(state.schema), list(segments) if deletes else []
    for one in deletes:
        mine = [segment for segment in every if one.is_about(segment)]
        by_key = key is not None and set(key.names) == set(one.names)
        some = _by_key(context, key, mine, one) if by_key and key is not None else _by_scan(context, state, mine, one)
        for number, bitmap in some.items():
            found[number] = found[number] | bitmap if number in found else bitmap
    return found


def _by_key(context: Context, key: Key, segments: Sequence[LiveSegment], delete: EqualityDelete) -> Positions:
    rows = delete.values.drop_null()  # no key has a null in it
    if not rows.num_rows:
        return {}
    keys = sorted_keys(key, rows.select(key.names))
    located = locate(context.indexes, context.vectors, context.store, segments, keys)
    return {
        number: deletion_vector.from_positions(np.sort(located.positions[located.segments == number]))
        for number in distinct(located.segments).tolist()
    }


def _by_scan(context: Context, state: TableState, segments: Sequence[LiveSegment], delete: EqualityDelete) -> Positions:
    found: Positions = {}
    for segment in segments:
        parts, start = [np.empty(0, np.int64)], 0
        with open_reader(context.store, segment.facts, state.schema, columns=delete.names) as reader:
            for batch in reader.batches():
                parts.append(_matches(batch, delete) + start)
                start += batch.num_rows
        positions = np.concatenate(parts)
        if len(positions):
            found[segment.facts.number] = deletion_vector.from_positions(positions)
    return found


def _matches(batch: pa.RecordBatch, delete: EqualityDelete) -> Integers:
    """The indexes of the rows whose values are those of some row of a delete file, in all of its columns."""
    mask = None
    for name in delete.names:
        values = delete.values[name].combine_chunks()
        here = pc.is_in(batch.column(name), value_set=values, skip_nulls=False)
        mask = here if mask is None else pc.and_(mask, here)
    candidates = np.flatnonzero(np.asarray(mask))
    if len(delete.names) == 1 or not len(candidates):
        return candidates
    rows = batch.take(pa.array(candidates))
    wanted, seen = _codes(delete, rows)
    return candidates[np.isin(seen, wanted)]


def _codes(delete: EqualityDelete, rows: pa.RecordBatch) -> tuple[Integers, Integers]:
    """Equal numbers for equal rows, of the delete file and of a batch."""
    count = delete.values.num_rows
    codes = np.zeros(count + rows.num_rows, np.int64)
    for name in delete.names:
        both = pa.chunked_array([*delete.values[name].chunks, rows.column(name)]).combine_chunks()
        encoded = pc.dictionary_encode(both, null_encoding="encode")
        mixed = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy()
        codes = np.unique(mixed, return_inverse=True)[1].astype(np.int64)
    return codes[:count], codes[count:]


__all__ = ["EqualityDelete", "find_rows", "read_deletes"]
