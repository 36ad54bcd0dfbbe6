"""Finds the rows to erase: every row of every kept version for which the condition is true, with the columns of that
version.

A row that a later version deleted or changed is in an older one, and is found there: deletion vectors are not applied.
A condition is read with the columns of every kept version of every table that shares a segment, so a column that was
renamed or dropped since counts under the name that it had. A column that was being filled counts once it is complete.
"""

# Decisions: docs/decisions/0440, docs/decisions/0470

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pyroaring import BitMap64

from moulin.catalog.catalog import Catalog
from moulin.catalog.upkeep import erasable
from moulin.catalog.upkeep.erasable import Columns, Relatives, Shared, Sight
from moulin.errors import InvalidInput
from moulin.formats import deletion_vector
from moulin.model.columns.batching import batched
from moulin.model.facts import LiveSegment
from moulin.model.filling import without_pending
from moulin.model.predicate import Predicate
from moulin.model.schema.values import Schema
from moulin.model.tags import VERIFIED
from moulin.model.where import Where, parse_where
from moulin.storage.store import Store
from moulin.table.context import Context
from moulin.table.read.quarantine import BELIEVED
from moulin.table.read.scan import facts_by_field
from moulin.table.write.match import match_positions
from moulin.table.write.writes import balanced

_AT_ONCE = 2000  # segments whose facts are held


@dataclass(frozen=True, slots=True)
class Reading:
    """A condition with the columns of some version of a table."""

    schema: Schema
    predicate: Predicate

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for readings that find the same rows in every segment."""
        fields = [field for field in self.schema.fields if field.name in self.predicate.columns]
        return (*(repr(field) for field in fields), repr(self.predicate.condition))


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for: a condition as the columns of each kept version read it.

    `unread` describes columns with which it has no meaning.
    """

    readings: Mapping[Columns, Reading]
    outline: str
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A segment, shared by tables and versions, and the positions of the rows in it that match."""

    shared: Shared
    positions: BitMap64

    @property
    def number(self) -> int:
        return self.shared.segment.facts.number

    @property
    def is_whole(self) -> bool:
        return len(self.positions) == self.shared.segment.facts.rows


def read_condition(family: Relatives, table_id: UUID, where: Where) -> Question:
    """The condition with the columns of every kept version; InvalidInput when it fits those of none."""
    if where is None:
        raise InvalidInput("erase needs a condition; where='true' erases every row.")
    readings: dict[Columns, Reading] = {}
    unread: list[str] = []
    for columns in sorted(family.columns, key=repr):
        state = family.states[columns[0]]
        schema = without_pending(state.schemas[columns[1]], state.schemas, state.schema, state.properties)
        try:
            readings[columns] = Reading(schema, parse_where(where, schema))
        except InvalidInput:
            unread.append(f"{state.full_name} with {', '.join(field.name for field in schema.fields)}"[:500])
    mine = family.states[table_id]
    if not readings:
        parse_where(where, mine.schema)
        raise InvalidInput(
            f"The condition names a column of {mine.full_name} that is being filled, or was dropped before it was "
            "complete: it has no values yet. Use another column, or complete it first."
        )
    first = readings.get((table_id, mine.schema_id)) or next(iter(readings.values()))
    return Question(readings, first.predicate.outline(), tuple(unread))


Look = tuple[int, int]
"""A segment, by number, with one of its sets of column files."""


def find(
    context: Context, catalog: Catalog, family: Relatives, question: Question, skip: Collection[Look] = frozenset()
) -> tuple[list[Found], frozenset[Look]]:
    """The rows that match in every segment of the family; and all that there is to look at.

    Segments of which every set of column files is to be skipped are not looked at. Bounds leave out segments, unless an
    engine was believed what it said of some.
    """
    believed = any(VERIFIED in state.properties for state in family.states.values())
    prune = not believed and not erasable.has_in_summary(catalog, family.states, BELIEVED)
    seen = erasable.shown(catalog, family.states)
    every = frozenset((number, beside) for number, sights in seen.items() for _, beside in sights)
    found: list[Found] = []
    for numbers in batched(sorted({number for number, _ in every.difference(skip)}), _AT_ONCE):
        loaded = erasable.load(catalog, list(numbers))
        found += _match(context, question, [(one, seen[one.segment.facts.number]) for one in loaded], prune)
    return found, every


@dataclass(frozen=True, slots=True)
class FindSlice:
    """Segments to look at, each with the readings that may match in it."""

    store: Store
    segments: tuple[tuple[LiveSegment, tuple[Reading, ...]], ...]


def find_slice(work: FindSlice) -> tuple[tuple[int, bytes], ...]:
    """Matching positions by segment, whether or not a version has deleted them. A segment may come more than once."""
    found = []
    for segment, readings in work.segments:
        positions = BitMap64()
        for reading in readings:
            positions |= match_positions(work.store, reading.schema, reading.predicate, segment, None)
        if positions:
            found.append((segment.facts.number, deletion_vector.encode(positions)))
    return tuple(found)


def _match(
    context: Context, question: Question, loaded: Iterable[tuple[Shared, Collection[Sight]]], prune: bool
) -> Iterator[Found]:
    held: dict[int, Shared] = {}
    work: dict[Look, tuple[LiveSegment, tuple[Reading, ...]]] = {}
    for one, sights in loaded:
        number = one.segment.facts.number
        for beside, readings in _readings(question, one, sights).items():
            segment = replace(one.beside(beside), vector=None, columns_id=beside)
            facts = facts_by_field(segment)
            may = [one for one in readings if not prune or one.predicate.may_match(facts, segment.facts.rows)]
            if may:
                held[number], work[number, beside] = one, (segment, tuple(may))
    segments = [segment for segment, _ in work.values()]
    slices = [
        FindSlice(context.store, tuple(work[segment.facts.number, segment.columns_id] for segment in part))
        for part in balanced(segments, 2 * (os.cpu_count() or 1))
    ]
    size = sum(segment.facts.size for segment in segments)
    found: dict[int, BitMap64] = {}
    for matches in context.runner(size).map(find_slice, slices) if slices else ():
        for number, blob in matches:
            found[number] = found.get(number, BitMap64()) | deletion_vector.decode(blob)
    for number, positions in found.items():
        yield Found(held[number], positions)


def _readings(question: Question, one: Shared, sights: Collection[Sight]) -> dict[int, list[Reading]]:
    """What to ask of a segment, by its sets of column files: nothing twice that finds the same rows."""
    asked: dict[int, list[Reading]] = {}
    known: set[tuple[Any, ...]] = set()
    for columns, beside in sorted(sights, key=lambda sight: (sight[1], repr(sight[0]))):
        if (reading := question.readings.get(columns)) is None:
            continue
        ids = {field.field_id for field in reading.schema.fields if field.name in reading.predicate.columns}
        files = tuple(file.path for file in one.sets[beside] if not ids.isdisjoint(file.fields))
        if (key := (*reading.key, files)) not in known:
            known.add(key)
            asked.setdefault(beside, []).append(reading)
    return asked
