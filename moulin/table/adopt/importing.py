"""Creates a table from an Iceberg or Delta table or a folder of Parquet files in place. Lance tables are copied."""

# Decisions: docs/decisions/0434, docs/decisions/0480, docs/decisions/0610

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from moulin.catalog.objects.new_table import FirstRows, foreseen
from moulin.errors import AlreadyExists, InvalidInput, NotFound, Unsupported
from moulin.formats.segment.footer import read_footer_bytes
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.model.ids import new_id
from moulin.model.key.key import with_key
from moulin.model.layout.partition import PartitionTuple
from moulin.model.layout.sort import parse_sort
from moulin.model.names import full_name
from moulin.model.region_spec import RegionSpec
from moulin.model.schema.arrow_reader import columns_from_arrow
from moulin.table.adopt.adopt import read_segments
from moulin.table.adopt.delta import LOG, read_delta
from moulin.table.adopt.files import find_files, folder_of
from moulin.table.adopt.footers import FoundFile
from moulin.table.adopt.iceberg_table import newest_metadata, read_iceberg
from moulin.table.adopt.imported import Imported, Place
from moulin.table.adopt.keys import KeyedFiles
from moulin.table.bulk.drafts import Drafts
from moulin.table.bulk.writer import BulkPlan, RegionRun
from moulin.table.commit.vectors import VectorTarget, write_vectors
from moulin.table.context import Context
from moulin.table.creation import create, new_table
from moulin.table.write.layout import Layout
from moulin.table.write.upsert import UpsertDraft

FORMATS: Final = ("iceberg", "delta", "parquet", "lance")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def import_table(
    context: Context,
    source: str | os.PathLike[str],
    database: str,
    name: str,
    *,
    format: str | None = None,
    partition_by: Iterable[str] | None = None,
    primary_key: Sequence[str] = (),
) -> TableState:
    """Make a table of the newest version of a foreign one; see `Lake.import_table`."""
    if format is not None and format not in FORMATS:
        raise InvalidInput(f"A table can be imported from {', '.join(FORMATS)}, not from {format!r}.")
    if any(entry.name == name for entry in context.catalog.tables(database)):
        raise AlreadyExists(f"Table {full_name(database, name)} already exists.")
    text = os.fspath(source)
    if format == "lance" or (format is None and text.rstrip("/").endswith(".lance")):
        return _copy_lance(context, text, database, name, partition_by, primary_key)
    found = _read(context, text, format, partition_by)
    new = replace(found.new, id=new_id())
    if primary_key:
        schema = with_key(new.schema, primary_key)
        new = replace(new, schema=schema, sort_order=parse_sort(list(primary_key), schema))
    state = foreseen(new, database, name)
    first = _first_rows(context, state, found)
    with context.catalog.writing():
        made = context.catalog.create_table(database, name, new, first)
    if first is not None and first.vectors:
        _require_vectors(context, made, first)
    return made


def _first_rows(context: Context, state: TableState, found: Imported) -> FirstRows | None:
    """The files as segments, with vectors over their deleted rows. Files of which no row is left are left out."""
    added, targets = list[SegmentFacts](), dict[int, VectorTarget]()
    for facts in _segments(context, state, found):
        positions = found.deleted.get(facts.path)
        if positions and positions.max() >= facts.rows:
            raise InvalidInput(f"Row {positions.max()} of {facts.path} is deleted, but the file has {facts.rows} rows.")
        if positions and len(positions) == facts.rows:
            continue
        added.append(facts)
        if positions:
            targets[facts.number] = VectorTarget(facts, positions)
    regions: dict[PartitionTuple, int] = {(): 0} if state.schema.identifier_field_ids else {}
    return FirstRows(tuple(added), regions, write_vectors(context.store, state.id, targets)) if added else None


def _segments(context: Context, state: TableState, found: Imported) -> list[SegmentFacts]:
    """The files as segments. Of a keyed table, a key is in one row that counts, of all files."""
    if not state.schema.identifier_field_ids:
        return [one.facts for one in read_segments(context, state, found.files, by=found.by, extra="ignore")]
    spec = RegionSpec.of(state.schema, state.properties)
    keyed = KeyedFiles(spec, dict(found.deleted))
    segments = read_segments(context, state, found.files, by=found.by, extra="ignore", keyed=keyed)
    plan = BulkPlan(
        context.store, Layout.of(state), state.schema, spec, {(): 0}, (), context.config.append_segment_bytes
    )
    runs = [RegionRun(one.region, UpsertDraft([one.facts])) for one in segments]
    drafts = Drafts.numbered(context, plan, runs, lambda _: 0)
    return [facts for draft in drafts.by_region.values() for facts in draft.added]


def _require_vectors(context: Context, made: TableState, first: FirstRows) -> None:
    """A server of an older release makes the table without its vectors: rows would be back that were deleted."""
    known = {one.facts.number for one in context.catalog.segments(made.id, made.created_version) if one.vector}
    if not known >= first.vectors.keys():
        context.catalog.drop_table(made.database, made.name, immediate=True)
        raise Unsupported(
            "The server cannot create tables with deleted rows: upgrade its moulin, or rewrite the data "
            "files of the source first."
        )


def _read(context: Context, text: str, kind: str | None, partition_by: Iterable[str] | None) -> Imported:
    name = None
    if text.endswith(".metadata.json"):
        folder, _, file = text.rpartition("/")
        text, _, inner = folder.rpartition("/")
        name, kind = f"{inner}/{file}", "iceberg"
    place = Place(context, *folder_of(context, text))
    if kind == "iceberg" or (kind is None and newest_metadata(place) is not None):
        return read_iceberg(place, partition_by, name)
    if kind == "delta" or (kind is None and place.names(LOG)):
        return read_delta(place, partition_by)
    return _read_folder(place, text, partition_by)


def _read_folder(place: Place, text: str, partition_by: Iterable[str] | None) -> Imported:
    """A folder of Parquet files: the columns of its first file, and those that its paths name."""
    files = find_files(place.context, text, columns=(), hive=True)
    columns, _ = columns_from_arrow(_arrow_schema(place.context, files[0]))
    known = {column.name for column in columns}
    values = _path_columns(files)
    paths = [(name, kind) for name, kind in values.items() if name not in known]
    spec = [*((c.name, c.field_type, not c.required) for c in columns), *((name, kind, True) for name, kind in paths)]
    chosen = [name for name, _ in paths] if partition_by is None else list(partition_by)
    return Imported(new_table(spec, partition_by=chosen), files, "name")


def _arrow_schema(context: Context, file: FoundFile) -> pa.Schema:
    with context.store.reader(file.address, file.size) as source:
        read_footer_bytes(source, file.address)  # says what is wrong with it
        return pq.ParquetFile(source, arrow_extensions_enabled=True).schema_arrow.remove_metadata()


def _path_columns(files: Iterable[FoundFile]) -> dict[str, str]:
    """The columns that paths name: whole numbers, dates, or else text, by all values."""
    seen: dict[str, set[str]] = {}
    for file in files:
        for name, value in file.values:
            seen.setdefault(name, set()).update(() if value is None else (value,))
    return {name: _kind(values) for name, values in seen.items()}


def _kind(values: Iterable[str]) -> str:
    values = list(values)
    if values and all(_WHOLE.fullmatch(value) and str(int(value)) == value for value in values):
        return "long"
    return "date" if values and all(map(_DATE.fullmatch, values)) else "string"


def _copy_lance(
    context: Context,
    text: str,
    database: str,
    name: str,
    partition_by: Iterable[str] | None,
    primary_key: Sequence[str],
) -> TableState:
    """Lance files are not Parquet: their rows are copied, through Arrow."""
    try:
        import lance
    except ModuleNotFoundError:
        raise Unsupported(
            "A Lance table is copied with its own library: pip install pylance, or append what it reads as Arrow."
        ) from None
    try:
        dataset: Any = lance.dataset(text)
    except ValueError as error:
        raise NotFound(f"{text} is not a Lance table: {str(error).splitlines()[0]}") from None
    new = new_table(dataset.schema, primary_key=primary_key, partition_by=list(partition_by or ()))
    return create(context, database, name, new, dataset.scanner().to_reader())[0]


__all__ = ["FORMATS", "import_table"]
