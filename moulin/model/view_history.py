"""The versions of a view: adding, keeping, and storing them.

A history comes from engines, so everything in it is checked here.
"""

# Decisions: docs/decisions/0500

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from moulin.errors import Corrupt, InvalidInput
from moulin.model.entities import Representation, ViewHistory, ViewQuery, ViewVersion
from moulin.model.names import AT, on_branch
from moulin.model.schema.documents import schema_from_json, schema_to_json
from moulin.model.schema.values import Schema
from moulin.model.texts import MAX_KEY, check_text, check_texts

KEPT_PROPERTY: Final = "version.history.num-entries"
DROP_PROPERTY: Final = "replace.drop-dialect.allowed"
KEPT: Final = 10
"""Versions that are kept where the view does not say how many."""
MAX_KEPT: Final = 100
MAX_BYTES: Final = 1 << 20
"""Of a history as it is stored: older versions go before it is longer."""
_MAX_ID: Final = 2**31 - 1
_MAX_TIME: Final = 2**53
_MAX_PARTS: Final = 32


@dataclass(frozen=True, slots=True)
class Home:
    """Where names in the text of a view belong that do not say it, and the catalog that the lake was to its writer."""

    database: str
    catalog: str | None = None

    @staticmethod
    def of(database: str, query: ViewQuery) -> Home:
        """The home of a query of a view of `database`; with that it is on a branch, or not."""
        version = None if query.history is None else query.history.current
        if version is None or not version.default_namespace:
            return Home(database)
        return Home(beside(database, ".".join(version.default_namespace)), version.default_catalog)

    def full(self, parts: Sequence[str]) -> list[str]:
        """A name with its database, as the lake knows it."""
        named = list(parts)
        if len(named) > 2 and self.catalog is not None and named[0].lower() == self.catalog.lower():
            del named[0]
        return [self.database, *named] if len(named) == 1 else named


def beside(database: str, named: str) -> str:
    """A database that the text of a view of `database` names: where that is on a branch, names without one are, too."""
    return named if AT in named or AT not in database else on_branch(named, database.rpartition(AT)[2])


def begun(query: ViewQuery, database: str, created_at: int) -> ViewHistory:
    """The history of a query that has none yet: its present version alone."""
    at = created_at // 1_000_000
    summary = {"engine-name": "moulin"}
    schema_id = query.schema.schema_id
    version = ViewVersion(query.version, at, schema_id, summary, query.representations, (database,))
    return ViewHistory(version.version_id, (version,), ((at, version.version_id),), (query.schema,))


def extended(history: ViewHistory, schema: Schema, version: ViewVersion) -> ViewHistory:
    """The history with a version more, under an id of its own, which is the current one.

    What is there already, texts and columns alike, gets no other id.
    """
    history, schema_id = with_schema(history, schema)
    history, version_id = with_version(history, replace(version, schema_id=schema_id))
    return history if version_id == history.current_id else set_current(history, version_id, version.timestamp_ms)


def with_schema(history: ViewHistory, schema: Schema) -> tuple[ViewHistory, int]:
    """The history that has a schema, and its id there."""
    for one in history.schemas:
        if one.as_struct() == schema.as_struct() and set(one.identifier_field_ids) == set(schema.identifier_field_ids):
            return history, one.schema_id
    schema_id = max((one.schema_id for one in history.schemas), default=-1) + 1
    made = Schema(*schema.fields, schema_id=schema_id, identifier_field_ids=schema.identifier_field_ids)
    return replace(history, schemas=(*history.schemas, made)), schema_id


def with_version(history: ViewHistory, version: ViewVersion) -> tuple[ViewHistory, int]:
    """The history that has a version, and its id there: that of one that means the same, else a new one."""
    for one in history.versions:
        if replace(one, version_id=version.version_id, timestamp_ms=version.timestamp_ms) == version:
            return history, one.version_id
    if version.schema_id not in {one.schema_id for one in history.schemas}:
        raise InvalidInput(f"Cannot add version with unknown schema: {version.schema_id}")
    check_dialects(version.representations)
    version_id = max([version.version_id, *(one.version_id + 1 for one in history.versions)])
    made = replace(version, version_id=version_id)
    return replace(history, versions=(*history.versions, made)), version_id


def set_current(history: ViewHistory, version_id: int, at_ms: int) -> ViewHistory:
    """The history with another current version, from a time on."""
    if version_id not in {one.version_id for one in history.versions}:
        raise InvalidInput(f"Cannot set current version to unknown version: {version_id}")
    return replace(history, current_id=version_id, log=(*history.log, (at_ms, version_id)))


def kept(properties: Mapping[str, str]) -> int:
    """How many versions a view with these properties keeps."""
    text = properties.get(KEPT_PROPERTY, str(KEPT))
    try:
        number = int(text)
    except ValueError:
        raise InvalidInput(f"{KEPT_PROPERTY} is a number, not {text!r:.60}.") from None
    if number <= 0:
        raise InvalidInput(f"{KEPT_PROPERTY} must be positive but was {number}")
    return min(number, MAX_KEPT)


def trimmed(history: ViewHistory, most: int) -> ViewHistory:
    """The history with at most so many versions, the newest and the current one, and no longer than it may be."""
    while len(history.versions) > 1:
        if len(history.versions) <= most and len(history_to_json(history)) <= MAX_BYTES:
            break
        oldest = min(one.version_id for one in history.versions if one.version_id != history.current_id)
        log: list[tuple[int, int]] = []
        for entry in history.log:
            log = [] if entry[1] == oldest else [*log, entry]  # nothing is known of the time before it
        versions = tuple(one for one in history.versions if one.version_id != oldest)
        history = replace(history, versions=versions, log=tuple(log))
    used = {one.schema_id for one in history.versions}
    if len(history_to_json(history)) > MAX_BYTES:
        history = replace(history, schemas=tuple(one for one in history.schemas if one.schema_id in used))
    if len(history_to_json(history)) > MAX_BYTES:
        raise InvalidInput(f"A view has at most {MAX_BYTES >> 20} MiB of texts and columns: make it of smaller views.")
    return history


def require_dialects(before: ViewVersion, after: ViewVersion, properties: Mapping[str, str]) -> None:
    """InvalidInput when a replaced version had a text for a dialect that the new one lacks, unless that is allowed."""
    if properties.get(DROP_PROPERTY, "false").lower() == "true":
        return
    old, new = ([one.dialect.lower() for one in version.representations] for version in (before, after))
    if set(old) - set(new):
        raise InvalidInput(
            f"Cannot replace view due to loss of view dialects ({DROP_PROPERTY}=false):\n"
            f"Previous dialects: [{', '.join(old)}]\nNew dialects: [{', '.join(new)}]"
        )


def check_dialects(representations: Sequence[Representation]) -> None:
    """Refuse texts without a dialect, and two for the same one."""
    seen: set[str] = set()
    for one in representations:
        if not check_text(one.dialect, "dialect of a view", MAX_KEY).strip():
            raise InvalidInput("A text of a view needs the name of its dialect, such as spark.")
        if not check_text(one.sql, "text of a view").strip():
            raise InvalidInput("The text of a view is a query, and this one is empty.")
        if (name := one.dialect.lower()) in seen:
            raise InvalidInput(f"Invalid view version: Cannot add multiple queries for dialect {name}")
        seen.add(name)
    if not seen:
        raise InvalidInput("A view has one text for each of its dialects, and at least one.")


def check_history(query: ViewQuery) -> None:
    """Refuse a history that a catalog cannot keep, or that is not that of the query."""
    history = query.history
    if history is None:
        return
    ids, schemas = [one.version_id for one in history.versions], {one.schema_id for one in history.schemas}
    if len(set(ids)) != len(ids) or history.current_id not in ids or len(schemas) != len(history.schemas):
        raise InvalidInput("The history of a view has each version and schema once, and its current one.")
    if any(one.schema_id not in schemas for one in history.versions) or not {one[1] for one in history.log} <= {*ids}:
        raise InvalidInput("The history of a view names versions and schemas that it has.")
    for one in history.versions:
        _check_version(one)
    if any(not 0 <= at <= _MAX_TIME for at, _ in history.log):
        raise InvalidInput("The times in the history of a view are milliseconds since 1970.")
    for text in (history.location, history.uuid):
        if text is not None:
            check_text(text, "location of a view", 4 * MAX_KEY)
    if history.current.representations != query.representations or history.schema != query.schema:
        raise InvalidInput("The texts and columns of a view are those of its current version.")
    if len(ids) > MAX_KEPT or len(history_to_json(history)) > MAX_BYTES:
        raise InvalidInput(f"A view keeps at most {MAX_KEPT} versions, and {MAX_BYTES >> 20} MiB of them.")


def _check_version(version: ViewVersion) -> None:
    check_dialects(version.representations)
    if not 0 < version.version_id <= _MAX_ID or not 0 <= version.timestamp_ms <= _MAX_TIME:
        raise InvalidInput("A version of a view has a number from 1 on, and a time in milliseconds since 1970.")
    check_texts(version.summary, "summary of a view")
    if len(version.default_namespace) > _MAX_PARTS:
        raise InvalidInput(f"A namespace has at most {_MAX_PARTS} parts.")
    for part in (*version.default_namespace, version.default_catalog or ""):
        check_text(part, "name in a view", MAX_KEY)


def history_to_json(history: ViewHistory) -> str:
    versions = [
        {
            "id": one.version_id,
            "at": one.timestamp_ms,
            "schema": one.schema_id,
            "summary": dict(one.summary),
            "texts": [[text.dialect, text.sql] for text in one.representations],
            "namespace": list(one.default_namespace),
            "catalog": one.default_catalog,
        }
        for one in history.versions
    ]
    document = {
        "current": history.current_id,
        "versions": versions,
        "log": [list(one) for one in history.log],
        "schemas": [json.loads(schema_to_json(one)) for one in history.schemas],
        "location": history.location,
        "uuid": history.uuid,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def history_from_json(text: str) -> ViewHistory:
    """Corrupt when it is not what `history_to_json` writes."""
    try:
        found = json.loads(text)
        return ViewHistory(
            _number(found["current"]),
            tuple(_version(one) for one in found["versions"]),
            tuple((_number(at), _number(version_id)) for at, version_id in found["log"]),
            tuple(schema_from_json(json.dumps(one)) for one in found["schemas"]),
            _text_or_none(found["location"]),
            _text_or_none(found["uuid"]),
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise Corrupt(f"The history of a view cannot be read ({type(error).__name__}).") from None


def _version(found: Mapping[str, Any]) -> ViewVersion:
    return ViewVersion(
        _number(found["id"]),
        _number(found["at"]),
        _number(found["schema"]),
        {str(key): _text(value) for key, value in found["summary"].items()},
        tuple(Representation(_text(dialect), _text(sql)) for dialect, sql in found["texts"]),
        tuple(_text(part) for part in found["namespace"]),
        _text_or_none(found["catalog"]),
    )


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("no number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)
