"""Rows in files of other programs: Parquet, CSV and newline-delimited JSON, batch by batch, with a table's own types.

Types are never guessed where the table tells them. Files may be compressed, as their ending says (.gz, .bz2, .zst,
.lz4). What does not fit is an InvalidInput that names the file and, where it can be told, the column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import IO, Any, Final, Literal, cast

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pyarrow.types as pt

from moulin.errors import InvalidInput
from moulin.model.columns.batching import batched
from moulin.model.rows.rows import CHUNK_ROWS, to_batches
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema

RowFormat = Literal["parquet", "csv", "ndjson"]
FORMATS: Final = ("parquet", "csv", "ndjson")
ENDINGS: Final[Mapping[str, RowFormat]] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
}
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_EMPTY = ("Empty JSON stream", "Empty CSV file")  # what pyarrow says of files without a byte
_BLOCK_BYTES: Final = 8 << 20  # a file is read in blocks, and pyarrow refuses a row that is larger than one
_CSV_BLOCKS: Final = pa_csv.ReadOptions(block_size=_BLOCK_BYTES)
_JSON_BLOCKS: Final = pa_json.ReadOptions(block_size=_BLOCK_BYTES)
_AS_THEY_ARE = (pt.is_string, pt.is_integer, pt.is_floating, pt.is_boolean)

Opener = Callable[[], Any]  # opens the file again from its start: a pyarrow file or a Python one


def checked_format(given: str) -> RowFormat:
    """The format of this name."""
    if given not in FORMATS:
        raise InvalidInput(f"Unknown format {given!r}; known are parquet, csv and ndjson.")
    return cast(RowFormat, given)


def format_of(name: str) -> RowFormat | None:
    """The format that the ending of a file's name tells, before that of a compression; None when it tells none."""
    known = [ENDINGS[suffix] for suffix in PurePosixPath(name).suffixes if suffix in ENDINGS]
    return known[-1] if known else None


def read_rows(
    name: str, kind: RowFormat, schema: Schema, opener: Opener, constants: Mapping[str, str | None] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file in batches of exactly `arrow_schema(schema)`. `name` is what errors call it.

    `constants` are columns that the file does not have, and their value, as text, in all of its rows.
    """
    try:
        inside = Schema(*(field for field in schema.fields if field.name not in (constants or {})))
        rows = _READERS[kind](name, inside, opener)
        if constants:
            values = {key: _constant(key, value, schema) for key, value in constants.items()}
            rows = (_with_constants(item, values) for item in rows)
        yield from to_batches(rows, schema)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.message}") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if str(error) in _EMPTY:
            return
        raise InvalidInput(f"{name} cannot be read as {kind}: {_reason(error, kind, schema, name, opener)}") from error


def _constant(name: str, text: str | None, schema: Schema) -> pa.Scalar:
    kind = arrow_schema(schema).field(name).type
    target = kind if _is_one(kind, (*_AS_THEY_ARE, pt.is_date)) else pa.string()
    try:
        return pa.scalar(text, pa.string()).cast(target)
    except pa.ArrowInvalid:
        raise InvalidInput(f"column {name}: {text!r}, from the folder's name, does not fit type {kind}.") from None


def _with_constants(rows: Any, values: Mapping[str, pa.Scalar]) -> Any:
    if isinstance(rows, Mapping):
        return {**rows, **{name: value.as_py() for name, value in values.items()}}
    for name, value in values.items():
        if name not in rows.schema.names:
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows


def _parquet(name: str, schema: Schema, opener: Opener) -> Iterator[pa.RecordBatch]:
    with opener() as file, pq.ParquetFile(file) as opened:
        yield from opened.iter_batches()


def _csv(name: str, schema: Schema, opener: Opener) -> Iterator[pa.RecordBatch]:
    as_they_are = (*_AS_THEY_ARE, pt.is_date)
    types = {f.name: f.type if _is_one(f.type, as_they_are) else pa.string() for f in arrow_schema(schema)}
    options = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    with _plain(name, opener) as file, pa_csv.open_csv(file, _CSV_BLOCKS, convert_options=options) as reader:
        yield from reader


def _ndjson(name: str, schema: Schema, opener: Opener) -> Iterator[Any]:
    columns = arrow_schema(schema)
    if any(_holds_map(field.type) for field in columns):  # which pyarrow does not read from JSON
        yield from _json_dicts(name, opener)
        return
    defaulted = {field.name for field in schema.fields if field.write_default is not None}  # absent is not null there
    known = pa.schema([field for field in json_columns(columns) if field.name not in defaulted])
    options = pa_json.ParseOptions(explicit_schema=known)
    with _plain(name, opener) as file, pa_json.open_json(file, _JSON_BLOCKS, options) as reader:
        for batch in reader:
            check_texts(batch)
            yield batch


def check_texts(rows: pa.RecordBatch | pa.Table) -> None:
    """Rejects rows with invalid UTF-8, which pyarrow accepts from JSON but cannot read later."""
    for field, column in zip(rows.schema, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise InvalidInput(f"column {field.name} has a text that is not UTF-8.") from None


def json_columns(schema: pa.Schema) -> list[pa.Field]:
    """The columns of a table as pyarrow reads them from JSON; without those that hold a map, which it cannot read.

    Times and others that are text in JSON stay text: pyarrow would lose the zone of a time.
    """
    return [pa.field(field.name, _json_type(field.type)) for field in schema if not _holds_map(field.type)]


def _json_dicts(name: str, opener: Opener) -> Iterator[Any]:
    with _plain(name, opener) as file:
        lines = (line for line in _lines(file) if line.strip())
        for chunk in batched(lines, CHUNK_ROWS):
            try:
                rows = [json.loads(line) for line in chunk]
            except ValueError as error:
                raise InvalidInput(f"It is not JSON, one object per line: {error}") from None
            yield from rows


def _lines(file: Any) -> Iterable[bytes]:
    if isinstance(file, pa.NativeFile):
        rest = b""
        while block := file.read(1 << 20):
            *whole, rest = (rest + block).split(b"\n")
            yield from whole
        yield rest
    else:
        yield from cast(IO[bytes], file)


def _json_type(kind: pa.DataType) -> pa.DataType:
    """How a value of a column is written in JSON; what is text there, such as a time, is converted afterwards."""
    if pt.is_struct(kind):
        return pa.struct([pa.field(field.name, _json_type(field.type)) for field in kind])
    if pt.is_list(kind):
        return pa.list_(_json_type(kind.value_type))
    return kind if _is_one(kind, (*_AS_THEY_ARE, pt.is_decimal)) else pa.string()


def _holds_map(kind: pa.DataType) -> bool:
    if pt.is_map(kind):
        return True
    if pt.is_list(kind):
        return _holds_map(kind.value_type)
    return bool(pt.is_struct(kind)) and any(_holds_map(field.type) for field in kind)


def _is_one(kind: pa.DataType, kinds: Iterable[Callable[[pa.DataType], bool]]) -> bool:
    return any(is_kind(kind) for is_kind in kinds)


def _plain(name: str, opener: Opener) -> Any:
    """The file, decompressed."""
    codec = _CODECS.get(PurePosixPath(name).suffix)
    return opener() if codec is None else pa.CompressedInputStream(opener(), codec)


def _reason(error: Exception, kind: RowFormat, schema: Schema, name: str, opener: Opener) -> str:
    """What pyarrow says, with the name of the column where it gives only its position, or nothing."""
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    said = re.sub(r"(Expected \d+ columns, got \d+): .*", r"\1", said)  # behind it is the whole line of the file
    if "straddl" in said:
        return f"a row is larger than {_BLOCK_BYTES >> 20} MiB"
    with suppress(pa.ArrowException, OSError, ValueError):  # the file may be one that cannot be read twice
        if kind == "csv" and (found := re.match(r"In CSV column #(\d+): (.*)", said)):
            texts = pa_csv.ConvertOptions(column_types={field.name: pa.string() for field in schema.fields})
            with _plain(name, opener) as file, pa_csv.open_csv(file, _CSV_BLOCKS, convert_options=texts) as reader:
                return f"column {reader.schema.names[int(found[1])]}: {found[2]}"
        if kind == "ndjson" and said.startswith("Failed to convert"):

            def read(options: pa_json.ParseOptions) -> None:
                with _plain(name, opener) as file, pa_json.open_json(file, _JSON_BLOCKS, options) as reader:
                    for _ in reader:
                        pass

            culprit = json_culprit(json_columns(arrow_schema(schema)), read)
            return said if culprit is None else f"column {culprit}: {said}"
    return said


def json_culprit(columns: Iterable[pa.Field], read: Callable[[pa_json.ParseOptions], object]) -> str | None:
    """The first of these columns that cannot be read by itself; pyarrow does not name it."""
    for field in columns:
        alone = pa_json.ParseOptions(explicit_schema=pa.schema([field]), unexpected_field_behavior="ignore")
        try:
            read(alone)
        except pa.ArrowException:
            return str(field.name)
    return None


_READERS: Mapping[RowFormat, Callable[[str, Schema, Opener], Iterator[Any]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "ndjson": _ndjson,
}
