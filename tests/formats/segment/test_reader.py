from __future__ import annotations

import io
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from moulin.errors import Closed, Corrupt, InvalidInput, NotFound, Unavailable
from moulin.formats.segment import writer as segment
from moulin.formats.segment.reader import POSITION, SegmentReader
from moulin.formats.segment.writer import LevelTuning, SegmentWriter
from moulin.model.facts import ColumnFacts
from moulin.model.layout.bounds import bound_from_bytes
from moulin.model.schema.arrow import LAST_UPDATED_SEQUENCE, ROW_ID, arrow_schema
from moulin.model.schema.values import DoubleType, LongType, NestedField, Schema, StringType, StructType, UUIDType

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "value", DoubleType()),
    NestedField(3, "name", StringType()),
)
LATER = Schema(
    NestedField(3, "label", StringType()),
    NestedField(1, "id", LongType(), required=True),
    NestedField(4, "kind", StringType(), initial_default="old"),
)


def stored(
    table: pa.Table, *, group_rows: int | None = None, level: int = 1, lineage: bool = False, schema: Schema = SCHEMA
) -> bytes:
    """A segment whose row groups have `group_rows` rows."""
    tuned = segment.tuning(level)
    if group_rows is not None:
        size = max(1, table.nbytes * group_rows // table.num_rows)
        tuned = LevelTuning(size, tuned.page_bytes, tuned.encoded, tuned.compression, tuned.compression_level)
    sink = io.BytesIO()
    with mock.patch.object(segment, "tuning", return_value=tuned):
        writer = SegmentWriter(sink, schema=schema, level=level, lineage=lineage, nan_fields=segment.nan_fields(table))
        writer.write(table)
        writer.finish()
    return sink.getvalue()


def sample(rows: int, schema: Schema = SCHEMA) -> pa.Table:
    """Rows of equal width, so that row groups are as long as asked for."""
    return pa.Table.from_pylist(
        [{"id": at, "value": at / 4, "name": f"row-{at:06}"} for at in range(rows)], schema=arrow_schema(schema)
    )


def reader(data: bytes, schema: Schema = SCHEMA, **options: Any) -> SegmentReader:
    return SegmentReader(pa.BufferReader(data), schema, name="s.parquet", **options)


ROW = st.fixed_dictionaries(
    {
        "id": st.integers(-5, 5),
        "value": st.none() | st.floats(-4, 4) | st.just(float("nan")),
        "name": st.none() | st.text(max_size=4),
        ROW_ID: st.none() | st.integers(100, 200),
        LAST_UPDATED_SEQUENCE: st.none() | st.integers(1, 9),
    }
)


@given(st.data())
@settings(max_examples=100)
def test_what_is_read_is_what_plain_python_chooses(data: st.DataObject) -> None:
    rows = data.draw(st.lists(ROW, min_size=1, max_size=40), "rows")
    lineage = data.draw(st.booleans(), "lineage")
    table = pa.Table.from_pylist(rows, schema=arrow_schema(SCHEMA, lineage=lineage))
    file = stored(table, group_rows=data.draw(st.sampled_from([1, 3, 100]), "group"), lineage=lineage)
    columns = data.draw(st.none() | st.lists(st.sampled_from(["id", "value", "name"]), unique=True), "columns")
    opened = reader(file, columns=columns)
    groups = data.draw(st.none() | st.sets(st.integers(0, len(opened.group_rows) - 1)), "groups")
    start = data.draw(st.integers(0, len(rows)), "start")
    stop = data.draw(st.none() | st.integers(0, len(rows) + 2), "stop")
    deleted = data.draw(st.none() | st.sets(st.integers(0, len(rows) - 1)), "deleted")
    filtered = data.draw(st.booleans(), "filtered")
    wanted = data.draw(st.tuples(st.booleans(), st.booleans(), st.booleans()), "row id, sequence, position")

    chosen = []
    for at, row in enumerate(rows):
        group = sum(first <= at for first in opened.group_starts) - 1
        if groups is not None and group not in groups:
            continue
        if at < start or (stop is not None and at >= stop) or (deleted and at in deleted):
            continue
        if filtered and not (row["value"] is not None and row["value"] > 0):
            continue
        result = {name: row[name] for name in columns or (["id", "value", "name"] if columns is None else [])}
        if wanted[0]:
            result[ROW_ID] = 1000 + at if not lineage or row[ROW_ID] is None else row[ROW_ID]
        if wanted[1]:
            stamp = row[LAST_UPDATED_SEQUENCE]
            result[LAST_UPDATED_SEQUENCE] = 77 if not lineage or stamp is None else stamp
        if wanted[2]:
            result[POSITION] = at
        chosen.append(result)

    options: dict[str, Any] = {
        "deleted": None if deleted is None else BitMap64(deleted),
        "expression": pc.field("value") > 0 if filtered else None,
        "extra_columns": ["value"] if filtered else [],
        "start": start,
        "stop": stop,
        "row_groups": groups if groups is None else sorted(groups),
        "row_id": wanted[0],
        "first_row_id": 1000,
        "sequence": wanted[1],
        "sequence_number": 77,
        "position": wanted[2],
        "use_threads": data.draw(st.booleans(), "threads"),
    }
    found = opened.table(**options)
    assert (opened.rows, opened.has_lineage, sum(opened.group_rows)) == (len(rows), lineage, len(rows))
    assert found.num_rows == len(chosen)
    assert repr(found.to_pylist()) == repr(chosen) or not found.num_columns
    batches = list(opened.batches(batch_rows=5, **options))
    assert sum(batch.num_rows for batch in batches) == len(chosen)
    assert all(0 < batch.num_rows <= 5 for batch in batches)
    if found.num_columns:
        assert repr([row for batch in batches for row in batch.to_pylist()]) == repr(chosen)
        assert all(batch.schema.equals(found.schema, check_metadata=True) for batch in batches)


def test_rows_are_read_with_a_later_schema_and_filtered_by_a_column_not_given() -> None:
    opened = reader(stored(sample(10), group_rows=4), LATER, columns=["kind", "label"])
    found = opened.table(expression=pc.field("id") >= 8, extra_columns=["id"], position=True)
    assert found.to_pylist() == [
        {"kind": "old", "label": "row-000008", POSITION: 8},
        {"kind": "old", "label": "row-000009", POSITION: 9},
    ]
    assert opened.table(expression=pc.field("kind") == "new", extra_columns=["kind"]).num_rows == 0


def test_a_filter_may_name_given_extra_and_added_columns_at_once() -> None:
    schema = Schema(*SCHEMA.fields, NestedField(4, "token", UUIDType()))
    table = pa.Table.from_pylist(
        [{"id": at, "value": at / 4, "token": uuid.UUID(int=at)} for at in range(10)], schema=arrow_schema(schema)
    )
    opened = reader(stored(table, schema=schema), schema, columns=["token", "id"])
    where = (pc.field("id") > 2) & (pc.field("value") < 2) & (pc.field(ROW_ID) != 105) & (pc.field(POSITION) != 4)
    found = opened.table(expression=where, extra_columns=["value"], row_id=True, first_row_id=100, position=True)
    assert found.column_names == ["token", "id", ROW_ID, POSITION]
    assert found.column("id").to_pylist() == [3, 6, 7]
    assert found.column("token").to_pylist() == [uuid.UUID(int=at) for at in (3, 6, 7)]


def test_row_groups_are_skipped_by_their_facts() -> None:
    asked: list[tuple[int, int]] = []

    def keep(facts: Mapping[int, ColumnFacts], rows: int) -> bool:
        found = facts[1]
        assert found.lower is not None
        assert found.upper is not None
        assert (found.values, found.nulls, len(facts), 99 in facts) == (rows, 0, 3, False)
        asked.append((bound_from_bytes(LongType(), found.lower), bound_from_bytes(LongType(), found.upper)))
        return asked[-1][0] > 2

    opened = reader(stored(sample(10), group_rows=3))
    assert (opened.group_rows, opened.group_starts) == ((3, 3, 3, 1), (0, 3, 6, 9))
    found = opened.table(keep_group=keep, stop=8, position=True)
    assert asked == [(0, 2), (3, 5), (6, 8)]
    assert found.column(POSITION).to_pylist() == [3, 4, 5, 6, 7]
    assert found.column("id").to_pylist() == [3, 4, 5, 6, 7]
    nothing = opened.table(keep_group=lambda facts, rows: False, row_id=True)
    assert (nothing.num_rows, nothing.column_names) == (0, ["id", "value", "name", ROW_ID])
    assert list(opened.batches(keep_group=lambda facts, rows: False)) == []


def test_facts_of_a_group_follow_the_schema_that_is_read_with() -> None:
    later = Schema(NestedField(1, "id", LongType()), NestedField(9, "new", LongType()))
    seen: list[list[int]] = []
    reader(stored(sample(4)), later).table(keep_group=lambda facts, rows: not seen.append(list(facts)))
    assert seen == [[1]]


def test_a_range_decodes_only_the_row_groups_it_touches() -> None:
    data = bytearray(stored(sample(30), group_rows=10))
    metadata = pq.read_metadata(pa.BufferReader(bytes(data)))
    second = metadata.row_group(1).column(0)
    data[second.data_page_offset + second.total_compressed_size - 1] ^= 1
    opened = reader(bytes(data))
    assert opened.table(stop=10).num_rows == 10
    assert opened.table(start=20).column("id").to_pylist() == list(range(20, 30))
    assert opened.table(row_groups=[0, 2]).num_rows == 20
    assert [batch.num_rows for batch in opened.batches(row_groups=[0, 2], batch_rows=10)] == [10, 10]
    with pytest.raises(Corrupt, match="s.parquet is damaged"):
        opened.table(start=9, stop=11)
    with pytest.raises(Corrupt, match="s.parquet is damaged"):
        list(opened.batches())


def test_the_rows_of_a_column_that_is_not_asked_for_are_not_decoded() -> None:
    data = bytearray(stored(sample(30)))
    chunk = pq.read_metadata(pa.BufferReader(bytes(data))).row_group(0).column(2)
    data[chunk.data_page_offset + 30] ^= 1
    assert reader(bytes(data), columns=["id", "value"]).table().num_rows == 30
    with pytest.raises(Corrupt):
        reader(bytes(data), columns=["name"]).table()


@pytest.mark.parametrize("level", [0, 1])
def test_a_file_cut_short_anywhere_is_corrupt(level: int) -> None:
    data = stored(sample(20), level=level)
    for size in range(len(data)):
        with pytest.raises(Corrupt, match="s.parquet is damaged"):
            reader(data[:size]).table()


@pytest.mark.parametrize("level", [0, 1])
def test_a_flipped_bit_is_corrupt_or_lies_where_no_row_does(level: int) -> None:
    """Every byte of the footer and of every page is covered; only page indexes, which are not read here, are not."""
    expected = sample(20)
    data = stored(expected, level=level, group_rows=10)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    metadata = pq.read_metadata(pa.BufferReader(data))
    pages_end = max(
        (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size
        for chunk in (metadata.row_group(group).column(at) for group in range(2) for at in range(3))
    )
    silent = []
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        with suppress(Corrupt):
            assert reader(bytes(damaged)).table().equals(expected), at
            silent.append(at)
    assert all(at < footer for at in silent)
    assert footer > pages_end
    headers = [at for at in silent if 4 <= at < pages_end]
    # Bytes of page headers that no reader looks at, such as the encoding of absent repetition levels.
    assert len(headers) < 0.2 * pages_end
    assert set(range(pages_end, footer)) <= set(silent)


def test_without_verification_damage_inside_a_page_can_pass() -> None:
    data = bytearray(stored(sample(20), level=0))
    chunk = pq.read_metadata(pa.BufferReader(bytes(data))).row_group(0).column(0)
    data[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1
    with pytest.raises(Corrupt):
        reader(bytes(data)).table()
    assert reader(bytes(data), verify=False).table().column("id").to_pylist()[-1] != 19


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1PAR1", b"PAR1\x00\x00\x00\x00PAR1", b"id,value\n1,2\n" * 9])
def test_what_is_no_parquet_file_is_corrupt(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(data)
    with pytest.raises(Corrupt, match=str(path)):
        SegmentReader(path, SCHEMA)


def test_a_path_is_opened_and_a_missing_one_not_found(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(stored(sample(3)))
    with SegmentReader(path, SCHEMA) as opened:
        assert opened.table().equals(sample(3))
        assert opened.name == str(path)
    with pytest.raises(Closed, match="closed"):
        opened.table()
    with pytest.raises(NotFound, match="missing.parquet"):
        SegmentReader(str(tmp_path / "missing.parquet"), SCHEMA)


class FailingFile(io.BytesIO):
    """Reads its end, where the footer is, and then fails."""

    error: Exception | None = None

    def read(self, size: int | None = -1) -> bytes:
        if self.error is not None:
            raise self.error
        return super().read(size)


@pytest.mark.parametrize(
    ("error", "expected"),
    [(OSError(5, "Input/output error"), Unavailable), (Unavailable("the store is away"), Unavailable)],
    ids=["disk", "store"],
)
def test_a_source_that_cannot_be_read_is_not_called_damaged(error: Exception, expected: type[Exception]) -> None:
    file = FailingFile(stored(sample(10)))
    opened = SegmentReader(pa.PythonFile(file, mode="r"), SCHEMA, name="s.parquet")
    file.error = error
    with pytest.raises(expected):
        opened.table()


def test_lineage_needs_the_numbers_of_the_commit_only_where_it_is_not_stored() -> None:
    table = sample(2)
    for name in (ROW_ID, LAST_UPDATED_SEQUENCE):
        table = table.append_column(name, pa.array([5, 6]))
    complete = stored(table.cast(arrow_schema(SCHEMA, lineage=True)), lineage=True)
    found = reader(complete, columns=[]).table(row_id=True, sequence=True)
    assert found.to_pydict() == {ROW_ID: [5, 6], LAST_UPDATED_SEQUENCE: [5, 6]}
    assert found.schema.equals(pa.schema(list(arrow_schema(SCHEMA, lineage=True))[-2:]), check_metadata=True)
    for name in ("row_id", "sequence"):
        with pytest.raises(InvalidInput, match="numbers of its commit"):
            reader(stored(sample(2))).table(**{name: True})


def test_rows_can_be_counted_without_reading_a_column() -> None:
    data = bytearray(stored(sample(30), group_rows=10))
    data[4:40] = bytes(36)
    opened = reader(bytes(data), columns=[])
    assert opened.table(deleted=BitMap64([1, 29])).num_rows == 28
    assert [batch.num_rows for batch in opened.batches(batch_rows=25)] == [25, 5]


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        (pc.field("nowhere") > 1, ["id"]),
        (pc.field("id") > pa.scalar("text"), ["id"]),
        (pc.field("name") + 1 == 2, ["name"]),
        (pc.field("id") + 1, ["id"]),
    ],
    ids=["unknown", "types", "function", "number"],
)
def test_a_filter_that_cannot_be_used_is_invalid(expression: pc.Expression, columns: list[str]) -> None:
    with pytest.raises(InvalidInput, match="filter"):
        reader(stored(sample(3))).table(expression=expression, extra_columns=columns)


def test_a_filter_without_columns_takes_all_rows_or_none() -> None:
    opened = reader(stored(sample(3)), columns=[])
    assert opened.table(expression=pc.scalar(True)).num_rows == 3
    assert opened.table(expression=pc.scalar(False)).num_rows == 0


def test_unknown_columns_and_row_groups_are_invalid() -> None:
    with pytest.raises(InvalidInput, match="'nowhere'"):
        reader(stored(sample(3)), columns=["nowhere"])
    with pytest.raises(InvalidInput, match="'nowhere'"):
        reader(stored(sample(3))).table(expression=pc.field("id") > 1, extra_columns=["nowhere"])
    with pytest.raises(InvalidInput, match="1 row groups"):
        reader(stored(sample(3))).table(row_groups=[1])


def test_files_of_other_engines_are_read_by_id() -> None:
    sink = io.BytesIO()
    table = sample(5).rename_columns(["a", "b", "c"])
    pq.write_table(table, sink, row_group_size=2, compression="snappy")
    opened = reader(sink.getvalue())
    assert opened.table(row_id=True, first_row_id=10).drop_columns(ROW_ID).equals(sample(5))
    assert not opened.has_lineage
    damaged = sink.getvalue()[:-20] + b"\xff" * 12 + sink.getvalue()[-8:]
    with pytest.raises(Corrupt):
        reader(damaged)


def test_a_nested_filter_column_is_read() -> None:
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "person", StructType(NestedField(3, "age", LongType())))
    )
    table = pa.Table.from_pylist([{"id": at, "person": {"age": at}} for at in range(4)], schema=arrow_schema(schema))
    opened = reader(stored(table, schema=schema), schema, columns=["id"])
    found = opened.table(expression=pc.field("person", "age") > 1, extra_columns=["person"])
    assert found.to_pydict() == {"id": [2, 3]}
