"""Bounds of pages leave out rows that cannot match, and never one that does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from moulin.errors import Corrupt
from moulin.formats.segment import writer
from moulin.formats.segment.decoder import Decoder
from moulin.formats.segment.footer import CHECKSUM_KEY, LEVEL_KEY, sealed
from moulin.formats.segment.index_checksums import PAGES_KEY
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.options import Range
from moulin.formats.segment.page_filter import may_match, within
from moulin.formats.segment.page_index import FooterMap
from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.writer import SegmentWriter, nan_fields
from moulin.model.file_settings import FileSettings
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    Schema,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimeType,
    UUIDType,
)
from moulin.model.where import parse_where

ROWS = 2400
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "flag", BooleanType()),
    NestedField(3, "small", IntegerType()),
    NestedField(4, "real", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "huge", DecimalType(38, 5)),
    NestedField(8, "day", DateType()),
    NestedField(9, "clock", TimeType()),
    NestedField(10, "at", TimestampType()),
    NestedField(11, "nano", TimestamptzNanoType()),
    NestedField(12, "text", StringType()),
    NestedField(14, "uuid", UUIDType()),
    NestedField(15, "fixed", FixedType(4)),
    NestedField(16, "bytes", BinaryType()),
    NestedField(17, "pair", StructType(NestedField(18, "a", LongType()), NestedField(19, "b", StringType()))),
    NestedField(20, "list", ListType(21, LongType(), element_required=False)),
    NestedField(30, "long_text", StringType()),
    NestedField(31, "odd", DoubleType()),
)
LATER = Schema(
    NestedField(12, "label", StringType()),
    NestedField(3, "small", LongType()),
    NestedField(4, "real", DoubleType()),
    NestedField(6, "price", DecimalType(38, 2)),
    NestedField(8, "day", TimestampType()),
    NestedField(1, "id", LongType(), required=True),
    NestedField(17, "pair", StructType(NestedField(19, "b", StringType()))),
    NestedField(41, "kind", StringType(), initial_default="old"),
    NestedField(42, "none", LongType()),
)
NANOS = Schema(NestedField(8, "day", TimestampNanoType()), NestedField(1, "id", LongType(), required=True))


def rows(seed: int, order: str) -> pa.Table:
    """Values that ascend, come in stretches or are random; nulls in stretches that are whole pages, and here and there.
    `double` is without NaN, `odd` has some."""
    random = np.random.default_rng(seed)
    base = np.arange(ROWS)
    if order == "random":
        base = random.permutation(ROWS)
    elif order == "stretches":
        base = (base // 100 * 997) % ROWS
    hidden = (base // 60 % 5 == 0) | (random.random(ROWS) < 0.03)

    def some(values: list[Any]) -> list[Any]:
        return [None if null else value for value, null in zip(values, hidden.tolist(), strict=True)]

    numbers = base.tolist()
    values = {
        "id": numbers,
        "flag": some([number > 1000 for number in numbers]),
        "small": some([number - 1200 for number in numbers]),
        "real": some([number / 8 - 100 for number in numbers]),
        "double": some([-0.0 if number == 1200 else number - 1200.0 for number in numbers]),
        "price": some([Decimal(number) / 4 for number in numbers]),
        "huge": some([Decimal(number - 1200) * 10**25 for number in numbers]),
        "day": some(numbers),
        "clock": some([number * 1_000_000 for number in numbers]),
        "at": some([number * 1_000_000 - 10**9 for number in numbers]),
        "nano": some([number * 7 - 5000 for number in numbers]),
        "text": some([f"τext {number:06}" for number in numbers]),
        "uuid": some([number.to_bytes(2, "big") * 8 for number in numbers]),
        "fixed": some([number.to_bytes(4, "big") for number in numbers]),
        "bytes": some([number.to_bytes(2, "big") * (number % 3) for number in numbers]),
        "pair": some([{"a": None if number % 7 == 0 else number, "b": f"τext {number:06}"} for number in numbers]),
        "list": some([[number] * (number % 3) for number in numbers]),
        "long_text": some([f"{'x' * 200}τext {number:06}{'y' * (6000 if number == 77 else 3)}" for number in numbers]),
        "odd": some([float("nan") if number % 400 == 3 else float(number) for number in numbers]),
    }
    arrays = []
    for field in arrow_schema(SCHEMA):
        own = values[field.name]
        if field.name == "uuid":
            arrays.append(pa.ExtensionArray.from_storage(field.type, pa.array(own, pa.binary(16))))
        else:
            arrays.append(pa.array(own, field.type))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(SCHEMA))


def stored(table: pa.Table, *, level: int, page_rows: int, group_rows: int, schema: Schema = SCHEMA) -> bytes:
    sink = io.BytesIO()
    tuned = FileSettings(page_rows=page_rows, row_group_rows=group_rows)
    segment = SegmentWriter(sink, schema=schema, level=level, settings=tuned, nan_fields=nan_fields(table))
    segment.write(table)
    with patch.object(writer, "_LEAST_CHECKED", 2000):
        segment.finish()
    return sink.getvalue()


FILES = [
    stored(rows(1, "ascending"), level=0, page_rows=20, group_rows=700),
    stored(rows(2, "stretches"), level=1, page_rows=50, group_rows=1000),
    stored(rows(3, "random"), level=2, page_rows=10, group_rows=5000),
    stored(rows(4, "ascending"), level=1, page_rows=33, group_rows=500),
]
# What each column is compared with: values that are there, between two, and outside of all.
LITERALS = {
    "id": ("0", "77", "1201", "2399", "2400", "-1", "9223372036854775807"),
    "small": ("-1200", "0", "1", "1199", "1200"),
    "real": ("-100", "-12.5", "0", "3.14", "199.875", "1e300"),
    "double": ("-1200", "0", "-0.0", "0.5", "1199"),
    "price": ("0", "1.25", "300.10", "599.75"),
    "huge": ("0", "-10000000000000000000000000", "12"),
    "day": ("date '1970-01-01'", "date '1972-02-03'", "date '2030-01-01'"),
    "at": ("timestamp '1970-01-01 00:10:00'", "timestamp '1969-12-31 23:50:00.5'", "timestamp '2030-01-01'"),
    "nano": ("timestamp '1970-01-01 00:00:00.000000700Z'", "timestamp '1970-01-01 00:00:00.000000001Z'"),
    "text": ("'τext 000777'", "'τext 002399'", "'τext'", "''", "'ω'", "'z'"),
    "long_text": (f"'{'x' * 200}τext 000100yyy'", "'x'", f"'{'x' * 200}τext 0001'"),
    "odd": ("0", "3", "1000", "5000"),
    "pair.a": ("5", "700", "2399"),
    "pair.b": ("'τext 000001'", "'a'"),
    "uuid": ("'00050005-0005-0005-0005-000500050005'", "'ffffffff-0005-0005-0005-000500050005'"),
}
LATER_LITERALS = {
    "label": LITERALS["text"],
    "small": (*LITERALS["small"], "3000000000"),
    "real": LITERALS["real"],
    "price": (*LITERALS["price"], "99999999999999999999999999.25"),
    "day": (*LITERALS["at"], "timestamp '1972-02-03 00:00:00'", "timestamp '1972-02-03 00:00:00.000001'"),
    "id": LITERALS["id"],
    "kind": ("'old'", "'new'"),
    "none": ("1",),
    "pair.b": LITERALS["pair.b"],
}


@st.composite
def conditions(draw: st.DrawFn, literals: dict[str, tuple[str, ...]]) -> str:
    def leaf() -> str:
        column = draw(st.sampled_from(sorted(literals)))
        some = st.sampled_from(literals[column])
        forms = ["= {0}", "!= {0}", "< {0}", "<= {0}", "> {0}", ">= {0}", "is null", "is not null", "in ({0}, {1})"]
        form = draw(st.sampled_from([*forms, "not in ({0}, {1})", "between {0} and {1}"]))
        if column in ("text", "label", "long_text") and draw(st.booleans()):
            form = draw(st.sampled_from(["like 'τext 0007%'", "like '%77%'", "not like 'τext 0007%'", "like 'x%'"]))
        if column in ("real", "double", "odd") and draw(st.integers(0, 5)) == 0:
            return draw(st.sampled_from([f"isnan({column})", f"not isnan({column})"]))
        return f"{column} {form.format(draw(some), draw(some))}"

    parts = [leaf() for _ in range(draw(st.integers(1, 3)))]
    found = parts[0]
    for part in parts[1:]:
        found = f"({found}) {draw(st.sampled_from(['and', 'or']))} {draw(st.sampled_from(['', 'not ']))}({part})"
    return found


def same(left: pa.Table, right: pa.Table) -> None:
    assert left.schema == right.schema
    assert str(left.to_pydict()) == str(right.to_pydict())  # as text, where NaN is NaN


def both(data: bytes, schema: Schema, where: str, **options: Any) -> tuple[pa.Table, pa.Table]:
    """By pages, and without a look at any bound."""
    predicate = parse_where(where, schema)
    with SegmentReader(pa.BufferReader(data), schema, columns=["id"]) as reader:
        pages = reader.table(predicate=predicate, position=True, **options)
    with SegmentReader(pa.BufferReader(data), schema, columns=["id"]) as reader:
        plain = reader.table(
            expression=predicate.expression, extra_columns=predicate.columns, position=True, by_pages=False, **options
        )
    return pages, plain


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    file=st.integers(0, len(FILES) - 1),
    where=conditions(LITERALS),
    deleted=st.none() | st.sets(st.integers(0, ROWS - 1), max_size=200),
    span=st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)),
)
def test_bounds_of_pages_leave_out_no_match(
    file: int, where: str, deleted: set[int] | None, span: tuple[int, int]
) -> None:
    gone = None if deleted is None else BitMap64(deleted)
    same(*both(FILES[file], SCHEMA, where, deleted=gone))
    same(*both(FILES[file], SCHEMA, where, deleted=gone, start=min(span), stop=max(span)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(file=st.integers(0, len(FILES) - 1), where=conditions(LATER_LITERALS))
def test_bounds_of_pages_are_compared_in_the_types_of_a_later_schema(file: int, where: str) -> None:
    same(*both(FILES[file], LATER, where))


@pytest.mark.parametrize("where", ["day > timestamp '1972-02-03 00:00:00.000000001'", "day is null or id < 50"])
def test_days_are_compared_as_nanoseconds(where: str) -> None:
    same(*both(FILES[0], NANOS, where))


@contextmanager
def decoded_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The rows of each column that a read decodes."""
    found: list[int] = []
    at, groups = Decoder.at, Decoder._groups

    def spied_at(self: Decoder, positions: Any, leaves: Any) -> pa.Table:
        found.append(len(positions) * len(leaves))
        return at(self, positions, leaves)

    def spied_groups(self: Decoder, wanted: Any, leaves: Any, **options: Any) -> pa.Table:
        table = groups(self, wanted, leaves, **options)
        found.append(table.num_rows)
        return table

    with monkeypatch.context() as patch:
        patch.setattr(Decoder, "at", spied_at)
        patch.setattr(Decoder, "_groups", spied_groups)
        yield found


@pytest.mark.parametrize(
    ("where", "most"),
    [
        ("id = 1777", 33),
        ("id in (3, 1200, 2390)", 99),
        ("id between 735 and 750", 33),
        ("text = 'τext 000778'", 33),
        ("text like 'τext 00077%'", 66),
        ("at = timestamp '1970-01-01 00:10:00'", 66),
        ("uuid = '01000100-0100-0100-0100-010001000100'", 33),
        ("double > 1190", 66),
        ("real > 199.0 and small < 0", 0),
        ("double > 1190 or double < -1190", 99),
        ("isnan(double)", 0),
        ("id > 5000", 0),
    ],
)
def test_pages_whose_bounds_exclude_a_term_are_not_decoded(
    monkeypatch: pytest.MonkeyPatch, where: str, most: int
) -> None:
    predicate = parse_where(where, SCHEMA)
    with decoded_rows(monkeypatch) as found, SegmentReader(pa.BufferReader(FILES[3]), SCHEMA, columns=[]) as reader:
        rows_read = reader.table(predicate=predicate).num_rows
    assert sum(found) <= 2 * most + 2 * rows_read
    with decoded_rows(monkeypatch) as found, SegmentReader(pa.BufferReader(FILES[3]), SCHEMA, columns=[]) as reader:
        assert reader.table(predicate=predicate, by_pages=False).num_rows == rows_read
    assert not rows_read or sum(found) >= 400


def candidates(data: bytes, where: str) -> tuple[int, bool]:
    """How many rows may match, and whether that is by bounds."""
    opened = OpenedFile(pa.BufferReader(data), "the file")
    decoder = Decoder(pa.BufferReader(data), opened, verify=True, trust=False)
    predicate: Predicate = parse_where(where, SCHEMA)
    starts = zip(opened.group_starts, opened.group_rows, strict=True)
    ranges = [Range(group, start, start + count) for group, (start, count) in enumerate(starts)]
    left, positions = decoder.candidates.of(predicate.condition, SCHEMA, ranges)
    return (sum(one.stop - one.start for one in left) if positions is None else len(positions)), positions is not None


@pytest.mark.parametrize("part", ["bounds", "index"])
def test_damaged_page_indexes_are_not_used(part: str) -> None:
    where, data = "id = 1777", FILES[3]
    opened = OpenedFile(pa.BufferReader(data), "the file")
    group = next(g for g, start in enumerate(opened.group_starts) if start <= 1777 < start + opened.group_rows[g])
    start, size = getattr(opened.map.chunk(group, 0), part)
    assert candidates(data, where) == (33, True)
    for bit in range(0, size * 8, 3):
        damaged = bytearray(data)
        damaged[start + bit // 8] ^= 1 << bit % 8
        assert candidates(bytes(damaged), where)[0] >= 500, bit
        if bit % 30 == 0:
            with SegmentReader(pa.BufferReader(bytes(damaged)), SCHEMA, columns=["id"]) as reader:
                assert reader.table(predicate=parse_where(where, SCHEMA)).to_pydict() == {"id": [1777]}


def test_a_damaged_checksum_of_a_page_index_is_a_damaged_footer() -> None:
    data = bytearray(FILES[3])
    at = data.rindex(PAGES_KEY.encode()) + len(PAGES_KEY) + 5
    data[at] ^= 1
    with pytest.raises(Corrupt, match="footer"):
        SegmentReader(pa.BufferReader(bytes(data)), SCHEMA)


def without_checksums(data: bytes) -> bytes:
    """The file as it was written before there were checksums of page indexes: under that key is something else."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:].replace(PAGES_KEY.encode(), b"x" * len(PAGES_KEY))
    at = footer.rindex(CHECKSUM_KEY.encode() + b"\x18\x08") + len(CHECKSUM_KEY) + 2
    return data[:start] + sealed(footer[:at] + b"00000000" + footer[at + 8 :])


def test_files_without_checksums_of_page_indexes_are_read_whole() -> None:
    older = without_checksums(FILES[3])
    assert OpenedFile(pa.BufferReader(older), "the file").metadata.metadata[LEVEL_KEY.encode()] == b"1"
    assert candidates(older, "id = 1777") == (ROWS, False)
    with SegmentReader(pa.BufferReader(older), SCHEMA, columns=["id"]) as reader:
        assert reader.table(predicate=parse_where("id = 1777", SCHEMA)).num_rows == 1


def test_a_small_segment_has_no_checksums_of_page_indexes() -> None:
    small = stored(rows(1, "ascending").slice(0, 100), level=0, page_rows=10, group_rows=100)
    assert PAGES_KEY.encode() not in OpenedFile(pa.BufferReader(small), "the file").metadata.metadata


def test_every_column_chunk_has_a_checksum() -> None:
    opened = OpenedFile(pa.BufferReader(FILES[0]), "the file")
    text = opened.metadata.metadata[PAGES_KEY.encode()]
    assert len(text) == 8 * opened.metadata.num_columns * opened.metadata.num_row_groups
    assert isinstance(opened.map, FooterMap)


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=6)


@given(spans, spans)
def test_stretches_meet_as_sets_of_rows_do(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    def disjoint(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
        found, at = [], 0
        for gap, length in parts:
            found.append((at + gap % 7, at + gap % 7 + length))
            at = found[-1][1]
        return found

    one, other = disjoint(left), disjoint(right)
    everything = within(may_match_all(), one)
    expected = {row for a, b in one for row in range(a, b)} & {row for a, b in other for row in range(a, b)}
    assert set(within(everything, other).positions().tolist()) == expected


def may_match_all() -> Any:
    from moulin.formats.segment.page_filter import Stretches

    return Stretches(np.asarray([0]), np.asarray([10_000]))


def test_a_condition_that_holds_for_nothing_leaves_nothing() -> None:
    assert may_match(parse_where("id = 1 and id = 2", SCHEMA).condition, [(0, 10)], lambda _: [None]) is not None
