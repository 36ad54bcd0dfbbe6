"""The metrics in a time range: kind, unit and attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from moulin.console.metrics.points import keys_of
from moulin.console.telemetry import GoOn, Moment, column
from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Compare, Condition
from moulin.model.schema.values import Schema
from moulin.model.where.literal import check_unicode

MOST_NAMES: Final = 5000
MOST_ATTRIBUTES: Final = 100
_SHARED: Final = ("name", "kind", "unit", "temporality", "monotonic")


@dataclass(slots=True)
class Metric:
    """A metric as its points describe it. `attributes` are the names of those that its points have."""

    name: str
    kind: str
    unit: str
    temporality: str
    monotonic: bool
    description: str
    points: int = 0
    attributes: set[str] = field(default_factory=set)


def is_named(schema: Schema, name: str) -> Condition:
    """The points of a metric."""
    check_unicode(name)
    return Compare(column(schema, "name"), "=", name)


def list_metrics(moment: Moment, asked: Predicate, *, attributes: bool, go_on: GoOn) -> list[Metric]:
    """The metrics that points in a range have, by name. What differs in kind, unit or temporality is listed by each."""
    found: dict[tuple[object, ...], Metric] = {}
    maps = ("attributes",) if attributes else ()
    for rows in moment.batches(asked, (*_SHARED, "description", *maps), go_on=go_on):
        for batch in rows.to_batches():
            _add(found, batch, maps)
    return sorted(found.values(), key=lambda one: (one.name, one.kind, one.temporality))


def _add(found: dict[tuple[object, ...], Metric], batch: pa.RecordBatch, maps: tuple[str, ...]) -> None:
    if not batch.num_rows:
        return
    plain = pa.Table.from_batches([batch.select([*_SHARED, "description"])])
    plain = plain.append_column("at", pa.array(np.arange(batch.num_rows)))
    grouped = plain.group_by(list(_SHARED), use_threads=False).aggregate(
        [("at", "count"), ("at", "min"), ("description", "max")]
    )
    for line in grouped.to_pylist():
        key = tuple(line[name] for name in _SHARED)
        one = found.get(key)
        if one is None:
            if len(found) >= MOST_NAMES:
                raise InvalidInput(f"More than {MOST_NAMES:,} metrics are in this range: ask for a shorter one.")
            one = found[key] = Metric(
                line["name"] or "",
                line["kind"] or "",
                line["unit"] or "",
                line["temporality"] or "",
                bool(line["monotonic"]),
                line["description_max"] or "",
            )
        one.points += line["at_count"]
    if maps:
        _add_attributes(found, batch)


def _add_attributes(found: dict[tuple[object, ...], Metric], batch: pa.RecordBatch) -> None:
    keys, of = keys_of(batch.column("attributes"))
    if not len(keys):
        return
    table = pa.table({**{name: batch.column(name).take(pa.array(of)) for name in _SHARED}, "key": keys})
    for line in table.group_by([*_SHARED, "key"], use_threads=False).aggregate([]).to_pylist():
        known = found[tuple(line[name] for name in _SHARED)].attributes
        if len(known) < MOST_ATTRIBUTES:
            known.add(line["key"])


def attribute_values(moment: Moment, asked: Predicate, key: str, *, most: int, go_on: GoOn) -> list[str]:
    """The values of an attribute of the points or of their resource, in order; at most so many."""
    known: set[str] = set()
    for rows in moment.batches(asked, ("attributes", "resource"), go_on=go_on):
        for name in ("attributes", "resource"):
            known.update(one for one in pc.unique(pc.map_lookup(rows.column(name), key, "first")).to_pylist() if one)
        if len(known) > most:
            break
    return sorted(known)[:most]


__all__ = ["MOST_NAMES", "Metric", "attribute_values", "is_named", "list_metrics"]
