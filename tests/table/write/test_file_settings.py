"""What the properties of a table say of its files is seen in the files of every writer."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moulin.lake import Lake
from moulin.table.table import Table
from tests.parquet_pages import page_headers

COLUMNS = [("id", "long"), ("text", "string")]
ROWS = pa.table({"id": range(5_000), "text": [f"{n:040d}" for n in range(5_000)]})


def files(lake: Lake, table: Table) -> list[bytes]:
    """The segments that the newest version of a table has."""
    return [lake.store.get(segment.facts.path) for segment in lake.catalog.segments(table.id, table.version)]


def codecs(data: bytes) -> set[str]:
    footer = pq.read_metadata(io.BytesIO(data))
    return {
        footer.row_group(group).column(at).compression
        for group in range(footer.num_row_groups)
        for at in range(footer.num_columns)
    }


def pages(data: bytes) -> list[int]:
    """How many values each data page of the first column has."""
    footer = pq.read_metadata(io.BytesIO(data))
    groups = range(footer.num_row_groups)
    headers = [page for group in groups for page in page_headers(data, footer.row_group(group).column(0))]
    return [page.values for page in headers if page.kind == 0]


def make(lake: Lake, **properties: Any) -> Table:
    named = {f"write.parquet.{name.replace('_', '-')}": value for name, value in properties.items()}
    return lake.create_table("shop.files", COLUMNS, sort_by=["id"], properties=named)


@pytest.mark.parametrize(
    ("codec", "found"),
    [("snappy", "SNAPPY"), ("gzip", "GZIP"), ("zstd", "ZSTD"), ("lz4", "LZ4"), ("brotli", "BROTLI"),
     ("uncompressed", "UNCOMPRESSED")],
)  # fmt: skip
def test_appended_and_compacted_files_have_the_codec(lake: Lake, codec: str, found: str) -> None:
    table = make(lake, compression_codec=codec)
    for _ in range(2):
        table.append(ROWS)
        assert {name for data in files(lake, table) for name in codecs(data)} == {found}
        table.compact(everything=True)
        assert {name for data in files(lake, table) for name in codecs(data)} == {found}
    assert table.scan().count() == 2 * len(ROWS)


def test_duckdb_sees_the_codec_and_the_row_groups(lake: Lake, tmp_path: Path) -> None:
    table = make(lake, compression_codec="snappy", row_group_limit=2_500)
    table.append(ROWS)
    (data,) = files(lake, table)
    file = tmp_path / "segment.parquet"
    file.write_bytes(data)
    query = f"select distinct row_group_id, row_group_num_rows, compression from parquet_metadata('{file}') order by 1"
    assert duckdb.sql(query).fetchall() == [(0, 2_500, "SNAPPY"), (1, 2_500, "SNAPPY")]


def test_a_codec_set_later_is_that_of_later_files(lake: Lake) -> None:
    table = make(lake)
    table.append(ROWS)
    table.set_properties({"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": 9})
    table.append(ROWS)
    assert [codecs(data) for data in files(lake, table)] == [{"UNCOMPRESSED"}, {"GZIP"}]


def test_a_higher_level_makes_smaller_files(lake: Lake) -> None:
    table = make(lake, compression_codec="gzip", compression_level=1, page_size_bytes=1 << 20)
    words = pa.table({"id": range(5_000), "text": [f"{n * n % 9973:x} and {n * 7 % 613:x}" for n in range(5_000)]})
    table.append(words)
    table.set_properties({"write.parquet.compression-level": 9})
    table.append(words)
    low, high = map(len, files(lake, table))
    assert high < low


def test_row_groups_and_pages_have_the_sizes(lake: Lake) -> None:
    table = make(lake, row_group_size_bytes=64 << 10, page_row_limit=100)
    table.append(ROWS)
    for level in (0, 1):
        (data,) = files(lake, table)
        footer = pq.read_metadata(io.BytesIO(data))
        assert footer.num_row_groups >= ROWS.nbytes // (64 << 10), level
        assert max(pages(data)) == 100
        table.compact(everything=True)
    table.set_properties(
        {"write.parquet.row-group-limit": 1000, "write.parquet.page-size-bytes": 1024},
        remove=["write.parquet.row-group-size-bytes", "write.parquet.page-row-limit"],
    )
    table.overwrite(ROWS)
    (data,) = files(lake, table)
    footer = pq.read_metadata(io.BytesIO(data))
    assert [footer.row_group(at).num_rows for at in range(footer.num_row_groups)] == [1000] * 5
    assert max(pages(data)) <= 128 + 64  # 1 KiB of longs, to the end of a batch


def test_a_small_dictionary_is_given_up(lake: Lake) -> None:
    table = make(lake)
    few = pa.table({"id": range(5_000), "text": [f"{n % 500:040d}" for n in range(5_000)]})
    sizes = []
    for limit in (1 << 20, 1024):
        table.set_properties({"write.parquet.dict-size-bytes": limit, "write.parquet.compression-codec": "none"})
        table.overwrite(few.slice(0, 2_500))
        table.append(few.slice(2_500))
        table.compact(everything=True)
        sizes += map(len, files(lake, table))
    assert len(sizes) == 2
    assert sizes[1] > 2 * sizes[0]


def test_files_are_cut_at_the_target_size(lake: Lake) -> None:
    table = make(lake, compression_codec="uncompressed")
    table.set_properties({"write.target-file-size-bytes": 64 << 10})
    table.append(ROWS)
    assert len(files(lake, table)) == ROWS.nbytes // (64 << 10)
    table.set_properties({"write.target-file-size-bytes": 512 << 20})
    table.compact(everything=True)
    (whole,) = files(lake, table)
    table.append(ROWS)
    table.set_properties({"write.target-file-size-bytes": len(whole) // 2})
    table.compact(everything=True)
    assert len(files(lake, table)) > 2


def test_flushes_compactions_and_bulk_writes_of_a_keyed_table_follow(lake: Lake) -> None:
    properties = {"write.parquet.compression-codec": "gzip", "write.parquet.row-group-size-bytes": 64 << 10}
    table = lake.create_table("shop.k", COLUMNS, primary_key=["id"], properties=properties)
    for write in (
        lambda: (table.put_batch(ROWS.slice(0, 2_000)), table.flush()),
        lambda: table.merge(ROWS.slice(1_000, 3_000)),
        lambda: table.compact(everything=True),
    ):
        write()
        for data in files(lake, table):
            assert codecs(data) == {"GZIP"}
            assert pq.read_metadata(io.BytesIO(data)).num_row_groups > 1
    assert table.get(1_500) == {"id": 1_500, "text": f"{1_500:040d}"}
