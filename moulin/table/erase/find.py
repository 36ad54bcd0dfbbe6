"""Which rows an erase takes: every row of every kept version for which the condition is true, at the columns of then.

A row that a later version deleted or changed is in an older one, and is found there: deletion vectors are not applied.
A condition is read with the columns of every kept version of every table that shares a segment, so a column that was
renamed or dropped since counts under the name that it had.
"""

# Decisions: docs/decisions/0440

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pyroaring import BitMap64

from moulin.catalog.catalog import Catalog
from moulin.catalog.upkeep import erasable
from moulin.catalog.upkeep.erasable import Columns, Relatives, Shared
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.formats import deletion_vector
from moulin.model.columns.batching import batched
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.model.schema.values import Schema
from moulin.model.where import Where, parse_where
from moulin.storage.store import Store
from moulin.table.context import Context
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
    if family.has_column_files:
        raise FailedPrecondition(
            f"Kept versions of {family.states[table_id].full_name} have column files, which an erase does not write "
            "again yet: call fold() on every table and branch that has them, clean up the versions before that, and "
            "erase then."
        )
    readings: dict[Columns, Reading] = {}
    unread: list[str] = []
    for columns in sorted(family.columns, key=repr):
        state = family.states[columns[0]]
        schema = state.schemas[columns[1]]
        try:
            readings[columns] = Reading(schema, parse_where(where, schema))
        except InvalidInput:
            unread.append(f"{state.full_name} with {', '.join(field.name for field in schema.fields)}"[:500])
    mine = family.states[table_id]
    if not readings:
        parse_where(where, mine.schema)
    first = readings.get((table_id, mine.schema_id)) or next(iter(readings.values()))
    return Question(readings, first.predicate.outline(), tuple(unread))


def find(
    context: Context, catalog: Catalog, family: Relatives, question: Question, skip: Collection[int] = ()
) -> tuple[list[Found], frozenset[int]]:
    """The rows that match in every segment of the family but those to `skip`; and the numbers of all there are."""
    seen = erasable.shown(catalog, family.states)
    found: list[Found] = []
    for numbers in batched(sorted(seen.keys() - set(skip)), _AT_ONCE):
        loaded = erasable.load(catalog, list(numbers))
        found += _match(context, question, [(one, seen[one.segment.facts.number]) for one in loaded])
    return found, frozenset(seen)


@dataclass(frozen=True, slots=True)
class FindSlice:
    """Segments to look at, each with the readings that may match in it."""

    store: Store
    segments: tuple[tuple[LiveSegment, tuple[Reading, ...]], ...]


def find_slice(work: FindSlice) -> tuple[tuple[int, bytes], ...]:
    """Matching positions by segment, whether or not a version has deleted them."""
    found = []
    for segment, readings in work.segments:
        positions = BitMap64()
        for reading in readings:
            positions |= match_positions(work.store, reading.schema, reading.predicate, segment, None)
        if positions:
            found.append((segment.facts.number, deletion_vector.encode(positions)))
    return tuple(found)


def _match(
    context: Context, question: Question, loaded: Iterable[tuple[Shared, Collection[Columns]]]
) -> Iterator[Found]:
    held: dict[int, Shared] = {}
    work: dict[int, tuple[LiveSegment, tuple[Reading, ...]]] = {}
    for one, columns in loaded:
        bare = replace(one.segment, vector=None)
        readings = {r.key: r for at in columns if (r := question.readings.get(at)) is not None}.values()
        may = [r for r in readings if r.predicate.may_match(facts_by_field(bare), bare.facts.rows)]
        if may:
            held[bare.facts.number], work[bare.facts.number] = one, (bare, tuple(may))
    segments = [segment for segment, _ in work.values()]
    slices = [
        FindSlice(context.store, tuple(work[segment.facts.number] for segment in part))
        for part in balanced(segments, 2 * (os.cpu_count() or 1))
    ]
    size = sum(segment.facts.size for segment in segments)
    for matches in context.runner(size).map(find_slice, slices) if slices else ():
        for number, blob in matches:
            yield Found(held[number], deletion_vector.decode(blob))
