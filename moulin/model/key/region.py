"""Region specs: how the keys of a table are divided among writers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moulin.errors import InvalidInput
from moulin.model.key.key import Key
from moulin.model.layout.partition import PartitionTuple, parse_spec
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.schema.values import Schema

if TYPE_CHECKING:
    import pyarrow as pa

PROPERTY = "moulin.regions"


@dataclass(frozen=True)
class RegionSpec:
    """Transforms over key columns; keys for which they give the same values are one region. None: one region."""

    schema: Schema
    spec: PartitionSpec | None
    _known: dict[Any, PartitionTuple] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, schema: Schema, properties: Mapping[str, str]) -> RegionSpec:
        """The spec that a table's properties name, such as "bucket(8, id)" or "region, bucket(4, id)"."""
        text = properties.get(PROPERTY)
        if not text:
            return cls(schema, None)
        key = Key.of(schema)
        if key is None:
            raise InvalidInput(f"{PROPERTY} divides the keys of a table, but this one has no primary key.")
        fields = _split(text)
        spec, _ = parse_spec(fields, schema)
        for part in spec.fields:
            if part.source_id not in key.field_ids:
                name = schema.find_column_name(part.source_id)
                raise InvalidInput(f"Regions are divided by key columns alone, and {name} is not one: {text!r}.")
        return cls(schema, spec)

    @property
    def is_split(self) -> bool:
        return self.spec is not None

    def split(self, rows: pa.Table) -> Iterator[tuple[PartitionTuple, pa.Table]]:
        """The rows of each region."""
        if self.spec is None:
            yield (), rows
        else:
            from moulin.model.layout.partition_rows import split_by_partition

            yield from split_by_partition(rows, self.spec, self.schema)

    def value_of(self, key: Any) -> PartitionTuple:
        """The region of a key value, as `Key.check` gives it."""
        if self.spec is None:
            return ()
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
        return next(value for value, _ in split_by_partition(rows, self.spec, self.schema))


_REMEMBERED = 65_536


def _split(text: str) -> list[str]:
    """Fields of a list in text, at the commas that are not inside brackets."""
    parts, depth, begun = [], 0, 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[begun:position])
            begun = position + 1
    return [part.strip() for part in (*parts, text[begun:])]
