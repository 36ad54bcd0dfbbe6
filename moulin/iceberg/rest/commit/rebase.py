"""Rebases conflicting appends of engines onto the current snapshot, if the table allows it.

An append only adds files, so it means the same after any other commit. The specification requires the ref to be where
the client says, so this is off unless the table has the property `moulin.rebase-appends`.
"""

# Decisions: docs/decisions/0510

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moulin.errors import InvalidInput
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.commit.updates import Wanted
from moulin.iceberg.rest.errors import commit_failed
from moulin.model import request_ids
from moulin.model.entities import TableState
from moulin.model.operations import Append, DataOperation
from moulin.model.schema.values import NestedField
from moulin.model.table_settings import rebases_appends
from moulin.model.tags import MAIN


@dataclass(frozen=True, slots=True)
class FreeAppend:
    """An append that can be rebased: the snapshot that its writer saw, and its other requirements."""

    before: Json | None
    first: Json
    requirements: tuple[Any, ...]
    text: str

    @property
    def follows_any(self) -> bool:
        """Whether there are no requirements that others may violate; otherwise it is based on the checked head."""
        return all(one.get("type") == "assert-table-uuid" for one in self.requirements if isinstance(one, dict))


def free_append(state: TableState, base: Json, requirements: Sequence[Any], wanted: Wanted) -> FreeAppend | None:
    """The append that a commit is, if the table rebases appends and the commit is nothing else."""
    if not rebases_appends(state.properties) or not _only_appends(wanted) or base.get("format-version") == 1:
        return None
    first = first_added(wanted.snapshots, wanted.main)
    parent = parent_of(first)
    before = next((one for one in base["snapshots"] if one["snapshot-id"] == parent), None)
    if parent is not None and before is None:
        return None  # its files can no longer be distinguished from the table's
    held = [one for one in requirements if not _is_about(one, parent)]
    return FreeAppend(before, first, tuple(held), f"{state.id} {requirements!r} {wanted!r}")


def request_id(appends: Sequence[FreeAppend]) -> str:
    """The id of a commit that is nothing but such appends: sent again, it is not made again."""
    return f"{request_ids.ICEBERG}{hashlib.sha256(repr([one.text for one in appends]).encode()).hexdigest()}"


def _only_appends(wanted: Wanted) -> bool:
    """Whether a commit adds snapshots of appends to main, and does nothing else."""
    if not wanted.snapshots or wanted.main is None:
        return False
    alone = Wanted(uuid=wanted.uuid, snapshots=wanted.snapshots, main=wanted.main)
    return wanted == alone and all((one.get("summary") or {}).get("operation") == "append" for one in wanted.snapshots)


def first_added(snapshots: Sequence[Json], last: int | None) -> Json:
    """The first of the added snapshots that lead to `last`, which is one of them."""
    by_id = {one["snapshot-id"]: one for one in snapshots}
    if last not in by_id:
        raise InvalidInput(f"The branch {MAIN!r} is set to snapshot {last}, and the commit adds other ones.")
    first, steps = by_id[last], 0
    while (parent := first.get("parent-snapshot-id")) in by_id and steps < len(by_id):
        first, steps = by_id[parent], steps + 1
    return first


def parent_of(snapshot: Json) -> int | None:
    parent = snapshot.get("parent-snapshot-id")
    return None if parent in (None, -1) else int(parent)


def _is_about(requirement: Any, parent: int | None) -> bool:
    """Whether a requirement says that main is at the snapshot which an append follows."""
    if not isinstance(requirement, dict) or requirement.get("type") != "assert-ref-snapshot-id":
        return False
    return requirement.get("ref") == MAIN and requirement.get("snapshot-id", ...) == parent


def check_numbers(state: TableState, append: FreeAppend) -> None:
    """Refuse an append that the table's history cannot have led to. Its own numbers are given at commit."""
    first, before = append.first, append.before
    least = 0 if before is None else int(before["sequence-number"])
    if not least < first["sequence-number"] <= state.last_sequence + 1:
        raise commit_failed(
            f"A snapshot after sequence number {least} of {state.full_name} has one up to {state.last_sequence + 1}, "
            f"not {first['sequence-number']}."
        )
    row_id = first.get("first-row-id")
    if row_id is not None and not 0 <= row_id <= state.next_row_id:
        raise commit_failed(f"The next row id of {state.full_name} is {state.next_row_id}, not {row_id}.")


def check_schema(state: TableState, append: FreeAppend) -> None:
    """Refuse an append whose files do not fit the schema of now: columns that were added since may be null, and no
    other change is taken. A writer that reads the table again knows what to write.
    """
    number = append.first.get("schema-id", (append.before or {}).get("schema-id"))
    if number is None or number == state.schema_id:
        return
    if number not in state.schemas:
        raise InvalidInput(f"{state.full_name} has no schema {number}.")
    now = {field.field_id: field for field in state.schema.fields}
    then = {field.field_id: field for field in state.schemas[number].fields}
    if (name := _unlike(now, then)) is not None:
        raise commit_failed(
            f"The schema of {state.full_name} changed since the snapshot was written: column {name} is not as it was."
        )


def _unlike(now: Mapping[int, NestedField], then: Mapping[int, NestedField]) -> str | None:
    """A column that rows of an earlier schema would lose, have in another type, or lack though it is required."""
    for number, field in then.items():
        if number not in now or now[number].field_type != field.field_type:
            return field.name
        if now[number].required and not field.required:
            return field.name
    return next((field.name for number, field in now.items() if number not in then and field.required), None)


def is_pure(operation: DataOperation | None) -> bool:
    """Whether a snapshot only added rows."""
    return isinstance(operation, Append) and not operation.added_vectors
