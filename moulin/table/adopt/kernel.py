"""Converts footers of files to facts of segments: the slice of an adoption. Reads no rows except the keys of a keyed
table, unless a footer lacks required statistics.
"""

# Decisions: docs/decisions/0431, docs/decisions/0481, docs/decisions/0610, docs/decisions/0690

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.formats.segment.alike import Told
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns.batching import batched
from moulin.model.facts import AdoptedFile, ColumnFacts, SegmentFacts
from moulin.model.layout.bounds import time_range_ns
from moulin.model.layout.partition import PartitionTuple
from moulin.model.schema.defaults import default_value
from moulin.model.schema.values import NestedField, PrimitiveType, Schema
from moulin.storage.store import Store
from moulin.table.adopt.columns import Matched, TableColumns
from moulin.table.adopt.footers import Footer, Footers, FoundFile, Plan, named
from moulin.table.adopt.keys import AdoptedSegment, KeyedFiles, index_keys
from moulin.table.adopt.partition import constant, constant_facts, constant_of, partition_of
from moulin.table.write.layout import Layout

_THREADS = 16  # for an object store, whose answers are waited for
_FIRST, _TOGETHER = 32, 512  # files whose footers are held, and read together
_HELD_BYTES = 16 << 20  # of footers, about
_EVER = (-(2**63) + 1, 2**63 - 1)


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
    kernel, footers = _Kernel(work), Footers(work.store, work.table)
    threads, found = _threads(work), list[AdoptedSegment]()
    at, step = 0, _FIRST
    with ThreadPoolExecutor(threads, thread_name_prefix="moulin-adopt") as pool:
        while files := work.files[at : at + step]:
            read = chain.from_iterable(pool.map(footers.read, batched(files, -(-len(files) // threads))))
            some = list(zip(files, read, strict=True))
            for (file, footer), (plan, told) in zip(some, footers.told(some), strict=True):
                segment = named(file, partial(kernel.segment, footer, plan, told)) if told.rows else None
                found += [] if segment is None else [segment]
            at, size = at + step, sum(len(footer.data) for _, footer in some)
            step = max(_FIRST, min(_TOGETHER, _HELD_BYTES * len(some) // size))
    return found


def _threads(work: AdoptSlice) -> int:
    """More than two would only wait for one another where the files lie in a folder."""
    near = bool(work.files) and work.store.local_path(work.files[0].address) is not None
    return min(2, os.cpu_count() or 1) if near else _THREADS


@dataclass(frozen=True, slots=True)
class _Constants:
    """Columns that files lack: their values, in the order of field ids, and their facts."""

    values: tuple[tuple[int, bytes | None], ...]
    facts: tuple[ColumnFacts, ...]


class _Kernel:
    """Makes segments of files. What depends on the values in paths alone is found once."""

    def __init__(self, work: AdoptSlice) -> None:
        self._work, self._schema = work, work.layout.schema
        self._known: dict[tuple[int, int, tuple[tuple[str, str | None], ...]], _Constants] = {}
        number = work.layout.event_time
        self._time = None if number is None else self._schema.find_field(number).field_type

    def segment(self, footer: Footer, plan: Plan, told: Told, file: FoundFile) -> AdoptedSegment | None:
        matched = plan.matched
        constants = self._constants(matched, file, told.rows)
        adopted = AdoptedFile(
            self._work.layout.table_id,
            matched.field_ids,
            constants.values,
            file.modified_ns,
            footer.etag,
            told.hidden_keys,
            matched.other_ids,
        )
        facts = self._facts(file, footer.data, told, adopted, plan, constants)
        if self._work.keyed is None:
            return AdoptedSegment(facts)
        read = partial(self._read, facts)
        return index_keys(self._work.store, self._work.layout, self._work.keyed, facts, read)

    def _constants(self, matched: Matched, file: FoundFile, rows: int) -> _Constants:
        """Columns that the file lacks."""
        key = id(matched), rows, file.values
        if key not in self._known:
            values = self._values(matched.missing, file)
            primitive = [column for column in matched.missing if isinstance(column.field_type, PrimitiveType)]
            facts = [constant_facts(c.field_id, c.field_type, values.get(c.field_id), rows) for c in primitive]
            self._known[key] = _Constants(tuple(sorted(values.items())), tuple(facts))
        return self._known[key]

    def _values(self, missing: Sequence[NestedField], file: FoundFile) -> dict[int, bytes | None]:
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
        self, file: FoundFile, footer: bytes, told: Told, adopted: AdoptedFile, plan: Plan, constants: _Constants
    ) -> SegmentFacts:
        layout, columns = self._work.layout, (*told.columns, *constants.facts)
        by_field = {one.field_id: one for one in columns}
        times, sha256 = self._times(by_field), hashlib.sha256(footer).digest()

        def facts(partition: PartitionTuple) -> SegmentFacts:
            return SegmentFacts(
                file.number,
                file.address,
                told.rows,
                file.size,
                0,
                self._schema.schema_id,
                layout.spec.spec_id,
                partition,
                sha256,
                columns,
                *times,
                split_offsets=told.split_offsets,
                adopted=adopted,
            )

        def read(names: list[str]) -> pa.Table:
            return self._read(facts(()), names)

        self._check_required(plan.matched.unsure, by_field, read, file.address)
        if not layout.spec.fields:
            return facts(())
        return facts(partition_of(layout.spec, self._schema, dict(constants.values), by_field, read, file.address))

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
        if number is None or self._time is None:
            return None, None
        found = known.get(number)
        if found is not None and found.nulls == found.values:
            return None, None
        if found is None or found.lower is None or found.upper is None:
            return _EVER
        return time_range_ns(self._time, found.lower, found.upper)

    def _read(self, facts: SegmentFacts, names: list[str]) -> pa.Table:
        source = self._work.store.reader(facts.path, facts.size)
        with SegmentReader(source, self._schema, columns=names, facts=facts) as reader:
            return reader.table()


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


__all__ = ["AdoptSlice", "adopt_slice", "table_columns"]
