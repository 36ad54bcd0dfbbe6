"""Checks the contents of every commit before they are stored: paths, numbers, sizes and strings.

Clean-up may later delete every object in a row, and recovery replays every number. So each path must have the form for
its table and number, each segment number must be allocated and free, and every other number must be within limits.
`check` is pure; `check_numbers` queries the catalog, once for a few hundred segments.
"""

# Decisions: docs/decisions/0190

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import AlreadyExists, InvalidInput
from moulin.model.facts import MAX_LEVEL, AdoptedFile, ColumnFacts, ColumnFile, SegmentFacts, VectorFacts
from moulin.model.names import check_name
from moulin.model.operations import (
    Compact,
    CreateIndex,
    DataOperation,
    DropIndex,
    Fill,
    IndexFile,
    Operation,
    RegionUse,
    SetProperties,
    UpdateIndex,
)
from moulin.model.texts import MAX_KEY, check_text, check_texts
from moulin.storage.file_kinds import FileKind, KnownFile, identify, require

MAX_ROWS: Final = (1 << 31) - 1
"""Rows of one segment."""
MAX_SIZE: Final = 1 << 48
"""Bytes of one object: more than any store supports."""
MAX_COUNT: Final = 1 << 62
"""Row ids, log positions, and sums: half of the column's range, so that adding two never overflows."""
MAX_ELEMENTS: Final = 1 << 16
"""Elements of the Parquet schema of an adopted file."""
_MAX_LOCATION: Final = 4096
_MAX_FIELD_ID: Final = (1 << 31) - 1
_MAX_BOUND: Final = 1 << 16
_MAX_SUMMARY: Final = 1 << 20
_HASH_BYTES: Final = 32
_MAX_INLINE: Final = 1 << 22  # maximum bytes of an inline segment
INDEX_KINDS: Final = ("btree", "bloom", "bitmap", "label_list")
FIGURES: Final = frozenset(
    {
        "added-column-files",
        "added-data-files",
        "added-files-size",
        "added-records",
        "changed-deletion-vectors",
        "deleted-data-files",
        "deleted-records",
    }
)
"""Keys of a commit's summary that the catalog computes itself."""


def check(commit: TableCommit) -> None:
    """Reject a commit with invalid paths, numbers or strings: InvalidInput."""
    if counted := FIGURES.intersection(commit.summary):
        raise InvalidInput(f"{min(counted)!r} is computed by the catalog: remove it from the summary.")
    check_texts(commit.summary, "summary", _MAX_SUMMARY)
    for use in commit.regions:
        _check_region(use)
    _check_operation(commit.table_id, commit.operation)


def _check_operation(table_id: UUID, operation: Operation) -> None:
    match operation:
        case DataOperation():
            for facts in operation.added:
                check_segment(table_id, facts)
            for vector in (*(new.facts for new in operation.vectors), *operation.added_vectors.values()):
                _check_vector(table_id, vector)
            if isinstance(operation, Compact):
                _check_compaction(table_id, operation)
        case Fill():
            for column_file in operation.files:
                _check_column_file(table_id, column_file)
        case CreateIndex() | UpdateIndex():
            check_name(operation.name, "index")
            if isinstance(operation, CreateIndex) and operation.index_kind not in INDEX_KINDS:
                raise InvalidInput(
                    f"The kind of an index must be {' or '.join(INDEX_KINDS)}, not {operation.index_kind[:60]!r}."
                )
            for file in operation.files:
                _check_index_file(table_id, file)
        case DropIndex():
            check_text(operation.name, "index name")
        case SetProperties():
            check_texts(operation.updates, "property")
            for name in operation.removals:
                check_text(name, "property name", MAX_KEY)


_ADOPTED = KnownFile(FileKind.ADOPTED, None)


def check_segment(table_id: UUID, facts: SegmentFacts) -> None:
    """Reject the facts of a segment that cannot belong to this table."""
    if facts.adopted is None:
        require(facts.path, FileKind.SEGMENT, table_id, facts.number)
    else:
        _check_adopted(table_id, facts, facts.adopted)
    where = f"segment {facts.number}"
    _within(facts.number, 1, MAX_COUNT, where, "number")
    _within(facts.rows, 0, MAX_ROWS, where, "rows")
    _within(facts.size, 0, MAX_SIZE, where, "size")
    _within(facts.index_size, 0, MAX_SIZE, where, "index_size")
    _within(facts.level, 0, MAX_LEVEL, where, "level")
    _within(facts.region, 0, MAX_COUNT, where, "region")
    if len(facts.sha256) != _HASH_BYTES:
        raise InvalidInput(f"The SHA-256 of {where} has {_HASH_BYTES} bytes, not {len(facts.sha256)}.")
    if facts.inline is not None:
        _check_inline(facts, where)
    _check_pair(facts.time_min, facts.time_max, where, "event times")
    _check_pair(facts.key_min, facts.key_max, where, "keys")
    _check_pair(facts.seq_min, facts.seq_max, where, "sequence numbers")
    if facts.seq_min is not None and facts.seq_max is not None:
        _within(facts.seq_min, 0, MAX_COUNT, where, "seq_min")
        _within(facts.seq_max, 0, MAX_COUNT, where, "seq_max")
    _check_columns(facts.columns, where)
    if len({column.field_id for column in facts.columns}) != len(facts.columns):
        raise InvalidInput(f"The facts of {where} describe a column twice.")
    for first, second in pairwise((0, *facts.split_offsets, facts.size)):
        if first > second:
            raise InvalidInput(f"The split offsets of {where} must ascend from 0 to its size.")


def _check_adopted(table_id: UUID, facts: SegmentFacts, adopted: AdoptedFile) -> None:
    """An adopted file: whatever its path is, it is never deleted."""
    where = f"segment {facts.number}"
    if identify(facts.path) != _ADOPTED or adopted.owner != table_id:
        raise InvalidInput(f"{facts.path[:200]!r} is not a valid path of an adopted file of table {table_id}.")
    if facts.inline is not None or facts.has_lineage or facts.level:
        raise InvalidInput(f"An adopted file must be a new segment with its own rows; {where} is not.")
    check_text(adopted.location, "location of a file", _MAX_LOCATION)
    if len(adopted.field_ids) > MAX_ELEMENTS or len(adopted.etag) > MAX_KEY:
        raise InvalidInput(f"The Parquet schema of {where} has too many elements, or its ETag is too long.")
    for at in adopted.hidden_keys:
        _within(at, 0, MAX_SIZE, where, "hidden key")
    numbers = (*adopted.field_ids, *(number for number, _ in adopted.constants))
    for number in (min(numbers, default=0), max(numbers, default=0)):
        _within(number, 0, _MAX_FIELD_ID, where, "field_id")
    named = [number for number in numbers if number]
    if len(set(named)) != len(named):
        raise InvalidInput(f"Two columns of {where} have the same field id.")
    if any(len(value or b"") > _MAX_BOUND for _, value in adopted.constants):
        raise InvalidInput(f"A constant of {where} has more than {_MAX_BOUND} bytes.")


def _check_inline(facts: SegmentFacts, where: str) -> None:
    assert facts.inline is not None
    _within(len(facts.inline), 1, _MAX_INLINE, where, "inline size")
    if facts.index_size or facts.level:
        raise InvalidInput(f"Only new segments of event tables can be inline; {where} is not one.")
    if len(facts.inline) != facts.size or hashlib.sha256(facts.inline).digest() != facts.sha256:
        raise InvalidInput(f"The size or the SHA-256 of {where} does not match its inline bytes.")


def _check_columns(columns: Iterable[ColumnFacts], where: str) -> None:
    for c in columns:
        fits = 1 <= c.field_id <= _MAX_FIELD_ID and 0 <= c.nulls <= c.values <= MAX_COUNT and 0 <= c.size <= MAX_COUNT
        short = len(c.lower or b"") <= _MAX_BOUND and len(c.upper or b"") <= _MAX_BOUND
        if not fits or not short or not 0 <= (c.nans or 0) <= c.values:
            _refuse_column(c, where)


def _refuse_column(column: ColumnFacts, where: str) -> None:
    counts = column.values, column.nulls, column.nans or 0, column.size
    if not 1 <= column.field_id <= _MAX_FIELD_ID or min(counts) < 0 or max(counts) > MAX_COUNT:
        _refuse_counts(column, where)
    if column.nulls > column.values or (column.nans or 0) > column.values:
        raise InvalidInput(f"Field {column.field_id} of {where} has more nulls or NaNs than values.")
    raise InvalidInput(f"A bound of field {column.field_id} of {where} has more than {_MAX_BOUND} bytes.")


def _refuse_counts(column: ColumnFacts, where: str) -> None:
    _within(column.field_id, 1, _MAX_FIELD_ID, where, "field_id")
    for name, value in (
        ("values", column.values),
        ("nulls", column.nulls),
        ("nans", column.nans or 0),
        ("size of a column", column.size),
    ):
        _within(value, 0, MAX_COUNT, where, name)


def _check_vector(table_id: UUID, vector: VectorFacts) -> None:
    require(vector.path, FileKind.VECTORS, table_id)
    where = f"the deletion vector of segment {vector.segment}"
    _within(vector.offset, 0, MAX_SIZE, where, "offset")
    _within(vector.length, 1, MAX_SIZE, where, "length")
    _within(vector.cardinality, 1, MAX_ROWS, where, "cardinality")


def _check_column_file(table_id: UUID, file: ColumnFile) -> None:
    require(file.path, FileKind.COLUMN_FILE, table_id)
    _within(file.segment, 1, MAX_COUNT, file.path, "segment")
    _within(file.size, 1, MAX_SIZE, file.path, "size")
    if len(file.sha256) != _HASH_BYTES:
        raise InvalidInput(f"The SHA-256 of {file.path} has {_HASH_BYTES} bytes, not {len(file.sha256)}.")
    if not file.fields or len(set(file.fields)) != len(file.fields):
        raise InvalidInput(f"{file.path} has columns, and each of them once.")
    _check_columns(file.columns, file.path)


def _check_compaction(table_id: UUID, operation: Compact) -> None:
    for path in operation.journals:
        require(path, FileKind.JOURNAL, table_id)
    if len(set(operation.journals)) != len(operation.journals):
        raise InvalidInput("A compaction must list each of its journals once.")
    if operation.journal_outputs and len(operation.journal_outputs) != len(operation.journals):
        raise InvalidInput(
            f"A compaction needs one output for each of its {len(operation.journals)} journals, not "
            f"{len(operation.journal_outputs)}."
        )


def _check_index_file(table_id: UUID, file: IndexFile) -> None:
    require(file.path, FileKind.INDEX_FILE, table_id)
    _within(file.size, 0, MAX_SIZE, file.path, "size")
    _within(file.entries, 0, MAX_COUNT, file.path, "entries")
    if len(set(file.segments)) != len(file.segments):
        raise InvalidInput(f"{file.path} covers a segment twice.")


def _check_region(use: RegionUse) -> None:
    where = f"region {use.number}"
    for name, value in (("number", use.number), ("epoch", use.epoch), ("covered", use.covered)):
        _within(value, 0, MAX_COUNT, where, name)
    _within(use.reached, 0, MAX_COUNT, where, "reached")


def _within(value: int, least: int, most: int, where: str, what: str) -> None:
    if not least <= value <= most:
        raise InvalidInput(f"The {what} of {where} lies between {least} and {most}: {value} does not.")


def _check_pair(least: Any, most: Any, where: str, what: str) -> None:
    if (least is None) != (most is None) or (least is not None and least > most):
        raise InvalidInput(f"The {what} of {where} have a lowest and a highest one, in this order, or neither.")


def check_numbers(change: TableChange, operation: DataOperation) -> None:
    """Reject segment numbers that were not allocated, are in use, or were allocated for something else."""
    numbers = [facts.number for facts in operation.added]
    outputs = operation.journal_outputs if isinstance(operation, Compact) else ()
    if not numbers and not outputs:
        return
    claim = operation.claim if isinstance(operation, Compact) else None
    task = None if claim is None else str(claim.task_id)
    for chunk in chunks(numbers or [0]):
        around = {"low": min(chunk), "high": max(chunk)}
        if len(chunk) == 1:
            rows = _ONE_KNOWN.all(change.connection, around)
        else:
            rows = change.connection.execute(_KNOWN, {**around, "numbers": chunk}).all()
        for row in rows:
            match row.what:
                case "next":
                    _check_handed_out([*chunk, *outputs], row.first)
                case "segment" | "trash":
                    raise AlreadyExists(
                        f"Segment number {row.first} was registered before, and numbers cannot be reused. Read the "
                        f"table again, and write the missing rows under a new number."
                    )
                case "staged":
                    mine = _staged_for(row, change.table_id, task)
                    _check_staged([n for n in chunk if n in range(row.first, row.first + row.numbers)], mine)


def _known(*, one: bool) -> sa.CompoundSelect[Any]:
    """The counter of segment numbers, the given numbers that are in use, and the allocations around them.

    They are `numbers`, or the one that is both `low` and `high`.
    """
    r, g, t, h = s.reserves, s.segments, s.trash, s.staged_segments
    none = [sa.cast(sa.null(), column.type).label(column.name) for column in (h.c.numbers, h.c.owner, h.c.table_id)]
    numbers: sa.BindParameter[Any] = sa.bindparam("numbers", expanding=True)

    def asked(column: sa.Column[Any]) -> sa.ColumnElement[bool]:
        return column == sa.bindparam("low") if one else column.in_(numbers)

    around = sa.and_(h.c.first <= sa.bindparam("high"), h.c.first + h.c.numbers > sa.bindparam("low"))
    return sa.union_all(
        sa.select(sa.literal_column("'next'").label("what"), r.c.next.label("first"), *none).where(
            r.c.name == "segment"
        ),
        sa.select(sa.literal_column("'segment'"), g.c.number, *none).where(asked(g.c.number)),
        sa.select(sa.literal_column("'trash'"), t.c.segment, *none).where(asked(t.c.segment)),
        sa.select(sa.literal_column("'staged'"), h.c.first, h.c.numbers, h.c.owner, h.c.table_id).where(around),
    )


_KNOWN, _ONE_KNOWN = _known(one=False), Prepared(_known(one=True))


def _check_handed_out(numbers: Sequence[int], following: int) -> None:
    if unknown := [number for number in numbers if not 0 <= number < following]:
        raise InvalidInput(f"Segment number {unknown[0]} was never allocated; reserve segments to get numbers.")


def _staged_for(row: Any, table_id: UUID, task: str | None) -> bool:
    """Whether allocated numbers belong to this table, and to the merge task being finished, if any."""
    owner, _, attempt = str(row.owner).partition("/")
    return row.table_id == table_id and (not attempt or owner == task)


def _check_staged(numbers: Collection[int], mine: bool) -> None:
    if numbers and not mine:
        raise InvalidInput(
            f"Segment number {min(numbers)} was allocated for another table or merge task; reserve numbers for this "
            f"commit."
        )


def check_sums(row: Mapping[str, Any], rows: int, size: int) -> None:
    """Reject commits that would overflow a table's row ids or sums."""
    if row["next_row_id"] + rows > MAX_COUNT or row["bytes"] + size > MAX_COUNT:
        raise InvalidInput(f"A table can have up to {MAX_COUNT} rows and bytes: this commit would exceed that.")
