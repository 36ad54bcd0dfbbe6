"""Texts that were decoded with ends of 8 bytes are those that pyarrow decodes with ends of 4."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.formats.segment import wide_texts
from moulin.formats.segment.wide_texts import narrowed, open_parquet, read_texts

TEXTS = st.lists(st.none() | st.text(max_size=12), max_size=300)
BYTES = st.lists(st.none() | st.binary(max_size=12), max_size=300)


def _file(table: pa.Table, *, group_rows: int, dictionary: bool) -> pa.Buffer:
    out = pa.BufferOutputStream()
    pq.write_table(
        table, out, row_group_size=group_rows, use_dictionary=dictionary, store_schema=False, write_page_checksum=True
    )
    return out.getvalue()


@given(texts=TEXTS, data=BYTES, group_rows=st.integers(1, 400), dictionary=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_rows_and_types_are_those_of_pyarrow(
    texts: list[str | None], data: list[bytes | None], group_rows: int, dictionary: bool
) -> None:
    rows = min(len(texts), len(data))
    table = pa.table(
        {"text": pa.array(texts[:rows], pa.string()), "data": pa.array(data[:rows], pa.binary()), "n": range(rows)}
    )
    file = _file(table, group_rows=group_rows, dictionary=dictionary)
    plain = open_parquet(pa.BufferReader(file), verify=True).read()
    asked: list[bool] = []

    def read(wide: bool) -> pa.Table:
        asked.append(wide)
        return open_parquet(pa.BufferReader(file), verify=True, wide=wide).read()

    found = read_texts(table.schema.types, read)
    assert asked == [True]
    found.validate(full=True)
    assert found.schema == plain.schema
    assert found.equals(plain)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.string()), pa.struct([("a", pa.string())]), pa.json_(), pa.dictionary(pa.int32(), pa.string())]
)
def test_texts_inside_of_other_types_are_left_to_pyarrow(kind: pa.DataType) -> None:
    nothing = pa.table({"a": pa.array([], pa.string())})
    asked: list[bool] = []
    read_texts([pa.string(), kind], lambda wide: asked.append(wide) or nothing)
    read_texts([pa.int64()], lambda wide: asked.append(wide) or nothing)
    assert asked == [False, False]


def test_a_slice_has_the_same_values() -> None:
    values = pa.chunked_array([pa.array(["a", None, "ccc", "", "e"], pa.large_string()).slice(1, 3)])
    narrow = narrowed(values)
    assert narrow is not None
    narrow.validate(full=True)
    assert narrow.to_pylist() == [None, "ccc", ""]


def test_more_bytes_than_ends_of_4_can_name_are_read_by_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_texts, "_MOST", 5)
    texts = {"a": ["abc", "def"]}
    tables = {True: pa.table(texts, pa.schema([("a", pa.large_string())])), False: pa.table(texts)}
    assert read_texts([pa.string()], lambda wide: tables[wide]) is tables[False]
