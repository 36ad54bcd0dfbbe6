"""Secondary indexes of a table: creates, drops, extends them, and maintains them in compactions.

An index has files, each of which covers some segments. Rows of segments that none covers are found by reading them, so
an outdated index is never wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from moulin.errors import Conflict, InvalidInput, MoulinError, NotFound
from moulin.model.entities import Index, TableState
from moulin.model.facts import LiveSegment
from moulin.model.ids import new_id
from moulin.model.key.index_value import encoding_of
from moulin.model.names import check_name, did_you_mean
from moulin.model.operations import CreateIndex, DropIndex, IndexFile, UpdateIndex
from moulin.model.schema.values import NestedField
from moulin.table.commit.change import CompactionChange, SettingChange
from moulin.table.context import Context
from moulin.table.find.index_files import KINDS, indexed_type
from moulin.table.index.build import CarrySlice, CoveringFile, IndexSlice, build_index, carry_index
from moulin.table.read.quarantine import refuse_quarantined
from moulin.table.runner import TaskRunner

_FILE_ROWS = 8 << 20  # rows that a file covers: what a slice holds in memory, and a compaction reads of one file


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """A secondary index now: its column, and how many of the table's segments its files cover.

    `created_at` is in Unix nanoseconds; None for an index of an older Moulin whose version is no longer kept.
    """

    name: str
    column: str
    kind: str
    covered: int
    segments: int
    files: int
    bytes: int
    created_version: int
    created_at: int | None = None


def list_indexes(context: Context, state: TableState) -> list[IndexInfo]:
    """The indexes of a table, by name."""
    sizes = context.catalog.index_sizes(state.id)
    total = context.catalog.table_entry(state.id).segments
    found = []
    for index in context.catalog.indexes(state.id):
        size = sizes.get(index.id)
        files, held, covered = (size.files, size.bytes, size.segments) if size else (0, 0, 0)
        column = state.schema.find_column_name(index.field_id) or f"field {index.field_id}"
        made = (index.created_version, index.created_at)
        found.append(IndexInfo(index.name, column, index.kind, covered, total, files, held, *made))
    return found


def create_index(context: Context, state: TableState, column: str, kind: str, name: str | None) -> int:
    """Create an index that covers the segments of `state`; returns its version."""
    if kind not in KINDS:
        raise InvalidInput(f"An index is of kind {', '.join(KINDS)}, not {kind!r}.")
    field = _column(state, column, kind)
    refuse_quarantined(context.catalog, state)
    name = check_name(f"{column}_{kind}" if name is None else name, "index")
    segments = context.catalog.segments(state.id, state.version, with_columns=False)
    with context.catalog.writing():
        files = _build(context, state, Index(new_id(), name, kind, field.field_id, 0), segments)
        operation = CreateIndex(new_id(), name, kind, field.field_id, tuple(files))
        return _commit(context, [SettingChange(state.id, state.version, operation)], files)


def drop_index(context: Context, state: TableState, name: str) -> int:
    """Drop an index; its files are cleaned up like those of old versions. Returns the version without it."""
    index = _find(context, state, name)
    operation = DropIndex(index.id, index.name)
    return context.committer.commit([SettingChange(state.id, state.version, operation)]).version


def update_indexes(context: Context, state: TableState) -> int:
    """Cover all segments of `state` that no file covers; returns the newest version of the table."""
    segments = context.catalog.segments(state.id, state.version, with_columns=False)
    changes, written = [], list[IndexFile]()
    with context.catalog.writing():
        for index in context.catalog.indexes(state.id):
            if index.kind not in KINDS:
                continue  # created by a newer version of Moulin
            covered = _usable(context, state, index, segments)
            missing = [segment for segment in segments if segment.facts.number not in covered]
            if files := _build(context, state, index, missing):
                operation = UpdateIndex(index.id, index.name, tuple(files))
                changes.append(SettingChange(state.id, state.version, operation))
                written += files
        return _commit(context, changes, written) if changes else state.head_version


def _commit(context: Context, changes: Sequence[SettingChange], files: Sequence[IndexFile]) -> int:
    """Commit index files; after a conflict they are deleted, because rows may have been erased."""
    try:
        return context.committer.commit(changes).version
    except Conflict:
        with suppress(MoulinError):
            context.store.delete(file.path for file in files)
        raise


def carry_indexes(
    context: Context,
    state: TableState,
    change: CompactionChange,
    inputs: Sequence[LiveSegment],
    journals: Sequence[tuple[str, Sequence[tuple[int, int]]]],
    runner: TaskRunner,
) -> list[SettingChange]:
    """Files that cover the outputs of a compaction, to be committed with it.

    `journals` are those of its slices, each with the outputs (number, rows) it wrote. Entries of covered inputs are
    carried over without reading their rows.
    """
    indexes = context.catalog.indexes(state.id)
    if not indexes or not change.added:
        return []
    files: dict[UUID, list[CoveringFile]] = {}
    for found in context.catalog.index_coverage(state.id, list(change.inputs)):
        files.setdefault(found.index.id, []).append(CoveringFile(found.path, found.size, found.segments))
    slices = []
    owners = []
    for index in indexes:
        for journal, outputs in journals:
            if outputs and index.kind in KINDS and state.schema.find_column_name(index.field_id) is not None:
                mine = tuple(files.get(index.id, ()))
                slices.append(
                    CarrySlice(
                        context.store,
                        state.id,
                        state.schema,
                        index.field_id,
                        index.kind,
                        journal,
                        tuple(inputs),
                        mine,
                        tuple(outputs),
                    )
                )
                owners.append(index)
    made: dict[UUID, list[IndexFile]] = {}
    for index, file in zip(owners, runner.map(carry_index, slices), strict=True):
        made.setdefault(index.id, []).append(file)
    return [
        SettingChange(state.id, state.version, UpdateIndex(index.id, index.name, tuple(made[index.id])))
        for index in indexes
        if index.id in made
    ]


def _build(context: Context, state: TableState, index: Index, segments: Sequence[LiveSegment]) -> list[IndexFile]:
    slices = [
        IndexSlice(context.store, state.id, state.schema, index.field_id, index.kind, tuple(part))
        for part in _parts(segments)
    ]
    size = sum(segment.facts.size for segment in segments)
    return list(context.runner(size).map(build_index, slices)) if slices else []


def _parts(segments: Sequence[LiveSegment]) -> Iterator[list[LiveSegment]]:
    """Segments in the order of their numbers, for one file each: as many files as cores when that is worth it."""
    ordered = sorted(segments, key=lambda segment: segment.facts.number)
    rows = sum(segment.facts.rows for segment in ordered)
    limit = min(_FILE_ROWS, max(_FILE_ROWS >> 3, rows // (os.cpu_count() or 1) + 1))
    part: list[LiveSegment] = []
    held = 0
    for segment in ordered:
        if part and held + segment.facts.rows > limit:
            yield part
            part, held = [], 0
        part.append(segment)
        held += segment.facts.rows
    if part:
        yield part


def _usable(context: Context, state: TableState, index: Index, segments: Sequence[LiveSegment]) -> set[int]:
    """The segments covered by files that fit the column as it is: a date that became a timestamp has other values."""
    kind = indexed_type(state.schema.find_field(index.field_id).field_type, index.kind)
    encoding = None if kind is None else encoding_of(kind)
    covered: set[int] = set()
    for found in context.catalog.index_coverage(state.id, [s.facts.number for s in segments], [index.field_id]):
        if found.index.id == index.id and context.secondary.file(found.path, found.size).encoding == encoding:
            covered.update(found.segments)
    return covered


def _column(state: TableState, column: str, kind: str) -> NestedField:
    names = [field.name for field in state.schema.fields]
    if column not in names:
        raise InvalidInput(f"Table {state.full_name} has no column {column!r}.{did_you_mean(str(column), names)}")
    field = next(field for field in state.schema.fields if field.name == column)
    if indexed_type(field.field_type, kind) is None:
        fit = (
            "lists of simple types have an index of kind label_list"
            if kind == "label_list"
            else ("only columns of simple types are indexed, and lists of them by kind label_list")
        )
        raise InvalidInput(f"Column {column} is of type {field.field_type}: {fit}.")
    return field


def _find(context: Context, state: TableState, name: str) -> Index:
    indexes = {index.name: index for index in context.catalog.indexes(state.id)}
    if name not in indexes:
        raise NotFound(f"Table {state.full_name} has no index {name!r}.{did_you_mean(str(name), indexes)}")
    return indexes[name]
