"""Checks data and delete files against their manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from moulin.errors import MoulinError
from moulin.formats import deletion_vector
from moulin.formats.position_deletes import FILE_PATH_ID, POS_ID
from moulin.formats.puffin import DELETION_VECTOR, read_puffin_footer
from moulin.iceberg.check.metadata import Finding
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.pyiceberg_values import read_schema
from moulin.model.layout.bounds import bound_from_bytes, bound_to_bytes
from moulin.model.rows.leaf_arrays import count_nans, value_range
from moulin.model.schema.arrow import field_id
from moulin.model.schema.values import DateType, IcebergType, PrimitiveType


def check_data_file(files: Files, metadata: Json, record: Json, schema_id: int | None) -> Iterator[Finding]:
    """A Parquet data file: size, rows, field ids, counts and bounds of its columns. Other formats are not read.

    `schema_id` names the schema in whose types bounds must be readable; None: the current one.
    """
    where = record["file_path"]
    try:
        data = files.read(where)
    except MoulinError as error:
        yield Finding("a data file exists", where, error.message)
        return
    yield from _size(record, data)
    if str(record["file_format"]).upper() != "PARQUET":
        return
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if file.metadata.num_rows != record["record_count"]:
            found = f"{record['record_count']}, the file has {file.metadata.num_rows}"
            yield Finding("record_count is the file's", where, found)
        bare = [field.name for field in file.schema_arrow if field_id(field) is None]
        if bare and "schema.name-mapping.default" not in (metadata.get("properties") or {}):
            yield Finding("columns carry field ids, or there is a name mapping", where, ", ".join(bare))
        types = _types(metadata, schema_id)
        for field in file.schema_arrow:
            number = field_id(field)
            if number is not None and not pt.is_nested(field.type):
                column = file.read(columns=[field.name]).column(0)
                yield from _column(where, record, number, field.name, column, types.get(number))
    except (pa.ArrowInvalid, OSError) as error:
        yield Finding("a data file is readable", where, str(error).splitlines()[0])


def _types(metadata: Json, schema_id: int | None) -> dict[int, IcebergType]:
    """The type of each field, in the schema of this id (None: the current one) or in the newest that had it."""
    found: dict[int, IcebergType] = {}
    current = metadata.get("current-schema-id") if schema_id is None else schema_id
    schemas = sorted(
        metadata.get("schemas") or [], key=lambda s: (s.get("schema-id") == current, s.get("schema-id", 0))
    )
    for document in schemas:
        schema = read_schema(document)
        found.update({number: schema.find_type(number) for number in schema.field_ids})
    return found


def _column(
    where: str, record: Json, number: int, name: str, column: pa.ChunkedArray, kind: IcebergType | None
) -> Iterator[Finding]:
    address = f"{where} column {name}"
    for figure, found in (
        ("value_counts", len(column)),
        ("null_value_counts", column.null_count),
        ("nan_value_counts", count_nans(column)),
    ):
        stated = _of(record, figure).get(number)
        if stated is not None and stated != found:
            yield Finding("counts are those of the data", address, f"{figure} {stated}, not {found}")
    lower, upper = _of(record, "lower_bounds").get(number), _of(record, "upper_bounds").get(number)
    if (lower is None and upper is None) or not isinstance(kind, PrimitiveType):
        return
    least, most = value_range(column)
    try:
        if pt.is_date(column.type) and not isinstance(kind, DateType):  # days of what became a timestamp
            least, most = (None if day is None else _widened(kind, day) for day in (least, most))
        if lower is not None and least is not None and bound_from_bytes(kind, lower) > least:
            yield Finding("bounds hold for the data", address, f"lower {bound_from_bytes(kind, lower)!r} > {least!r}")
        if upper is not None and most is not None and bound_from_bytes(kind, upper) < most:
            yield Finding("bounds hold for the data", address, f"upper {bound_from_bytes(kind, upper)!r} < {most!r}")
    except (MoulinError, TypeError) as error:
        yield Finding("bounds are values of their type", address, str(error))


def _widened(kind: PrimitiveType, day: int) -> Any:
    return bound_from_bytes(kind, bound_to_bytes(DateType(), day))


def _of(record: Json, name: str) -> dict[int, Any]:
    pairs = record.get(name) or []
    return {pair["key"]: pair["value"] for pair in pairs}


def _size(record: Json, data: bytes) -> Iterator[Finding]:
    if len(data) != record["file_size_in_bytes"]:
        found = f"{record['file_size_in_bytes']}, the file has {len(data)}"
        yield Finding("file_size_in_bytes is the file's", record["file_path"], found)


def check_delete_file(files: Files, record: Json, rows: Mapping[str, int]) -> Iterator[Finding]:
    """A deletion vector or a position-delete file; `rows` are those of each live data file."""
    where = record["file_path"]
    try:
        data = files.read(where)
    except MoulinError as error:
        yield Finding("a delete file exists", where, error.message)
        return
    yield from _size(record, data)
    if str(record["file_format"]).upper() == "PUFFIN":
        yield from _vector(record, data, rows)
    elif str(record["file_format"]).upper() == "PARQUET" and record["content"] == 1:
        try:
            yield from _positions(record, data, rows)
        except (pa.ArrowInvalid, OSError) as error:
            yield Finding("a delete file is readable", where, str(error).splitlines()[0])


def _vector(record: Json, data: bytes, rows: Mapping[str, int]) -> Iterator[Finding]:
    where, target = record["file_path"], record.get("referenced_data_file")
    offset, length = record.get("content_offset"), record.get("content_size_in_bytes")
    if offset is None or length is None or target is None:
        return  # already reported for the manifest
    address = f"{where} at {offset}"
    try:
        footer = read_puffin_footer(data, source=where)
    except MoulinError as error:
        yield Finding("a Puffin file is readable", where, error.message)
        return
    blob = next((one for one in footer.blobs if (one.offset, one.length) == (offset, length)), None)
    if blob is None:
        extents = ", ".join(f"{one.offset}+{one.length}" for one in footer.blobs)
        yield Finding("offset and length are those of a blob", address, f"{offset}+{length}, there are {extents}")
    elif blob.type != DELETION_VECTOR or blob.compression_codec is not None:
        yield Finding("the blob is a deletion vector", address, f"{blob.type} {blob.compression_codec or ''}")
    elif blob.properties.get("referenced-data-file") != target:
        yield Finding("blob and manifest name one data file", address, str(blob.properties.get("referenced-data-file")))
    elif blob.properties.get("cardinality") != str(record["record_count"]):
        yield Finding("blob and manifest have one cardinality", address, str(blob.properties.get("cardinality")))
    try:
        positions = deletion_vector.decode(data[offset : offset + length], rows=rows.get(target), source=address)
    except MoulinError as error:
        yield Finding("a deletion vector is well-formed", address, error.message)
        return
    if len(positions) != record["record_count"]:
        yield Finding("record_count is the cardinality", address, f"{record['record_count']}, not {len(positions)}")


def _positions(record: Json, data: bytes, rows: Mapping[str, int]) -> Iterator[Finding]:
    where = record["file_path"]
    table = pq.read_table(pa.BufferReader(data))
    columns = {field_id(field): field.name for field in table.schema}
    if FILE_PATH_ID not in columns or POS_ID not in columns:
        yield Finding("position deletes have file_path and pos", where, f"field ids {sorted(map(str, columns))}")
        return
    if table.num_rows != record["record_count"]:
        yield Finding("record_count is the file's", where, f"{record['record_count']}, the file has {table.num_rows}")
    order = [(columns[FILE_PATH_ID], "ascending"), (columns[POS_ID], "ascending")]
    if not table.take(pc.sort_indices(table, sort_keys=order)).equals(table):
        yield Finding("position deletes are sorted", where, "they are not")
    names, positions = table[columns[FILE_PATH_ID]], table[columns[POS_ID]]
    target = record.get("referenced_data_file")
    for name in pc.unique(names).to_pylist():
        if target is not None and name != target:
            yield Finding("a file-scoped delete names one file", where, f"{name}, not {target}")
        last = pc.max(positions.filter(pc.equal(names, name))).as_py()
        if name in rows and last >= rows[name]:
            yield Finding("positions are rows of the data file", where, f"{last} of {rows[name]} rows")
