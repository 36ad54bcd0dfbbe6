"""Footers of foreign files: read, matched with the columns of a table, and understood, those together that one writer
wrote alike.
"""

# Decisions: docs/decisions/0431, docs/decisions/0481, docs/decisions/0690

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from moulin.errors import Corrupt, MoulinError, NotFound
from moulin.formats.segment.alike import AlikeFooters, Told, told
from moulin.formats.segment.footer import FooterColumn, decode_footer, footer_columns, read_footer_bytes
from moulin.formats.segment.foreign import elements_of, hidden_keys, numbered, schema_end, with_hidden
from moulin.storage.store import Store
from moulin.table.adopt.columns import Matched, TableColumns, match_columns

_LEAST_ALIKE, _MOST_ALIKE = 4, 16  # footers that are read together; ways in which those of one schema may differ
_T = TypeVar("_T")


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
class Footer:
    """The footer of a file, and the ETag to keep of it."""

    data: bytes
    etag: str


@dataclass(slots=True)
class Plan:
    """What files have in common whose footers begin with `start`: the same with field ids, and what was matched.

    `alike` reads those together that are alike one that was met.
    """

    start: bytes
    numbered: bytes
    matched: Matched
    columns: Mapping[int, FooterColumn]
    alike: list[AlikeFooters] = field(default_factory=list)


class Footers:
    """What files of one schema have in common is found once. `read` may be used by several threads."""

    def __init__(self, store: Store, table: TableColumns) -> None:
        self._store, self._table = store, table
        self._plans: dict[frozenset[str], list[Plan]] = {}

    def read(self, files: Sequence[FoundFile]) -> list[Footer]:
        """The footers of some files."""
        return [named(file, self._footer) for file in files]

    def told(self, files: Sequence[tuple[FoundFile, Footer]]) -> list[tuple[Plan, Told]]:
        """How each of the files is read, and what its footer tells."""
        plans = [named(file, partial(self._plan, footer.data)) for file, footer in files]
        known: dict[int, Told] = {}
        for plan in {id(plan): plan for plan in plans}.values():
            at = [index for index, other in enumerate(plans) if other is plan]
            known.update(zip(at, _together(plan, [files[index] for index in at]), strict=True))
        return [(plan, known[index]) for index, plan in enumerate(plans)]

    def _footer(self, file: FoundFile) -> Footer:
        etag = file.etag
        try:
            source = self._store.reader(file.address, file.size, etag)
        except Corrupt:  # a store that spells ETags otherwise in lists: then they tell nothing
            source, etag = self._store.reader(file.address, file.size), ""
        with source:
            return Footer(read_footer_bytes(source, file.address)[0], etag)

    def _plan(self, footer: bytes, file: FoundFile) -> Plan:
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
        matched = match_columns(elements_of(start), arrow, self._table, given, file.address)
        ours = numbered(start, matched.field_ids)
        columns = footer_columns(
            decode_footer(ours + footer[len(start) :], file.address, is_sealed=True), self._table.schema
        )
        plan = Plan(start, ours, matched, columns)
        self._plans.setdefault(given, []).append(plan)
        return plan


def _together(plan: Plan, files: Sequence[tuple[FoundFile, Footer]]) -> list[Told]:
    """What footers of one plan tell: of those that are alike at once, of others one by one."""
    found: dict[int, Told] = {}
    footers = [footer.data for _, footer in files]
    left = list(range(len(files)))

    def read(alike: AlikeFooters) -> None:
        for index, one in zip(left, alike.read([footers[index] for index in left]), strict=True):
            if one is not None:
                found[index] = one
        left[:] = [index for index in left if index not in found]

    for alike in plan.alike:
        if left:
            read(alike)
    while left:
        first = left.pop(0)
        metadata, found[first] = named(files[first][0], partial(_alone, footers[first], plan))
        if len(left) >= _LEAST_ALIKE and len(plan.alike) < _MOST_ALIKE:
            with suppress(ValueError):
                plan.alike.append(AlikeFooters(footers[first], len(plan.start), metadata, plan.columns))
                read(plan.alike[-1])
    return [found[index] for index in range(len(files))]


def _alone(footer: bytes, plan: Plan, file: FoundFile) -> tuple[pq.FileMetaData, Told]:
    metadata = decode_footer(plan.numbered + footer[len(plan.start) :], file.address, is_sealed=True)
    return metadata, told(footer, metadata, plan.columns)


def named(file: FoundFile, run: Callable[[FoundFile], _T]) -> _T:
    """Errors of `run` name the file."""
    try:
        return run(file)
    except NotFound:
        raise NotFound(f"{file.address} is not there any more: adopt files that nobody is writing.") from None
    except MoulinError:
        raise
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        raise Corrupt(f"{file.address} is not a Parquet file that can be read: {_first_line(error)}.") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200].rstrip(".")


__all__ = ["Footer", "Footers", "FoundFile", "Plan", "named"]
