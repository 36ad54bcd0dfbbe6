"""Converts footers of files to facts of segments: the slice of an adoption. Reads no rows except the keys of a keyed
table, unless a footer lacks required statistics.
"""

# Decisions: docs/decisions/0431, docs/decisions/0481, docs/decisions/0610

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from moulin.errors import Corrupt, InvalidInput, MoulinError, NotFound
from moulin.formats.segment.footer import (
    FooterColumn,
    column_facts,
    decode_footer,
    footer_columns,
    read_footer_bytes,
    split_offsets,
)
from moulin.formats.segment.foreign import elements_of, hidden_keys, numbered, schema_end, with_hidden
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns.batching import batched
from moulin.model.facts import AdoptedFile, ColumnFacts, SegmentFacts
from moulin.model.layout.bounds import time_range_ns
from moulin.model.layout.partition import PartitionTuple
from moulin.model.schema.defaults import default_value
from moulin.model.schema.values import NestedField, PrimitiveType, Schema
from moulin.storage.store import Store
from moulin.table.adopt.columns import Matched, TableColumns, match_columns
from moulin.table.adopt.keys import AdoptedSegment, KeyedFiles, index_keys
from moulin.table.adopt.partition import constant, constant_facts, constant_of, partition_of
from moulin.table.write.layout import Layout

_THREADS = 16  # for an object store, whose answers are waited for
_TOGETHER = 32  # files that one thread looks at before it takes the next ones
_EVER = (-(2**63) + 1, 2**63 - 1)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to adopt: its address in the lake, what its store says of it, and values that its path names.

    `path` is relative to the base path. `number` is that of its segment.
    """

    address: str
    path: str
    size: int
    modified_ns: int
    etag: str
    values: tuple[tuple[str, str | None], ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class AdoptSlice:
    """Files to look at. Sent to tasks of Spark."""

    store: Store
    layout: Layout
    table: TableColumns
    files: tuple[FoundFile, ...]
    keyed: KeyedFiles | None = None


def adopt_slice(work: AdoptSlice) -> list[AdoptedSegment]:
    """The segments of the files that have rows. An error names the file."""
    kernel = _Kernel(work)
    blocks = list(batched(work.files, _TOGETHER))
    threads = min(_threads(work), len(blocks))
    if threads == 1:
        return [found for file in work.files if (found := kernel.look(file)) is not None]
    with ThreadPoolExecutor(threads, thread_name_prefix="moulin-adopt") as pool:
        looked = pool.map(lambda block: [kernel.look(file) for file in block], blocks)
        return [found for block in looked for found in block if found is not None]


def _threads(work: AdoptSlice) -> int:
    """More than two would only wait for one another where the files lie in a folder."""
    near = bool(work.files) and work.store.local_path(work.files[0].address) is not None
    return min(2, os.cpu_count() or 1) if near else _THREADS


@dataclass(frozen=True, slots=True)
class _Plan:
    """What files have in common whose footers begin with `start`: the same with field ids, and what was matched."""

    start: bytes
    numbered: bytes
    matched: Matched
    columns: Mapping[int, FooterColumn]


class _Kernel:
    """What files of one schema have in common is found once. Used by several threads: what they find is the same."""

    def __init__(self, work: AdoptSlice) -> None:
        self._work, self._schema = work, work.layout.schema
        self._plans: dict[frozenset[str], list[_Plan]] = {}

    def look(self, file: FoundFile) -> AdoptedSegment | None:
        try:
            return self._look(file)
        except NotFound:
            raise NotFound(f"{file.address} no longer exists: adopt only files that are not being changed.") from None
        except MoulinError:
            raise
        except (pa.ArrowException, OSError, ValueError, IndexError) as error:
            raise Corrupt(f"{file.address} is not a readable Parquet file: {_first_line(error)}.") from None

    def _look(self, file: FoundFile) -> AdoptedSegment | None:
        etag = file.etag
        try:
            source = self._work.store.reader(file.address, file.size, etag)
        except Corrupt:  # a store that spells ETags otherwise in lists: then they tell nothing
            source, etag = self._work.store.reader(file.address, file.size), ""
        with source:
            footer, _ = read_footer_bytes(source, file.address)
        plan = self._plan(footer, file)
        told = decode_footer(plan.numbered + footer[len(plan.start) :], file.address, is_sealed=True)
        if told.num_rows == 0:
            return None
        matched = plan.matched
        constants = self._constants(matched.missing, file)
        adopted = AdoptedFile(
            self._work.layout.table_id,
            matched.field_ids,
            tuple(sorted((number, value) for number, value in constants.items())),
            file.modified_ns,
            etag,
            hidden_keys(footer, told.metadata),
            matched.other_ids,
        )
        facts = self._facts(file, footer, told, adopted, plan)
        if self._work.keyed is None:
            return AdoptedSegment(facts)
        read = partial(self._read, facts)
        return index_keys(self._work.store, self._work.layout, self._work.keyed, facts, read)

    def _plan(self, footer: bytes, file: FoundFile) -> _Plan:
        """How files of this schema, and with values of these names in their paths, are read."""
        given = frozenset(name for name, _ in file.values)
        for plan in self._plans.get(given, ()):
            if footer.startswith(plan.start):
                return plan
        start = footer[: schema_end(footer)]
        raw = decode_footer(footer, file.address, is_sealed=True)
        plain = decode_footer(with_hidden(footer, hidden_keys(footer, raw.metadata)), file.address, is_sealed=False)
        options = {"arrow_extensions_enabled": True, "coerce_int96_timestamp_unit": "us"}
        arrow = pq.ParquetFile(pa.BufferReader(b""), metadata=plain, **options).schema_arrow
        matched = match_columns(elements_of(start), arrow, self._work.table, given, file.address)
        told = numbered(start, matched.field_ids)
        columns = footer_columns(decode_footer(told + footer[len(start) :], file.address, is_sealed=True), self._schema)
        plan = _Plan(start, told, matched, columns)
        self._plans.setdefault(given, []).append(plan)
        return plan

    def _constants(self, missing: Sequence[NestedField], file: FoundFile) -> dict[int, bytes | None]:
        """Values of columns that the file lacks: of its path, else defaults. Null where a column may be null."""
        values, found = dict(file.values), dict[int, bytes | None]()
        for column in missing:
            what = f"Column {column.name!r} of {file.address}"
            if column.name in values:
                value = constant(column.field_type, values[column.name], what)
                if value is None and column.required:
                    raise InvalidInput(f"{what} is required, but null in its path.")
                found[column.field_id] = value
            elif (default := default_value(column)) is not None:
                assert isinstance(column.field_type, PrimitiveType)
                found[column.field_id] = constant_of(column.field_type, default)
            elif column.required:
                raise InvalidInput(f"{what} is required, but missing in the file.")
        return found

    def _facts(
        self, file: FoundFile, footer: bytes, told: pq.FileMetaData, adopted: AdoptedFile, plan: _Plan
    ) -> SegmentFacts:
        rows, layout, matched = told.num_rows, self._work.layout, plan.matched
        constants = dict(adopted.constants)
        columns = [*column_facts(told, plan.columns, {}), *self._missing_facts(matched.missing, constants, rows)]
        by_field = {one.field_id: one for one in columns}
        times, sha256 = self._times(by_field), hashlib.sha256(footer).digest()

        def facts(partition: PartitionTuple) -> SegmentFacts:
            return SegmentFacts(
                file.number,
                file.address,
                rows,
                file.size,
                0,
                self._schema.schema_id,
                layout.spec.spec_id,
                partition,
                sha256,
                tuple(columns),
                *times,
                split_offsets=split_offsets(told),
                adopted=adopted,
            )

        def read(names: list[str]) -> pa.Table:
            return self._read(facts(()), names)

        self._check_required(matched.unsure, by_field, read, file.address)
        return facts(partition_of(layout.spec, self._schema, constants, by_field, read, file.address))

    def _missing_facts(
        self, missing: Sequence[NestedField], constants: Mapping[int, bytes | None], rows: int
    ) -> list[ColumnFacts]:
        primitive = [column for column in missing if isinstance(column.field_type, PrimitiveType)]
        return [
            constant_facts(column.field_id, column.field_type, constants.get(column.field_id), rows)
            for column in primitive
        ]

    def _check_required(
        self,
        unsure: Sequence[NestedField],
        known: Mapping[int, ColumnFacts],
        read: Callable[[list[str]], pa.Table],
        where: str,
    ) -> None:
        for column in unsure:
            found = known.get(column.field_id)
            nulls = read([column.name]).column(0).null_count if found is None else found.nulls
            if nulls:
                raise InvalidInput(f"Column {column.name!r} is required, but has {nulls} nulls in {where}.")

    def _times(self, known: Mapping[int, ColumnFacts]) -> tuple[int | None, int | None]:
        """The range of the event time. Where the footer does not say, any time may be in the file."""
        number = self._work.layout.event_time
        if number is None:
            return None, None
        found = known.get(number)
        if found is not None and found.nulls == found.values:
            return None, None
        if found is None or found.lower is None or found.upper is None:
            return _EVER
        return time_range_ns(self._schema.find_field(number).field_type, found.lower, found.upper)

    def _read(self, facts: SegmentFacts, names: list[str]) -> pa.Table:
        source = self._work.store.reader(facts.path, facts.size)
        with SegmentReader(source, self._schema, columns=names, facts=facts) as reader:
            return reader.table()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")


def table_columns(schema: Schema, schemas: Mapping[int, Schema], last_id: int, by: str, extra: str) -> TableColumns:
    """What files are matched with."""
    if by not in ("auto", "name", "id", "own"):
        raise InvalidInput(f"by must be 'auto', 'name' or 'id', not {by!r}.")
    if extra not in ("error", "ignore"):
        raise InvalidInput(f"extra must be 'error' or 'ignore', not {extra!r}.")
    names: dict[int, set[str]] = {}
    for one in (schema, *schemas.values()):
        for column in one.fields:
            names.setdefault(column.field_id, set()).add(column.name)
    return TableColumns(schema, {number: frozenset(some) for number, some in names.items()}, last_id, by, extra)  # type: ignore[arg-type]


__all__ = ["AdoptSlice", "FoundFile", "adopt_slice", "table_columns"]
