"""Region specs: how the keys of a table are divided among writers.

A table may be divided otherwise while it has rows. Each spec has the highest number that a region had when it took
effect: segments of regions up to that number may hold any key, so all regions of the spec look into them.
"""

# Decisions: docs/decisions/0611

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moulin.errors import Corrupt, InvalidInput
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.layout.partition import PartitionTuple, parse_spec
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.schema.values import Schema

if TYPE_CHECKING:
    import pyarrow as pa

PROPERTY = "moulin.regions"
HISTORY = "moulin.region-specs"
"""The property with all specs that a table has had, once there was more than one; a JSON list, the newest last."""

_NEVER = -1


@dataclass(frozen=True)
class RegionSpec:
    """Transforms over key columns; keys for which they give the same values are one region. None: one region.

    Regions with numbers up to `after` are of earlier specs; -1: there was none. Values of regions of a later spec begin
    with null, which no key column gives, and that number: so a value is that of one region, for ever.
    """

    schema: Schema
    spec: PartitionSpec | None
    after: int = _NEVER
    _known: dict[Any, PartitionTuple] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, schema: Schema, properties: Mapping[str, str]) -> RegionSpec:
        """The spec that a table's properties name, such as "bucket(8, id)" or "region, bucket(4, id)"."""
        text, after = properties.get(PROPERTY), retired_up_to(properties)
        if not text:
            return cls(schema, None, after)
        key = Key.of(schema)
        if key is None:
            raise InvalidInput(f"{PROPERTY} divides the keys of a table, but this one has no primary key.")
        fields = _split(text)
        spec, _ = parse_spec(fields, schema)
        for part in spec.fields:
            if part.source_id not in key.field_ids:
                name = schema.find_column_name(part.source_id)
                raise InvalidInput(f"Regions are divided by key columns alone, and {name} is not one: {text!r}.")
        return cls(schema, spec, after)

    @property
    def _mark(self) -> PartitionTuple:
        return () if self.after == _NEVER else (None, self.after.to_bytes(8, "little"))

    @property
    def sole(self) -> PartitionTuple | None:
        """The value of the only region; None when keys are divided."""
        return self._mark if self.spec is None else None

    def owns(self, value: PartitionTuple) -> bool:
        """Whether a region of this value is one of this spec."""
        mark, parts = self._mark, 0 if self.spec is None else len(self.spec.fields)
        own = value[: len(mark)] == mark if mark else value[:1] != (None,)
        return own and len(value) == len(mark) + parts

    def shared(self, number: int) -> int:
        """The same number for regions whose segments may be put together, because the same regions look into them."""
        return max(self.after, 0) if number <= self.after or self.spec is None else number

    def is_as(self, other: RegionSpec) -> bool:
        """Whether another spec divides keys into the same regions."""
        return self.spec == other.spec and self.after == other.after

    def searched(self, segments: Iterable[LiveSegment], number: int) -> list[LiveSegment]:
        """The segments that may hold keys of a region of this spec: its own, and those of earlier specs."""
        return [segment for segment in segments if segment.facts.region == number or segment.facts.region <= self.after]

    @property
    def is_split(self) -> bool:
        return self.spec is not None

    def split(self, rows: pa.Table) -> Iterator[tuple[PartitionTuple, pa.Table]]:
        """The rows of each region."""
        mark = self._mark
        if self.spec is None:
            yield mark, rows
        else:
            from moulin.model.layout.partition_rows import split_by_partition

            for value, part in split_by_partition(rows, self.spec, self.schema):
                yield (*mark, *value), part

    def value_of(self, key: Any) -> PartitionTuple:
        """The region of a key value, as `Key.check` gives it."""
        if self.spec is None:
            return self._mark
        found = self._known.get(key)
        if found is None:
            found = self._compute(key)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found

    def _compute(self, key: Any) -> PartitionTuple:
        from moulin.model.layout.partition_rows import split_by_partition

        columns = Key.of(self.schema)
        assert columns is not None
        assert self.spec is not None
        rows = columns.to_table([key])
        return next((*self._mark, *value) for value, _ in split_by_partition(rows, self.spec, self.schema))


_REMEMBERED = 65_536


def retired_up_to(properties: Mapping[str, str]) -> int:
    """The highest number of a region of an earlier spec; -1 when there was none."""
    return int(specs_of(properties)[-1].get("after", _NEVER)) if HISTORY in properties else _NEVER


def changed_at(properties: Mapping[str, str]) -> int:
    """The version in which the newest spec took effect; 0 when it is the first."""
    return int(specs_of(properties)[-1].get("version", 0)) if HISTORY in properties else 0


def specs_of(properties: Mapping[str, str]) -> list[dict[str, Any]]:
    """All specs that a table has had, the newest last: id, text, and from the second on `after` and `version`."""
    if HISTORY not in properties:
        return [{"id": 0, "regions": properties.get(PROPERTY, "")}]
    try:
        found = json.loads(properties[HISTORY])
        if found and all(isinstance(one["id"], int) for one in found):
            return list(found)
    except (ValueError, TypeError, LookupError):
        pass
    raise Corrupt(f"The property {HISTORY} cannot be read: run `moulin check`, and recover the catalog.")


def with_spec(
    properties: Mapping[str, str], before: Mapping[str, str], text: str, after: int, version: int
) -> dict[str, str]:
    """`properties` of a table that is divided by `text` from a version on, when regions had numbers up to `after`."""
    specs = specs_of(before)
    added = {"id": specs[-1]["id"] + 1, "regions": text, "after": after, "version": version}
    found = {key: value for key, value in properties.items() if key != PROPERTY}
    return {**found, **({PROPERTY: text} if text else {}), HISTORY: json.dumps([*specs, added])}


def _split(text: str) -> list[str]:
    """Fields of a list in text, at the commas that are not inside brackets."""
    parts, depth, begun = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[begun:position])
            begun = position + 1
    return [part.strip() for part in (*parts, text[begun:])]
