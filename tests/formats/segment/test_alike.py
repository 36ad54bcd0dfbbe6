"""Footers that are read together tell what each of them tells alone."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moulin.formats.segment.alike import AlikeFooters, Told, told
from moulin.formats.segment.footer import FooterColumn, decode_footer, footer_columns, read_footer_bytes
from moulin.formats.segment.foreign import numbered, schema_end
from moulin.model.schema.schema import make_schema

COLUMNS: list[tuple[str, str, pa.DataType]] = [
    ("whole", "long", pa.int64()),
    ("small", "int", pa.int32()),
    ("widened", "long", pa.int32()),
    ("day", "date", pa.date32()),
    ("at", "timestamptz", pa.timestamp("us", "UTC")),
    ("coarse", "timestamptz", pa.timestamp("ms", "UTC")),
    ("clock", "time", pa.time64("us")),
    ("number", "double", pa.float64()),
    ("short", "float", pa.float32()),
    ("grown", "double", pa.float32()),
    ("text", "string", pa.string()),
    ("bytes", "binary", pa.binary()),
    ("price", "decimal(9, 2)", pa.decimal128(9, 2)),
    ("sum", "decimal(30, 2)", pa.decimal128(30, 2)),
    ("flag", "boolean", pa.bool_()),
]
ODD: dict[str, list[Any]] = {
    "number": [0.0, -0.0, math.nan, math.inf, -math.inf],
    "short": [0.0, -0.0, math.nan],
    "grown": [0.0, -0.0, math.nan],
    "text": ["", "grün", "x" * 17, "\U0010ffff" * 20, "é" * 16],
    "bytes": [b"", b"\xff" * 20, b"\x00"],
    "whole": [-(2**63), 2**63 - 1, 0],
}


def _value(chosen: random.Random, name: str, kind: pa.DataType) -> Any:
    if name in ODD and chosen.random() < 0.2:
        return chosen.choice(ODD[name])
    match name:
        case "day":
            return datetime.date(1970, 1, 1) + datetime.timedelta(chosen.randrange(-9999, 9999))
        case "at" | "coarse":
            return datetime.datetime.fromtimestamp(chosen.randrange(-(10**9), 10**9), datetime.UTC)
        case "clock":
            return datetime.time(chosen.randrange(24), chosen.randrange(60))
        case "text" | "bytes":
            text = "".join(chosen.choices("abcdefgh ", k=chosen.randrange(30)))
            return text if name == "text" else text.encode()
        case "price" | "sum":
            return Decimal(chosen.randrange(-(10**6), 10**6)) / 100
        case "flag":
            return chosen.random() < 0.5
    return chosen.randrange(-(10**6), 10**6) if pa.types.is_integer(kind) else chosen.gauss(0, 10)


def _footer(chosen: random.Random, columns: list[tuple[str, str, pa.DataType]], **options: Any) -> bytes:
    rows, empty = chosen.choice([1, 2, 7, 300]), chosen.random() < 0.1
    arrays = [
        pa.array(
            [None if empty or chosen.random() < 0.1 else _value(chosen, name, kind) for _ in range(rows)], type=kind
        )
        for name, _, kind in columns
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, names=[name for name, _, _ in columns]), sink, **options)
    return read_footer_bytes(pa.BufferReader(sink.getvalue()), "a file")[0]


class Plain:
    """The plain path: each footer decoded by pyarrow."""

    def __init__(self, first: bytes, columns: list[tuple[str, str, pa.DataType]]) -> None:
        self.start = schema_end(first)
        self._numbered = numbered(first[: self.start], tuple(range(len(columns) + 1)))
        self.metadata = self._decoded(first)
        schema = make_schema([(name, kind) for name, kind, _ in columns])
        self.columns: Mapping[int, FooterColumn] = footer_columns(self.metadata, schema)

    def _decoded(self, footer: bytes) -> pq.FileMetaData:
        return decode_footer(self._numbered + footer[self.start :], "a file", is_sealed=True)

    def told(self, footer: bytes) -> Told:
        return told(footer, self._decoded(footer), self.columns)

    def alike(self, footer: bytes) -> AlikeFooters:
        return AlikeFooters(footer, self.start, self.metadata, self.columns)


@pytest.mark.parametrize("seed", range(12))
def test_footers_that_are_alike_tell_together_what_each_tells_alone(seed: int) -> None:
    chosen = random.Random(seed)
    columns = chosen.sample(COLUMNS, chosen.randrange(1, len(COLUMNS)))
    options: dict[str, Any] = {
        "use_dictionary": chosen.random() < 0.5,
        "write_statistics": chosen.random() < 0.8,
        "write_page_index": chosen.random() < 0.5,
        "store_schema": chosen.random() < 0.5,
        "compression": chosen.choice(["zstd", "none"]),
    }
    footers = [_footer(chosen, columns, **options) for _ in range(80)]
    plain = Plain(footers[0], columns)
    found = plain.alike(footers[0]).read(footers)
    assert found[0] is not None
    for footer, one in zip(footers, found, strict=True):
        assert one is None or one == plain.told(footer)


def test_files_of_one_writer_with_values_in_every_column_are_alike() -> None:
    chosen = random.Random(1)
    columns = [one for one in COLUMNS if one[0] in ("whole", "small", "at", "number", "text")]

    def footer() -> bytes:
        arrays = [pa.array([_value(random.Random(chosen.random()), n, k) for _ in range(50)], k) for n, _, k in columns]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(arrays, names=[name for name, _, _ in columns]), sink)
        return read_footer_bytes(pa.BufferReader(sink.getvalue()), "a file")[0]

    footers = [footer() for _ in range(60)]
    plain = Plain(footers[0], columns)
    found = plain.alike(footers[0]).read(footers)
    assert sum(one is not None for one in found) > 50
    assert [one for one in found if one is not None] == [
        plain.told(footer) for footer, one in zip(footers, found, strict=True) if one is not None
    ]


def test_a_damaged_footer_tells_nothing_else_than_alone() -> None:
    chosen = random.Random(2)
    columns = [one for one in COLUMNS if one[0] in ("whole", "number", "text", "flag")]
    good = _footer(random.Random(5), columns, store_schema=False)
    plain = Plain(good, columns)
    damaged = []
    for _ in range(4000):
        one = bytearray(good)
        at = chosen.randrange(plain.start, len(one))
        match chosen.randrange(3):
            case 0:
                one[at] = chosen.randrange(256)
            case 1:
                del one[at]
            case 2:
                one.insert(at, chosen.randrange(256))
        damaged.append(bytes(one))
    found = plain.alike(good).read([good, *damaged, good[: plain.start]])
    assert found[0] == plain.told(good)
    assert found[-1] is None
    for footer, one in zip(damaged, found[1:-1], strict=True):
        if one is not None:
            assert one == plain.told(footer)


def test_files_of_several_row_groups_are_read_alone() -> None:
    footer = _footer(random.Random(8), COLUMNS[:2], row_group_size=1)
    plain = Plain(footer, COLUMNS[:2])
    assert plain.metadata.num_row_groups > 1
    with pytest.raises(ValueError, match="one row group"):
        plain.alike(footer)
