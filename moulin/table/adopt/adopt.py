"""Adopts files: finds them, reads their footers, commits them as segments of one version."""

# Decisions: docs/decisions/0431

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from moulin.catalog.objects.base_paths import AGAIN, known_file
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model.columns.batching import batched
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.model.operations import Kind
from moulin.table.adopt.files import Source, find_files
from moulin.table.adopt.kernel import AdoptSlice, FoundFile, adopt_slice, table_columns
from moulin.table.commit.change import DataChange
from moulin.table.context import Context
from moulin.table.write.layout import Layout

_SLICE = 2048  # files of a slice
_FOOTER_BYTES = 64 << 10  # about what is read of one
_RESERVED = 4096  # segment numbers reserved at a time


@dataclass(frozen=True, slots=True)
class Adoption:
    """What an adoption did: files, rows and bytes that the table has now, and files that were left out.

    `known` were in the table already, `empty` have no rows.
    """

    version: int
    files: int = 0
    rows: int = 0
    bytes: int = 0
    known: int = 0
    empty: int = 0


def adopt(
    context: Context,
    state: TableState,
    source: Source,
    *,
    by: str = "auto",
    extra: str = "error",
    hive: bool = True,
    skip_known: bool = False,
    again: bool = False,
    request_id: str | None = None,
) -> Adoption:
    """Make segments of the files that `source` means; see `Table.adopt`."""
    if state.schema.identifier_field_ids:
        raise FailedPrecondition(
            f"Table {state.full_name} has a primary key, and files of others are not sorted by it: load them with "
            "backfill or append."
        )
    table_columns(state.schema, state.schemas, state.last_column_id, by, extra)  # refuses wrong options at once
    columns = {column.name for column in state.schema.fields}
    found = find_files(context, source, columns=columns, hive=hive)
    if again and skip_known:
        raise InvalidInput("Files that the table has had are left out or taken again: choose skip_known or again.")
    known = set() if again else set(context.catalog.known_paths(state.id, [file.address for file in found]))
    if known and not skip_known:
        raise known_file(min(known), state.full_name)
    left = [file for file in found if file.address not in known]
    added = read_facts(context, state, left, by=by, extra=extra)
    sums = {"files": len(added), "rows": sum(f.rows for f in added), "bytes": sum(f.size for f in added)}
    counts = {"known": len(known), "empty": len(left) - len(added)}
    if not added:
        return Adoption(state.head_version, **counts)
    summary = {"adopted-files": str(len(added)), **({AGAIN: "true"} if again else {})}
    change = DataChange(state.id, state.version, Kind.APPEND, tuple(added), summary=summary)
    version = context.committer.commit([change], request_id=request_id).version
    return Adoption(version, **sums, **counts)


def read_facts(
    context: Context, state: TableState, files: Sequence[FoundFile], *, by: str, extra: str
) -> list[SegmentFacts]:
    """The facts of the files that have rows, in threads of this process or in tasks of Spark."""
    table = table_columns(state.schema, state.schemas, state.last_column_id, by, extra)
    layout = Layout.of(state)
    numbered = _numbered(context, files)
    slices = [AdoptSlice(context.store, layout, table, tuple(some)) for some in batched(numbered, _SLICE)]
    runner = context.runner(len(files) * _FOOTER_BYTES)
    return [facts for some in (runner.map(adopt_slice, slices) if slices else ()) for facts in some]


def _numbered(context: Context, files: Sequence[FoundFile]) -> list[FoundFile]:
    found: list[FoundFile] = []
    for some in batched(files, _RESERVED):
        first = context.catalog.reserve_segments(len(some))
        found += [replace(file, number=first + index) for index, file in enumerate(some)]
    return found


__all__ = ["Adoption", "adopt", "read_facts"]
