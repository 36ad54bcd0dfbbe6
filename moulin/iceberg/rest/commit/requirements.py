"""Requirements of a commit, checked against a table's metadata. One that does not hold is a 409: read again, retry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moulin.errors import InvalidInput
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.errors import commit_failed, no_such
from moulin.iceberg.rest.requests import field

# The member that holds the expected value, and where metadata has it.
_NUMBERS: Final = {
    "assert-last-assigned-field-id": ("last-assigned-field-id", "last-column-id"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id"),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id", "last-partition-id"),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id"),
}
_KNOWN: Final = {"assert-create", "assert-table-uuid", "assert-ref-snapshot-id", *_NUMBERS}


def asks_for_create(requirements: Sequence[Any]) -> bool:
    return any(isinstance(one, dict) and one.get("type") == "assert-create" for one in requirements)


def check(requirements: Sequence[Any], metadata: Json | None, name: str) -> None:
    """Refuse a commit whose requirements do not all hold; `metadata` is None when there is no such table."""
    for one in requirements:
        kind = field(one, "type", str) if isinstance(one, dict) else None
        if kind not in _KNOWN:
            raise InvalidInput(f"{kind!r} is no requirement that this catalog knows.")
    if metadata is None and not asks_for_create(requirements):
        raise no_such("Table", f"There is no table {name}.")
    for one in requirements:
        _check_one(one, metadata, name)


def _check_one(one: Json, metadata: Json | None, name: str) -> None:
    kind = one["type"]
    if kind == "assert-create":
        if metadata is not None:
            raise commit_failed(f"Table {name} exists already.")
        return
    if metadata is None:
        raise commit_failed(f"Table {name} does not exist, and {kind} is about one that does.")
    if kind == "assert-table-uuid":
        what, expected, found = "its UUID", field(one, "uuid", str).lower(), metadata["table-uuid"]
    elif kind == "assert-ref-snapshot-id":
        ref = field(one, "ref", str)
        if "snapshot-id" not in one:
            raise InvalidInput("assert-ref-snapshot-id lacks 'snapshot-id'; null means that the ref must not exist.")
        what, expected = f"the snapshot of {ref!r}", field(one, "snapshot-id", int, None)
        found = metadata["refs"].get(ref, {}).get("snapshot-id")
    else:
        member, key = _NUMBERS[kind]
        what, expected, found = f"{member}", field(one, member, int), metadata[key]
    if expected != found:
        raise commit_failed(f"Table {name} has changed: {what} was expected to be {expected}, and is {found}.")
