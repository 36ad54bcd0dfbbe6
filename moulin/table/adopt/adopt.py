"""Adopts files: finds them, reads their footers, commits them as segments of one version."""

# Decisions: docs/decisions/0431, docs/decisions/0610, docs/decisions/0690

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from moulin.catalog.objects.base_paths import AGAIN, known_file
from moulin.errors import InvalidInput
from moulin.model.columns.batching import batched
from moulin.model.entities import TableState
from moulin.model.operations import Kind
from moulin.table.adopt.files import Source, find_files
from moulin.table.adopt.footers import FoundFile
from moulin.table.adopt.kernel import AdoptSlice, adopt_slice, table_columns
from moulin.table.adopt.keys import AdoptedSegment, KeyedFiles
from moulin.table.bulk.commit import commit_drafts, plan_bulk
from moulin.table.bulk.drafts import Drafts
from moulin.table.bulk.writer import RegionRun
from moulin.table.commit.change import DataChange
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.write.layout import Layout
from moulin.table.write.upsert import UpsertDraft

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
    keyed: KeyedTable | None = None,
    by: str = "auto",
    extra: str = "error",
    hive: bool = True,
    skip_known: bool = False,
    again: bool = False,
    request_id: str | None = None,
) -> Adoption:
    """Make segments of the files that `source` means; see `Table.adopt`. `keyed` is the table if it has a key."""
    table_columns(state.schema, state.schemas, state.last_column_id, by, extra)  # refuses wrong options at once
    columns = {column.name for column in state.schema.fields}
    found = find_files(context, source, columns=columns, hive=hive)
    if again and skip_known:
        raise InvalidInput("skip_known and again cannot be combined.")
    known = set() if again else set(context.catalog.known_paths(state.id, [file.address for file in found]))
    if known and not skip_known:
        raise known_file(min(known), state.full_name)
    left = [file for file in found if file.address not in known]
    regions = None if keyed is None else KeyedFiles(keyed.spec)
    found_segments = read_segments(context, state, left, by=by, extra=extra, keyed=regions)
    added = [one.facts for one in found_segments]
    sums = {"files": len(added), "rows": sum(f.rows for f in added), "bytes": sum(f.size for f in added)}
    counts = {"known": len(known), "empty": len(left) - len(added)}
    if not added:
        return Adoption(state.head_version, **counts)
    summary = {"adopted-files": str(len(added)), **({AGAIN: "true"} if again else {})}
    if keyed is not None:
        version = _upsert(context, keyed, found_segments, summary, request_id)
        return Adoption(version, **sums, **counts)
    change = DataChange(state.id, state.version, Kind.APPEND, tuple(added), summary=summary)
    version = context.committer.commit([change], request_id=request_id).version
    return Adoption(version, **sums, **counts)


def _upsert(
    context: Context,
    keyed: KeyedTable,
    found: Sequence[AdoptedSegment],
    summary: Mapping[str, str],
    request_id: str | None,
) -> int:
    """One version in which the rows of the files stand in place of older ones of their keys."""
    plan = plan_bulk(context, keyed)
    drafts = Drafts.of(context, keyed, plan, [RegionRun(one.region, UpsertDraft([one.facts])) for one in found])
    drafts.locate(context, plan)
    return commit_drafts(context, keyed, plan, drafts, request_id=request_id, summary=summary).version


def read_segments(
    context: Context,
    state: TableState,
    files: Sequence[FoundFile],
    *,
    by: str,
    extra: str,
    keyed: KeyedFiles | None = None,
) -> list[AdoptedSegment]:
    """The segments of the files that have rows, in threads of this process or in tasks of Spark."""
    table = table_columns(state.schema, state.schemas, state.last_column_id, by, extra)
    layout = Layout.of(state)
    numbered = _numbered(context, files)
    slices = [
        _slice(AdoptSlice(context.store, layout, table, tuple(some), keyed)) for some in batched(numbered, _SLICE)
    ]
    read = len(files) * _FOOTER_BYTES if keyed is None else sum(file.size for file in files)
    runner = context.runner(read)
    return [found for some in (runner.map(adopt_slice, slices) if slices else ()) for found in some]


def _slice(work: AdoptSlice) -> AdoptSlice:
    """A slice with those of the deleted rows that are in its files."""
    if work.keyed is None or not work.keyed.deleted:
        return work
    mine = {file.address: work.keyed.deleted[file.address] for file in work.files if file.address in work.keyed.deleted}
    return replace(work, keyed=replace(work.keyed, deleted=mine))


def _numbered(context: Context, files: Sequence[FoundFile]) -> list[FoundFile]:
    found: list[FoundFile] = []
    for some in batched(files, _RESERVED):
        first = context.catalog.reserve_segments(len(some))
        found += [replace(file, number=first + index) for index, file in enumerate(some)]
    return found


__all__ = ["Adoption", "adopt", "read_segments"]
