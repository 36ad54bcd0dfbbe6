"""Rows of CSV, NDJSON and Parquet files with a table's types; errors name the file and the column."""

from __future__ import annotations

import gzip
from typing import Any

import pyarrow as pa
import pytest

from moulin.errors import InvalidInput
from moulin.formats.row_file import checked_format, format_of, read_rows
from moulin.model.schema.schema import make_schema

PLAIN = make_schema([("id", "long", False), ("ts", "timestamptz"), ("day", "date"), ("price", "decimal(10, 2)")])
NESTED = make_schema([("id", "long", False), ("tags", "map<string, string>"), ("at", "struct<day: date>")])


def read(text: str | bytes, kind: Any, schema: Any = PLAIN, name: str = "f", **more: Any) -> list[dict[str, Any]]:
    data = text.encode() if isinstance(text, str) else text
    batches = read_rows(name, kind, schema, lambda: pa.BufferReader(data), **more)
    return [
        {key: str(value) for key, value in row.items() if value is not None} for b in batches for row in b.to_pylist()
    ]


def test_types_are_the_tables() -> None:
    expected = [{"id": "1", "ts": "2024-01-01 10:00:00+00:00", "day": "2024-02-03", "price": "1.50"}, {"id": "2"}]
    assert read("id,ts,day,price\n1,2024-01-01T12:00:00+02:00,2024-02-03,1.5\n2,,,\n", "csv") == expected
    lines = '{"id": 1, "ts": "2024-01-01T10:00:00Z", "day": "2024-02-03", "price": 1.5}\n{"id": 2}\n'
    assert read(lines, "ndjson") == expected
    assert read(gzip.compress(lines.encode()), "ndjson", name="f.jsonl.gz") == expected
    nested = '{"id": 1, "tags": {"a": "b"}, "at": {"day": "2024-01-01"}}\n'
    assert read(nested, "ndjson", NESTED)[0]["tags"] == "[('a', 'b')]"
    assert read("", "csv") == read("", "ndjson") == read("id\n", "csv") == []


def test_constants_stand_for_columns_that_the_file_lacks() -> None:
    assert read("id\n7\n", "csv", constants={"day": "2024-05-01"}) == [{"id": "7", "day": "2024-05-01"}]
    assert read('{"ts": null}\n', "ndjson", constants={"id": "7", "day": None}) == [{"id": "7"}]
    with pytest.raises(InvalidInput, match="f: column id: 'x'"):
        read("ts\n\n", "csv", constants={"id": "x"})


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("id,day\n1,2024-01-01\nx,2024-01-01\n", "csv", "f cannot be read as csv: column id: .*'x'"),
        ("id,ts\n1,noon\n", "csv", "f: Row 0 .*column ts"),
        ("id,day\n1\n", "csv", "f cannot be read as csv: .*Expected 2 columns"),
        ("day\n2024-01-01\n", "csv", "f: Column id is required"),
        ('{"id": 1}\n{"id": 1.5}\n', "ndjson", "f cannot be read as ndjson: column id: "),
        ('{"id": "one"}\n', "ndjson", "f cannot be read as ndjson: .*Column.*id"),
        ('{"id": 1', "ndjson", "f cannot be read as ndjson"),
        ('{"day": "2024-01-01"}\n', "ndjson", "column id: it is null"),
        ('{"id": 1, "nope": 2}\n', "ndjson", "f: .*'nope'"),
        (b'{"id": 1, "ts": "2024-01-01T10:00:00Z\xff"}\n', "ndjson", "f: column ts has a text that is not UTF-8"),
        (b"no parquet", "parquet", "f cannot be read as parquet"),
    ],
)
def test_what_does_not_fit_is_named(text: str | bytes, kind: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(text, kind)


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_a_row_of_megabytes_is_read_and_a_huge_one_is_named(kind: str) -> None:
    def text(size: int) -> str:
        rows = ["x" * size, "y"]
        return "v\n" + "\n".join(rows) if kind == "csv" else "\n".join(f'{{"v": "{row}"}}' for row in rows)

    schema = make_schema([("v", "string")])
    assert [len(row["v"]) for row in read(text(3_000_000), kind, schema)] == [3_000_000, 1]
    with pytest.raises(InvalidInput, match="a row is larger than 8 MiB"):
        read(text(20_000_000), kind, schema)


def test_the_name_of_a_file_tells_its_format() -> None:
    names = {
        "a.csv": "csv",
        "b.json.gz": "ndjson",
        "c.JSON": None,
        "d.jsonl": "ndjson",
        "e.parquet": "parquet",
        "f": None,
    }
    assert {name: format_of(name) for name in names} == names
    with pytest.raises(InvalidInput, match="Unknown format 'xml'"):
        checked_format("xml")
