"""Region specs: divide the keys of a table among writers, by transforms or expressions of key columns.

The division of a table can change while it has rows. Each spec has the highest number that a region had when it took
effect: segments of regions up to that number may hold any key, so all regions of the spec search them.
"""

# Decisions: docs/decisions/0611, docs/decisions/0612

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from moulin.errors import Corrupt, InvalidInput, MoulinError
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.layout.partition import PartitionTuple, parse_spec
from moulin.model.layout.partition_spec import PartitionSpec, VoidTransform
from moulin.model.schema.values import NestedField, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

# How the keys of a table are divided among writers, such as `bucket(8, id)`; `Table.set_regions` changes it.
PROPERTY = "moulin.regions"
HISTORY = "moulin.region-specs"
"""The property with all specs that a table has had, once there was more than one; a JSON list, the newest last."""

_NEVER = -1
_ERASED: Final = b"erased"


def erased_value(number: int) -> PartitionTuple:
    """The value of a region that had no rows when an erase came: no key gives it, and no other region has it."""
    return (None, _ERASED, number.to_bytes(8, "little"))


def is_erased(value: PartitionTuple) -> bool:
    """Whether a region lost its value to an erase. Nobody writes it any more."""
    return value[:2] == (None, _ERASED)


@dataclass(frozen=True)
class RegionSpec:
    """Transforms and expressions over key columns; keys for which they give the same values are one region. Without a
    `spec` there is one region.

    Regions with numbers up to `after` are of earlier specs; -1: there was none. Values of regions of a later spec begin
    with null, which no key column gives, and the version in which it took effect: so a value is that of one region, for
    ever, even if two specs have the same `after` because no region was claimed between them.
    """

    schema: Schema
    spec: PartitionSpec | None
    after: int = _NEVER
    expressions: tuple[str, ...] = ()
    version: int = 0
    _known: dict[Any, PartitionTuple] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, schema: Schema, properties: Mapping[str, str]) -> RegionSpec:
        """The spec that a table's properties name, such as "bucket(8, id)" or "area, id < 1000000"."""
        text, after, version = properties.get(PROPERTY), retired_up_to(properties), changed_at(properties)
        if not text:
            return cls(schema, None, after, version=version)
        key = Key.of(schema)
        if key is None:
            raise InvalidInput(f"{PROPERTY} needs a primary key, but this table has none.")
        transforms, expressions = list[str](), list[str]()
        for part in _split(text):
            (transforms if _is_transform(part, schema, key) else expressions).append(part)
        spec, _ = parse_spec(transforms, schema)
        if any(isinstance(one.transform, VoidTransform) for one in spec.fields):
            raise InvalidInput(f"void does not divide keys: remove it from {text!r}.")
        for one in spec.fields:
            if one.source_id not in key.field_ids:
                name = schema.find_column_name(one.source_id)
                raise InvalidInput(f"Regions are divided by key columns alone, and {name} is not one: {text!r}.")
        return cls(schema, spec, after, tuple(expressions), version)

    @property
    def _parts(self) -> int:
        return 0 if self.spec is None else len(self.spec.fields) + len(self.expressions)

    @property
    def _mark(self) -> PartitionTuple:
        return () if self.after == _NEVER else (None, self.version.to_bytes(8, "little"))

    @property
    def sole(self) -> PartitionTuple | None:
        """The value of the only region; None when keys are divided."""
        return self._mark if self.spec is None else None

    def owns(self, value: PartitionTuple) -> bool:
        """Whether a region of this value is one of this spec."""
        mark, parts = self._mark, self._parts
        own = value[: len(mark)] == mark if mark else value[:1] != (None,)
        return own and len(value) == len(mark) + parts

    def shared(self, number: int) -> int:
        """The same number for regions whose segments may be put together, because the same regions look into them."""
        return max(self.after, 0) if number <= self.after or self.spec is None else number

    def is_as(self, other: RegionSpec) -> bool:
        """Whether another spec divides keys into the same regions."""
        mine, theirs = ((one.spec, one.after, one.expressions, one.version) for one in (self, other))
        return mine == theirs

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
            return
        from moulin.model.layout.partition_rows import split_by_partition

        for value, part in split_by_partition(rows, self.spec, self.schema):
            for rest, some in self._by_expressions(part, self.expressions):
                yield (*mark, *value, *rest), some

    def _by_expressions(self, rows: pa.Table, texts: tuple[str, ...]) -> Iterator[tuple[PartitionTuple, pa.Table]]:
        if not texts:
            yield (), rows
            return
        key = Key.of(self.schema)
        assert key is not None
        for value, part in _split_by_value(rows, _expression(texts[0], key.fields), texts[0]):
            for rest, some in self._by_expressions(part, texts[1:]):
                yield (value, *rest), some

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
        columns = Key.of(self.schema)
        assert columns is not None
        return next(value for value, _ in self.split(columns.to_table([key])))


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
    """Fields of a list in text, at the commas that are inside neither brackets nor quotes."""
    parts, depth, begun, quoted = [], 0, 0, False
    for position, letter in enumerate(text):
        quoted ^= letter == "'"
        depth += 0 if quoted else (letter == "(") - (letter == ")")
        if letter == "," and depth == 0 and not quoted:
            parts.append(text[begun:position])
            begun = position + 1
    return [part.strip() for part in (*parts, text[begun:])]


_BY_CASE = re.compile(r"\b(lower|upper|ilike)\b", re.IGNORECASE)
_TEXTS = re.compile(r"'[^']*'")


def _is_transform(text: str, schema: Schema, key: Key) -> bool:
    """Whether a part of a spec is a transform; else it is an expression. InvalidInput when it is neither."""
    try:
        parse_spec([text], schema)
    except MoulinError as error:
        try:
            _expression(text, key.fields)
        except MoulinError as other:
            raise InvalidInput(
                f"Regions must be transforms or expressions of key columns, but {text!r} is neither. As a "
                f"transform: {error.message} As an expression: {other.message}"
            ) from None
        return False
    return True


@lru_cache(maxsize=256)
def _expression(text: str, key: tuple[NestedField, ...]) -> pc.Expression:
    """What divides keys by a condition, or by whole numbers or texts that are computed of them.

    The same key must be in the same region for ever: what depends on tables of letters, or on how floats are rounded,
    is refused.
    """
    from moulin.model.where import parse_term, parse_where  # here: opening a lake loads no Arrow
    from moulin.model.where.formula import Formula

    if _BY_CASE.search(_TEXTS.sub("", text)):
        raise InvalidInput("lower and upper cannot divide keys, because their results may change between releases.")
    schema = Schema(*key)
    try:
        predicate = parse_where(text, schema)
    except InvalidInput as refused:
        try:
            term = parse_term(text, schema)
        except InvalidInput:
            raise refused from None
        if not isinstance(term, Formula) or term.kind not in ("whole", "text") or not term.columns:
            raise InvalidInput(
                "It must return an integer, a string or a condition of key columns, such as id < 1000."
            ) from None
        return term.expression
    if not predicate.columns:
        raise InvalidInput("It uses no key column.")
    return predicate.expression


def _split_by_value(rows: pa.Table, expression: pc.Expression, text: str) -> Iterator[tuple[bytes, pa.Table]]:
    """The rows for which an expression gives the same value, in their order."""
    import numpy as np
    import pyarrow as pa

    from moulin.model.predicate.evaluation import evaluate

    try:
        values = evaluate(expression, rows).combine_chunks().dictionary_encode()
    except pa.ArrowException as error:
        raise InvalidInput(f"The region of a key cannot be computed by {text}: {str(error).splitlines()[0]}.") from None
    distinct = values.dictionary.to_pylist()
    if len(distinct) == 1:
        yield _to_bytes(distinct[0]), rows
        return
    codes = values.indices.to_numpy()
    for code, value in enumerate(distinct):
        yield _to_bytes(value), rows.take(pa.array(np.flatnonzero(codes == code)))


def _to_bytes(value: bool | int | str) -> bytes:
    match value:
        case bool():
            return b"\x01" if value else b"\x00"
        case int():
            return value.to_bytes(8, "little", signed=True)
    return value.encode()
