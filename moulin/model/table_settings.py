"""Table settings for maintenance: retention, merge span, sharding fields. They are stored in its properties."""

# Decisions: docs/decisions/0085

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moulin.errors import InvalidInput

FOLD, LAG = "fold", "lag"
# The comments are what the reference says of them: `python -m tests.docs.reference`.

# How old rows of an event table may become, in nanoseconds of event time; without it they are kept for ever.
RETENTION = "moulin.retention-ns"
# The longest time that one compaction of an event table spans, in nanoseconds.
MERGE_SPAN = "moulin.max-merge-span-ns"
# Columns by which compactions cluster rows, as a JSON list of [column, weight].
SHARDING = "moulin.sharding-fields"
# Columns that were added with values, for Iceberg engines: `fold` (the default) rewrites the files first, `lag` leaves
# the columns out until a compaction has done so.
PROJECTION = "moulin.projection"
# With `true`, appends of Iceberg engines that lost a race follow the newest snapshot instead of failing.
REBASE_APPENDS = "moulin.rebase-appends"
_ON, _OFF = "true", "false"

_MAX = (1 << 63) - 1
_MAX_FIELDS = 256
_SHARE = (
    40  # without an override, a compaction spans at most this part of the retention: 4.2 h of 7 days, 18 h of 30 days
)


@dataclass(frozen=True, slots=True)
class ShardingField:
    """A field that rows of one segment should have in common, and how much that counts."""

    name: str
    weight: float


# What a table for OpenTelemetry data starts with.
DEFAULT_SHARDING = (
    ShardingField("metric_name", 10.0),
    ShardingField("trace_id", 2.0),
    ShardingField("span_id", 1.0),
    ShardingField("severity_text", 1.0),
    ShardingField("resource.service.name", 10.0),
    ShardingField("resource.service.namespace", 1.0),
    ShardingField("resource.k8s.deployment.name", 5.0),
)

# Where the tables of telemetry keep what these fields stand for.
_COLUMNS = {"metric_name": "name", "resource.service.name": "service_name"}


def retention_ns(properties: Mapping[str, str]) -> int | None:
    """How old rows may become; None: they are kept for ever."""
    return _duration(RETENTION, properties.get(RETENTION))


def merge_span_override_ns(properties: Mapping[str, str]) -> int | None:
    """The longest time that one compaction may span, where the table says so itself."""
    return _duration(MERGE_SPAN, properties.get(MERGE_SPAN))


def merge_span_ns(properties: Mapping[str, str], cap_seconds: float) -> int:
    """The longest time that one compaction may span: the table's own, else a part of its retention, else the cap."""
    own, kept, cap = merge_span_override_ns(properties), retention_ns(properties), int(cap_seconds * 1e9)
    if own is not None:
        return own
    return cap if kept is None else max(1, min(cap, kept // _SHARE))


def sharding_fields(properties: Mapping[str, str]) -> tuple[ShardingField, ...]:
    """The sharding fields in their order."""
    if SHARDING not in properties:
        return ()
    try:
        pairs = json.loads(properties[SHARDING])
        fields = [ShardingField(name, float(weight)) for name, weight in pairs]
    except (ValueError, TypeError):
        raise InvalidInput(f"Property {SHARDING!r} must be a JSON list of [field, weight] pairs.") from None
    return check_sharding(fields)


def sharding_columns(properties: Mapping[str, str], columns: Sequence[str]) -> tuple[str, ...]:
    """Those of `columns` that are sharding fields, the most heavily weighted first.

    A field is a column of its name, or the one that holds what OpenTelemetry calls so. Others count for nothing.
    """
    found: dict[str, float] = {}
    for field in sharding_fields(properties):
        name = field.name if field.name in columns else _COLUMNS.get(field.name, field.name)
        if field.weight > 0 and name in columns:
            found[name] = max(field.weight, found.get(name, 0.0))
    return tuple(sorted(found, key=lambda name: -found[name]))


def sharding_property(fields: Sequence[ShardingField]) -> str:
    """Sharding fields as the text of their property."""
    return json.dumps([[field.name, field.weight] for field in check_sharding(fields)])


def check_sharding(fields: Sequence[ShardingField]) -> tuple[ShardingField, ...]:
    """The fields themselves; InvalidInput names one that makes no sense."""
    if len(fields) > _MAX_FIELDS:
        raise InvalidInput(f"A table can have at most {_MAX_FIELDS} sharding fields, not {len(fields)}.")
    seen: set[str] = set()
    for field in fields:
        if not isinstance(field.name, str) or not field.name.strip():
            raise InvalidInput("A sharding field needs a name.")
        if field.name in seen:
            raise InvalidInput(f"Sharding field {field.name!r} is named twice.")
        if not math.isfinite(field.weight) or field.weight < 0:
            raise InvalidInput(
                f"The weight of sharding field {field.name!r} must be zero or more and finite, not {field.weight}."
            )
        seen.add(field.name)
    return tuple(fields)


def check_duration(name: str, nanoseconds: int) -> int:
    """A positive time in nanoseconds that 63 bits hold."""
    if not 0 < nanoseconds <= _MAX:
        raise InvalidInput(f"{name} must be from 1 to {_MAX} nanoseconds, not {nanoseconds}; remove it for none.")
    return nanoseconds


def check_setting(name: str, text: str) -> bool:
    """Whether `name` is a setting of this module; InvalidInput when its value does not fit."""
    if name in (RETENTION, MERGE_SPAN):
        _duration(name, text)
    elif name == SHARDING:
        sharding_fields({SHARDING: text})
    elif name == PROJECTION:
        if text not in (FOLD, LAG):
            raise InvalidInput(f"Property {PROJECTION!r} is {FOLD!r} or {LAG!r}, not {text!r}.")
    elif name == REBASE_APPENDS:
        if text not in (_ON, _OFF):
            raise InvalidInput(f"Property {REBASE_APPENDS!r} is {_ON!r} or {_OFF!r}, not {text!r}.")
    else:
        return False
    return True


def rebases_appends(properties: Mapping[str, str]) -> bool:
    """Whether conflicting appends of engines are rebased onto the newest snapshot instead of failing."""
    return properties.get(REBASE_APPENDS) == _ON


def _duration(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return check_duration(name, int(text))
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"Property {name!r} takes whole nanoseconds, not {text!r}.") from None
