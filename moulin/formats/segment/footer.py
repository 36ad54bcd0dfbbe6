"""What the footer of a Parquet file tells of its columns, as facts by field id. Files of other engines are welcome."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from moulin.errors import Corrupt, InvalidInput
from moulin.model.facts import ColumnFacts
from moulin.model.layout.bounds import lower_bound, upper_bound
from moulin.model.schema.arrow import LAST_UPDATED_SEQUENCE_FIELD_ID, STORED_POSITION, STORED_POSITION_FIELD_ID, leaves
from moulin.model.schema.single_value import unscaled_to_bytes
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    Schema,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

CHECKSUM_KEY = "moulin.footer_crc32"
"""Footer key of the footer's own CRC32, as eight hex digits, taken while its value was `NO_CHECKSUM`."""

NO_CHECKSUM = "00000000"
SCHEMA_KEY = "iceberg.schema"
LEVEL_KEY = "moulin.level"
RESTORE = "Restore the file from a copy; `moulin check` finds all that are damaged."

_FIRST_READ = 64 << 10
_MAGIC = b"PAR1"
_TAIL = 8
# The key, and how Thrift announces a value of eight characters.
_CHECKSUM_MARK = CHECKSUM_KEY.encode() + b"\x18\x08"

_DAY_NS = 86_400 * 10**9
_UNIT_NS = {"milliseconds": 10**6, "microseconds": 1000, "nanoseconds": 1}
_TYPE_NS: Mapping[type[Any], int] = {
    DateType: _DAY_NS,
    TimeType: 1000,
    TimestampType: 1000,
    TimestamptzType: 1000,
    TimestampNanoType: 1,
    TimestamptzNanoType: 1,
}
_INTEGERS = ("INT32", "INT64")
# Physical types whose statistics have the bytes of a bound of these types.
_SAME: Mapping[type[Any], str] = {
    IntegerType: "INT32",
    DateType: "INT32",
    LongType: "INT64",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
}
_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


def sealed(end: bytes) -> bytes:
    """The last bytes of a Parquet file, whole footer included, with the footer's checksum filled in."""
    start = len(end) - _TAIL - int.from_bytes(end[-_TAIL:-4], "little")
    at = end.rindex(_CHECKSUM_MARK, start) + len(_CHECKSUM_MARK)
    checksum = f"{zlib.crc32(end[start:-_TAIL]):08x}".encode()
    return end[:at] + checksum + end[at + len(checksum) :]


def read_footer(source: pa.NativeFile, name: str) -> pq.FileMetaData:
    """The footer of a Parquet file, as of `read_whole_footer`."""
    return read_whole_footer(source, name)[1]


def read_whole_footer(source: pa.NativeFile, name: str) -> tuple[bytes, pq.FileMetaData]:
    """The footer of a Parquet file, as bytes and decoded. Raises Corrupt, naming the file, when it is damaged."""
    footer, is_sealed = read_footer_bytes(source, name)
    return footer, decode_footer(footer, name, is_sealed=is_sealed)


def read_footer_bytes(source: pa.NativeFile, name: str) -> tuple[bytes, bool]:
    """The bytes of a footer, and whether it is sealed: it has a checksum, which is right.

    Every byte of the footer of a segment is covered by its checksum; files of other engines have none. Raises Corrupt,
    naming the file, when the checksum is wrong or the file does not end like a Parquet file.
    """
    size = source.size()
    guess = min(size, _FIRST_READ)
    end = source.read_at(guess, size - guess)
    if len(end) < _TAIL + 4 or end[-4:] != _MAGIC:
        raise Corrupt(f"{name} is damaged: it does not end like a Parquet file. {RESTORE}")
    length = int.from_bytes(end[-_TAIL:-4], "little") + _TAIL
    if length + 4 > size:
        raise Corrupt(f"{name} is damaged: its footer would be {length} bytes long, the file has {size}. {RESTORE}")
    if length > len(end):
        end = source.read_at(length, size - length)
    footer = end[-length:-_TAIL]
    return footer, _check(footer, name)


def decode_footer(footer: bytes, name: str, *, is_sealed: bool) -> pq.FileMetaData:
    """The footer that `read_footer_bytes` read, decoded."""
    tail = len(footer).to_bytes(4, "little") + _MAGIC
    metadata = pq.read_metadata(pa.BufferReader(_MAGIC + footer + tail))
    if LEVEL_KEY.encode() in (metadata.metadata or {}) and not is_sealed:
        raise Corrupt(f"{name} is damaged: its footer has lost its checksum. {RESTORE}")
    return metadata


def _check(footer: bytes, name: str) -> bool:
    """Whether there is a checksum. The last mark counts: it follows the statistics, which hold users' text."""
    at = footer.rfind(_CHECKSUM_MARK) + len(_CHECKSUM_MARK)
    if at < len(_CHECKSUM_MARK):
        return False
    stored = footer[at : at + len(NO_CHECKSUM)]
    found = f"{zlib.crc32(footer[:at] + NO_CHECKSUM.encode() + footer[at + len(stored) :]):08x}".encode()
    if stored != found:
        raise Corrupt(f"{name} is damaged: its footer has CRC32 {found!r} where {stored!r} is stored. {RESTORE}")
    return True


@dataclass(frozen=True, slots=True)
class FloatFacts:
    """What the writer of a row group knows of a float or double leaf: values that are not null, those of them that are
    NaN, and the least and the greatest of the others, None when there are none."""

    known: int
    nans: int
    ends: tuple[float, float] | None


def footer_facts(
    metadata: pq.FileMetaData, schema: Schema, *, floats: Mapping[int, Sequence[FloatFacts | None]] | None = None
) -> tuple[ColumnFacts, ...]:
    """Facts of the leaf columns that the file and `schema` share, in the file's order; bounds in the types of `schema`.

    A footer does not count NaN, and has no statistics of a column that holds some: `floats` gives, by field id, the
    facts of each row group, or None for a row group without NaN. Without it, floating bounds are None unless every row
    group has them. A column whose nulls are not counted is left out.
    """
    return column_facts(metadata, footer_columns(metadata, schema), floats or {})


def column_facts(
    metadata: pq.FileMetaData, columns: Mapping[int, FooterColumn], floats: Mapping[int, Sequence[FloatFacts | None]]
) -> tuple[ColumnFacts, ...]:
    """Facts of these columns of a file, as of `footer_facts`."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    found = (column.facts(groups, floats.get(number)) for number, column in columns.items())
    return tuple(facts for facts in found if facts is not None)


def sequence_range(metadata: pq.FileMetaData) -> tuple[int | None, int | None]:
    """The least and the greatest `_last_updated_sequence_number` that the file stores; None when it stores none."""
    for leaf in leaves(metadata.schema.to_arrow_schema()):
        if leaf.field_id == LAST_UPDATED_SEQUENCE_FIELD_ID:
            chunks = (metadata.row_group(group).column(leaf.index) for group in range(metadata.num_row_groups))
            known = [chunk.statistics for chunk in chunks if chunk.is_stats_set and chunk.statistics.has_min_max]
            if known:
                return min(found.min_raw for found in known), max(found.max_raw for found in known)
    return None, None


def stores_positions(metadata: pq.FileMetaData) -> bool:
    """Whether the file has the column of positions that segments from level 1 on have."""
    found = leaves(metadata.schema.to_arrow_schema())
    return any(leaf.field_id == STORED_POSITION_FIELD_ID for leaf in found)


def check_level(metadata: pq.FileMetaData, level: int, name: str) -> None:
    """Refuses a file for a level whose segments have a column that it lacks."""
    if level > 0 and not stores_positions(metadata):
        raise InvalidInput(
            f"{name} cannot be of level {level}: it lacks the column {STORED_POSITION} that segments from level 1 on "
            "end with (docs/formats/segment.md)."
        )


def split_offsets(metadata: pq.FileMetaData) -> tuple[int, ...]:
    """Where each row group starts in the file, ascending."""
    return tuple(_start(metadata.row_group(group).column(0)) for group in range(metadata.num_row_groups))


def footer_columns(metadata: pq.FileMetaData, schema: Schema) -> dict[int, FooterColumn]:
    """The leaf columns that the file and `schema` share, by field id, in the file's order."""
    found: dict[int, FooterColumn] = {}
    stored = leaves(metadata.schema.to_arrow_schema())
    if len(stored) != metadata.num_columns:
        return found
    for leaf in stored:
        kind = None if leaf.field_id is None else _type_of(schema, leaf.field_id)
        if leaf.field_id is not None and kind is not None:
            column = metadata.schema.column(leaf.index)
            bounds = None if leaf.repeated else _bounds(column, kind)
            found[leaf.field_id] = FooterColumn(
                leaf.index,
                leaf.field_id,
                isinstance(kind, FloatType | DoubleType),
                column.max_definition_level > 0,
                bounds,
            )
    return found


class GroupFacts(Mapping[int, ColumnFacts]):
    """Facts of one row group by field id, read from the footer when they are asked for."""

    def __init__(self, columns: Mapping[int, FooterColumn], group: pq.RowGroupMetaData) -> None:
        self._columns = columns
        self._group = group

    def __getitem__(self, number: int) -> ColumnFacts:
        facts = self._columns[number].facts([self._group])
        if facts is None:
            raise KeyError(number)
        return facts

    def __iter__(self) -> Iterator[int]:
        return (number for number in self._columns if number in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class StoredAs(Enum):
    """How the bytes of a statistic become those of a bound, where that is known without decoding them."""

    BOUND = "they are the same"
    FLOAT = "they are the same, unless it is zero or NaN"
    TEXT = "they are the same, if they are few and ASCII"
    OTHER = "they are decoded"


@dataclass(frozen=True, slots=True)
class _Bounds:
    """How statistics become bounds: `value` gives what can be compared, None if it tells nothing."""

    value: Callable[[Any], Any]
    lower: Callable[[Any], bytes | None]
    upper: Callable[[Any], bytes | None]
    stored_as: StoredAs = StoredAs.OTHER


@dataclass(frozen=True, slots=True)
class FooterColumn:
    """A leaf column of a file: `index` is its position among the file's leaves."""

    index: int
    field_id: int
    floating: bool
    optional: bool
    bounds: _Bounds | None

    def facts(
        self, groups: Sequence[pq.RowGroupMetaData], floats: Sequence[FloatFacts | None] | None = None
    ) -> ColumnFacts | None:
        """Facts over some row groups; `floats` are those of each, as for `footer_facts`. None when nulls are not
        counted."""
        if floats is None and len(groups) == 1:
            return self._of_chunk(groups[0].column(self.index))
        values = nulls = nans = size = 0
        ends: list[tuple[Any, Any]] = []
        known = self.bounds is not None
        for index, group in enumerate(groups):
            chunk = group.column(self.index)
            own = floats[index] if floats else None
            missing, found = self._of_footer(chunk) if own is None else (chunk.num_values - own.known, own.ends)
            if missing is None:
                return None
            not_numbers = 0 if own is None else own.nans
            values, nulls, nans = values + chunk.num_values, nulls + missing, nans + not_numbers
            size += chunk.total_compressed_size
            if known and missing + not_numbers < chunk.num_values:
                known = found is not None
                ends += [found] if found is not None else []
        lower = upper = None
        if self.bounds is not None and known and ends:
            lower = self.bounds.lower(min(low for low, _ in ends))
            upper = self.bounds.upper(max(high for _, high in ends))
        counted = nans if self.floating and floats is not None else None
        return ColumnFacts(self.field_id, values, nulls, counted, size, lower, upper)

    def _of_chunk(self, chunk: pq.ColumnChunkMetaData) -> ColumnFacts | None:
        missing, found = self._of_footer(chunk)
        if missing is None:
            return None
        values, lower, upper = chunk.num_values, None, None
        if self.bounds is not None and found is not None and missing < values:
            lower, upper = self.bounds.lower(found[0]), self.bounds.upper(found[1])
        return ColumnFacts(self.field_id, values, missing, None, chunk.total_compressed_size, lower, upper)

    def _of_footer(self, chunk: pq.ColumnChunkMetaData) -> tuple[int | None, tuple[Any, Any] | None]:
        """How many nulls a chunk has, None when they are not counted, and its least and greatest value, if known."""
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is None or not statistics.has_null_count:
            return (None if self.optional else 0), self._ends(statistics)
        return statistics.null_count, self._ends(statistics)

    def _ends(self, statistics: pq.Statistics | None) -> tuple[Any, Any] | None:
        if self.bounds is None or statistics is None or not statistics.has_min_max:
            return None
        low, high = self.bounds.value(statistics.min_raw), self.bounds.value(statistics.max_raw)
        return None if low is None or high is None else (low, high)


def _type_of(schema: Schema, number: int) -> PrimitiveType | None:
    try:
        kind = schema.find_field(number).field_type
    except ValueError:
        return None
    return kind if isinstance(kind, PrimitiveType) else None


def _bounds(column: pq.ColumnSchema, kind: PrimitiveType) -> _Bounds | None:
    """How the statistics of a stored column become bounds of type `kind`; None when they cannot."""
    physical, logical = column.physical_type, json.loads(column.logical_type.to_json())
    whole = _Bounds(_itself, partial(lower_bound, kind), partial(upper_bound, kind))
    match kind:
        case BooleanType() if physical == "BOOLEAN":
            return whole
        case IntegerType() | LongType() if physical in _INTEGERS and logical.get("isSigned", True):
            return replace(whole, stored_as=StoredAs.BOUND) if physical == _SAME[type(kind)] else whole
        case FloatType() | DoubleType() if physical in ("FLOAT", "DOUBLE"):
            form = StoredAs.FLOAT if physical == _SAME[type(kind)] else StoredAs.OTHER
            return _Bounds(_not_nan, whole.lower, whole.upper, form)
        case UUIDType() | FixedType() | BinaryType() if physical in _BYTES:
            return whole
        case StringType() if physical in _BYTES:
            return _Bounds(_itself, partial(_text, whole.lower), partial(_text, whole.upper), StoredAs.TEXT)
        case DecimalType() if logical["Type"] == "Decimal" and logical["scale"] == kind.scale:
            return _Bounds(_unscaled, unscaled_to_bytes, unscaled_to_bytes)
    stored = _DAY_NS if logical["Type"] == "Date" else _UNIT_NS.get(logical.get("timeUnit", ""))
    wanted = _TYPE_NS.get(type(kind))
    if stored is None or wanted is None or physical not in _INTEGERS:
        return None
    same = stored == wanted and physical == _SAME.get(type(kind), "INT64")
    return _Bounds(
        _itself,
        lambda value: _fitting(whole.lower, value * stored // wanted),
        lambda value: _fitting(whole.upper, -(-value * stored // wanted)),
        StoredAs.BOUND if same else StoredAs.OTHER,
    )


def time_ratio(logical: Mapping[str, Any], kind: IcebergType) -> int | None:
    """How many units of the type `kind` are one of a stored column; None if that is not a whole number. 1 for what is
    no time."""
    wanted = _TYPE_NS.get(type(kind))
    if wanted is None:
        return 1
    stored = _DAY_NS if logical["Type"] == "Date" else _UNIT_NS.get(logical.get("timeUnit", ""))
    return None if stored is None or stored % wanted else stored // wanted


def _itself(value: Any) -> Any:
    return value


def _not_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _unscaled(value: int | bytes) -> int:
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value


def _text(bound: Callable[[Any], bytes | None], value: bytes) -> bytes | None:
    """None for text cut off by an engine in the middle of a character."""
    try:
        return bound(value.decode())
    except UnicodeDecodeError:
        return None


def _fitting(bound: Callable[[Any], bytes | None], value: int) -> bytes | None:
    """None for an instant that the type cannot hold."""
    try:
        return bound(value)
    except InvalidInput:
        return None


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    dictionary = chunk.dictionary_page_offset
    return int(chunk.data_page_offset if dictionary is None else min(dictionary, chunk.data_page_offset))
