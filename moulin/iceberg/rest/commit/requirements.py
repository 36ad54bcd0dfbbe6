"""Checks the requirements of a commit against a table's metadata. A violated one gives 409: read again, retry."""

# Decisions: docs/decisions/0490

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moulin.errors import InvalidInput
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.errors import RestError, commit_failed, missing
from moulin.iceberg.rest.requests import field

# The member with the expected value, its place in metadata, and its name for clients.
_NUMBERS: Final = {
    "assert-last-assigned-field-id": ("last-assigned-field-id", "last-column-id", "last assigned field id"),
    "assert-current-schema-id": ("current-schema-id", "current-schema-id", "current schema"),
    "assert-last-assigned-partition-id": (
        "last-assigned-partition-id",
        "last-partition-id",
        "last assigned partition id",
    ),
    "assert-default-spec-id": ("default-spec-id", "default-spec-id", "default partition spec"),
    "assert-default-sort-order-id": ("default-sort-order-id", "default-sort-order-id", "default sort order"),
}
_KNOWN: Final = {"assert-create", "assert-table-uuid", "assert-ref-snapshot-id", *_NUMBERS}


def asks_for_create(requirements: Sequence[Any]) -> bool:
    return any(isinstance(one, dict) and one.get("type") == "assert-create" for one in requirements)


def check(requirements: Sequence[Any], metadata: Json | None, name: str) -> None:
    """Refuse a commit whose requirements do not all hold; `metadata` is None when there is no such table."""
    for one in requirements:
        kind = field(one, "type", str) if isinstance(one, dict) else None
        if kind not in _KNOWN:
            raise InvalidInput(f"{kind!r} is not a requirement that this catalog knows.")
    if metadata is None and not asks_for_create(requirements):
        raise missing("Table", name)
    for one in requirements:
        _check_one(one, metadata, name)


def _check_one(one: Json, metadata: Json | None, name: str) -> None:
    kind = one["type"]
    if kind == "assert-create":
        if metadata is not None:
            raise _failed(f"table already exists: {name}")
        return
    if metadata is None:
        raise _failed(f"table {name} does not exist, and {kind} is about one that does")
    if kind == "assert-table-uuid":
        expected, found = field(one, "uuid", str).lower(), metadata["table-uuid"]
        if expected != found:
            raise _failed(f"UUID does not match: expected {found} != {expected}")
    elif kind == "assert-ref-snapshot-id":
        _check_ref(one, metadata)
    else:
        member, key, what = _NUMBERS[kind]
        expected_number, found = field(one, member, int), metadata[key]
        if expected_number != found:
            raise _failed(f"{what} changed: expected id {expected_number} != {found}")


def _check_ref(one: Json, metadata: Json) -> None:
    ref = field(one, "ref", str)
    if "snapshot-id" not in one:
        raise InvalidInput("assert-ref-snapshot-id lacks 'snapshot-id'; null means that the ref must not exist.")
    expected, known = field(one, "snapshot-id", int, None), metadata["refs"].get(ref)
    kind = "branch" if known is None else known["type"]
    found = None if known is None else known["snapshot-id"]
    if expected == found:
        return
    if expected is None:
        raise _failed(f"{kind} {ref} was created concurrently")
    if found is None:
        raise _failed(f"branch or tag {ref} is missing, expected {expected}")
    raise _failed(f"{kind} {ref} has changed: expected id {expected} != {found}")


def _failed(what: str) -> RestError:
    """The text is that of Iceberg's own catalogs, because clients match on it."""
    return commit_failed(f"Requirement failed: {what}")
