"""Applies the updates of a request to a view, and checks the requirements."""

# Decisions: docs/decisions/0500

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from typing import Any, Final

from moulin.errors import InvalidInput
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.commit.shapes import last_added, read_schema
from moulin.iceberg.rest.errors import commit_failed
from moulin.iceberg.rest.requests import field, texts, words
from moulin.iceberg.rest.views.documents import read_version
from moulin.model import view_history
from moulin.model.entities import ViewHistory

FORMAT_VERSION: Final = 1
_LAST: Final = -1


@dataclass(slots=True)
class Changed:
    """A view while updates are applied to it."""

    history: ViewHistory
    properties: dict[str, str]
    uuid: str
    schemas: list[int] = attribute(default_factory=list)
    versions: list[int] = attribute(default_factory=list)


def check_requirements(requirements: Sequence[Any], uuid: str) -> None:
    """Refuse a commit whose requirements do not all hold of a view with this UUID."""
    for one in requirements:
        kind = field(one, "type", str) if isinstance(one, dict) else None
        if kind != "assert-view-uuid":
            raise InvalidInput(f"{kind!r:.100} is not a requirement of views that this catalog knows.")
        if (expected := field(one, "uuid", str).lower()) != uuid:
            raise commit_failed(f"Requirement failed: view UUID does not match: expected {uuid} != {expected}")


def apply(updates: Sequence[Any], view: Changed) -> None:
    """Apply updates in order, and remove versions beyond the limit."""
    before, known = view.history.current, {one.version_id for one in view.history.versions}
    for one in updates:
        kind = field(one, "action", str) if isinstance(one, dict) else None
        update = _UPDATES.get(kind or "")
        if update is None:
            raise InvalidInput(f"{kind!r:.100} is not an update of views that this catalog knows.")
        update(view, one)
    after = view.history.current
    if after.version_id != before.version_id:
        at = time.time_ns() // 1_000_000 if after.version_id in known else after.timestamp_ms
        view.history = view_history.set_current(view.history, after.version_id, at)
    view_history.require_dialects(before, after, view.properties)
    most = max(view_history.kept(view.properties), len({*view.versions, after.version_id}))
    view.history = view_history.trimmed(view.history, min(most, view_history.MAX_KEPT))


def _assign_uuid(view: Changed, one: Json) -> None:
    if field(one, "uuid", str).lower() != view.uuid:
        raise InvalidInput("Cannot reassign uuid")


def _upgrade(view: Changed, one: Json) -> None:
    wanted = field(one, "format-version", int)
    if wanted < FORMAT_VERSION:
        raise InvalidInput(f"Cannot downgrade v{FORMAT_VERSION} view to v{wanted}")
    if wanted > FORMAT_VERSION:
        raise InvalidInput(f"Cannot upgrade view to unsupported format version: v{wanted}")


def _add_schema(view: Changed, one: Json) -> None:
    view.history, schema_id = view_history.with_schema(view.history, read_schema(field(one, "schema", dict)))
    view.schemas.append(schema_id)


def _add_version(view: Changed, one: Json) -> None:
    version = read_version(field(one, "view-version", dict))
    if version.schema_id == _LAST:
        version = replace(version, schema_id=last_added(view.schemas, "schema"))
    view.history, version_id = view_history.with_version(view.history, version)
    view.versions.append(version_id)


def _set_current(view: Changed, one: Json) -> None:
    wanted = field(one, "view-version-id", int)
    wanted = last_added(view.versions, "version") if wanted == _LAST else wanted
    log = view.history.log  # one entry for the whole commit, at its end
    view.history = replace(view_history.set_current(view.history, wanted, 0), log=log)


def _set_location(view: Changed, one: Json) -> None:
    view.history = replace(view.history, location=field(one, "location", str))


def _set_properties(view: Changed, one: Json) -> None:
    view.properties.update(texts(one, "updates"))


def _remove_properties(view: Changed, one: Json) -> None:
    for name in words(one, "removals"):
        view.properties.pop(name, None)


_UPDATES: Final[Mapping[str, Callable[[Changed, Json], None]]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "add-view-version": _add_version,
    "set-current-view-version": _set_current,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
}
