"""Small files that are decoded together hold what they hold one by one."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.errors import MoulinError
from moulin.formats.segment.joined import SmallFile, can_join, read_joined
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.page_index import FooterMap
from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.writer import SegmentWriter
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import Schema

SCHEMA: Schema = make_schema([("id", "long"), ("text", "string"), ("amount", "double"), ("tags", "list<string>")])
NAMES = tuple(field.name for field in SCHEMA.fields)
ROW = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "text": st.none() | st.text(max_size=300),
        "amount": st.none() | st.floats(),
        "tags": st.none() | st.lists(st.none() | st.text(max_size=5), max_size=3),
    }
)
Rows = list[dict[str, object]]
MANY = st.lists(st.lists(ROW, min_size=1, max_size=40), min_size=1, max_size=6)
LEVELS = st.sampled_from([0, 1])


def written(rows: Rows, level: int, group_bytes: int | None = None) -> bytes:
    sink = io.BytesIO()
    writer = SegmentWriter(sink, schema=SCHEMA, level=level, row_group_bytes=group_bytes)
    writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(SCHEMA)))
    writer.finish()
    return sink.getvalue()


def opened(files: list[bytes]) -> list[SmallFile]:
    first = OpenedFile(pa.BufferReader(files[0]), "file 0")
    others = [OpenedFile(pa.BufferReader(data), f"file {n}", like=first) for n, data in enumerate(files[1:], 1)]
    return list(zip(files, [first, *others], strict=True))


def one_by_one(files: list[bytes], columns: list[str]) -> pa.Table:
    tables = []
    for data in files:
        with SegmentReader(pa.BufferReader(data), SCHEMA, columns=columns) as reader:
            tables.append(reader.table())
    return pa.concat_tables(tables)


@settings(max_examples=60, deadline=None)
@given(MANY, LEVELS, st.sampled_from([None, 200]), st.sets(st.sampled_from(NAMES), min_size=1))
def test_files_read_together_hold_the_same_rows(
    many: list[Rows], level: int, group_bytes: int | None, names: set[str]
) -> None:
    files = [written(rows, level, group_bytes) for rows in many]
    found = opened(files)
    assert can_join(found)
    columns = [name for name in NAMES if name in names]
    table = read_joined(found, found[0][1].mapping(SCHEMA, tuple(columns)), trust=False)
    # NaN is unequal to itself, so the values are compared as text
    assert repr(table.to_pylist()) == repr(one_by_one(files, columns).to_pylist())


@settings(max_examples=60, deadline=None)
@given(MANY, st.lists(LEVELS, min_size=6, max_size=6), st.sampled_from([None, 200]))
def test_a_footer_that_is_like_another_is_walked_to_the_same_end(
    many: list[Rows], levels: list[int], group_bytes: int | None
) -> None:
    files = [written(rows, level, group_bytes) for rows, level in zip(many, levels, strict=False)]
    footers = [file._footer for _, file in opened(files)]
    first = FooterMap(footers[0])
    for footer in footers:
        plain, fast = FooterMap(footer), FooterMap(footer, first)
        assert (fast.start, fast.rows, fast.groups) == (plain.start, plain.rows, plain.groups)
        assert fast.columns == plain.columns
        for group in range(plain.groups):
            assert fast.group_rows(group) == plain.group_rows(group)
            assert [fast.chunk(group, leaf) for leaf in range(4)] == [plain.chunk(group, leaf) for leaf in range(4)]


def test_files_of_other_columns_are_not_read_together() -> None:
    sink = io.BytesIO()
    other = make_schema([("id", "long"), ("text", "string")])
    writer = SegmentWriter(sink, schema=other, level=0)
    writer.write(pa.Table.from_pylist([{"id": 1, "text": "a"}], schema=arrow_schema(other)))
    writer.finish()
    mine = written([{"id": 1}], 0)
    assert can_join(opened([mine, mine]))
    assert not can_join(opened([mine, sink.getvalue()]))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_changed_byte_is_an_error_or_changes_no_row(data: st.DataObject) -> None:
    files = [written([{"id": n, "text": "x" * n, "amount": n / 3, "tags": ["a"]}], 0) for n in range(3)]
    expected = one_by_one(files, list(NAMES))
    which = data.draw(st.integers(0, 2))
    at = data.draw(st.integers(0, len(files[which]) - 1))
    damaged = bytearray(files[which])
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    files[which] = bytes(damaged)
    try:
        found = opened(files)
        if not can_join(found):
            return
        table = read_joined(found, found[0][1].mapping(SCHEMA, NAMES), trust=False)
    except (MoulinError, pa.ArrowException, ValueError, LookupError, OSError):
        return
    assert table.equals(expected)


def test_a_wrong_page_is_found() -> None:
    files = [written([{"id": n, "text": "some text"}], 0) for n in range(3)]
    damaged = bytearray(files[1])
    damaged[files[1].index(b"some text") + 2] ^= 1
    found = opened([files[0], bytes(damaged), files[2]])
    with pytest.raises((pa.ArrowException, OSError)):
        read_joined(found, found[0][1].mapping(SCHEMA, NAMES), trust=False)
