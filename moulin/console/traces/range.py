"""Summaries of the spans in a time range: services, operations, and calls between services."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from moulin.console.telemetry import GoOn, Moment
from moulin.console.traces.search import Asked, batches_of, parts
from moulin.console.traces.service_map import ServiceMap, service_map
from moulin.console.traces.spans import OUTLINE, needed, outline
from moulin.console.traces.summary import ServiceSpans
from moulin.model.columns import compute as pc
from moulin.model.otel import SERVICE

MOST_NAMES: Final = 1000
MOST_COUNTED: Final = 20_000_000
"""Spans that are counted; where there are more, of the newest alone."""
MOST_MAPPED: Final = 1_000_000
"""Spans of which calls are counted: the ids of each are in memory."""


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    kind: str
    spans: int


@dataclass(frozen=True, slots=True)
class CallsSince:
    """The map of `spans` spans that began `since` then; `whole` unless that is later than was asked for."""

    map: ServiceMap
    spans: int
    since: int
    whole: bool


def services_of(moment: Moment, asked: Asked, go_on: GoOn) -> list[ServiceSpans]:
    """The services with spans that fit, by name, at most MOST_NAMES."""
    counted = _counted(moment, asked, [SERVICE], go_on)
    return [ServiceSpans(*row) for row in zip(*counted, strict=True)]


def operations_of(moment: Moment, asked: Asked, go_on: GoOn) -> list[Operation]:
    """The names and kinds of spans that fit, by name, at most MOST_NAMES."""
    names, kinds, spans, _ = _counted(moment, asked, ["name", "kind"], go_on)
    return [Operation(*row) for row in zip(names, kinds, spans, strict=True)]


def _counted(moment: Moment, asked: Asked, keys: list[str], go_on: GoOn) -> list[list[Any]]:
    """Values of the keys, and of each how many spans and errors there are."""
    schema = pa.schema([*((key, pa.string()) for key in keys), ("spans", pa.int64()), ("errors", pa.int64())])
    held, count = schema.empty_table(), 0
    for start, end in parts(asked.since, asked.until):
        for rows in batches_of(moment, replace(asked, since=start, until=end), [*keys, "status_code"], go_on):
            errors = pc.fill_null(pc.equal(rows["status_code"], "error"), False).cast(pa.int64())
            ones = pa.array(np.ones(rows.num_rows, np.int64))
            texts = [pc.fill_null(rows[key], "") for key in keys]
            held = pa.concat_tables([held, _summed(pa.table([*texts, ones, errors], schema=schema), keys)])
            held = _summed(held, keys) if held.num_rows > 16 * MOST_NAMES else held
            count += rows.num_rows
        if count > MOST_COUNTED:
            break
    held = _summed(held, keys).sort_by([(key, "ascending") for key in keys]).slice(0, MOST_NAMES)
    return [column.to_pylist() for column in held.columns]


def _summed(rows: pa.Table, keys: list[str]) -> pa.Table:
    summed = rows.group_by(keys).aggregate([("spans", "sum"), ("errors", "sum")])
    return summed.rename_columns(rows.schema.names)


def service_calls(moment: Moment, asked: Asked, go_on: GoOn) -> CallsSince:
    """The calls between services, of spans that fit; of the newest ones alone where there are too many."""
    held, count, since = [OUTLINE.empty_table()], 0, asked.until
    names = needed([field.name for field in moment.schema.fields])
    for start, end in parts(asked.since, asked.until):
        for rows in batches_of(moment, replace(asked, since=start, until=end), names, go_on):
            held.append(outline(rows))
            count += rows.num_rows
            if count > MOST_MAPPED:
                break
        since = start
        if count > MOST_MAPPED:
            break
    spans = pa.concat_tables(held)
    return CallsSince(service_map(spans), spans.num_rows, since, count <= MOST_MAPPED)


__all__ = ["CallsSince", "Operation", "operations_of", "service_calls", "services_of"]
