"""Calls between services: one for each span whose parent belongs to another service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from moulin.console.traces.spans import rows_once
from moulin.console.traces.summary import ServiceSpans
from moulin.model.columns import compute as pc

NEEDED = ("trace_id", "span_id", "parent", "service", "error")


@dataclass(frozen=True, slots=True)
class Calls:
    """`errors` are those of the spans that were called."""

    parent: str
    child: str
    calls: int
    errors: int


@dataclass(frozen=True, slots=True)
class ServiceMap:
    services: tuple[ServiceSpans, ...]
    calls: tuple[Calls, ...]


def service_map(spans: pa.Table) -> ServiceMap:
    """The services of spans in columns of OUTLINE, and the calls between them, by name."""
    spans = spans.take(rows_once(spans, ("trace_id", "span_id", "parent", "service")))
    ids, parents = (
        pc.binary_join_element_wise(spans["trace_id"], spans[name], "/").combine_chunks()
        for name in ("span_id", "parent")
    )
    found = pc.index_in(parents, value_set=ids, skip_nulls=True)
    linked = pa.table(
        {"parent": spans["service"].combine_chunks().take(found), "child": spans["service"], "error": spans["error"]}
    )
    linked = linked.filter(pc.not_equal(linked["parent"], linked["child"]))
    return ServiceMap(
        tuple(ServiceSpans(*row) for row in _counted(spans, ["service"])),
        tuple(Calls(*row) for row in _counted(linked, ["parent", "child"])),
    )


def _counted(rows: pa.Table, keys: list[str]) -> Iterator[tuple[Any, ...]]:
    counted = rows.group_by(keys, use_threads=False).aggregate([([], "count_all"), ("error", "sum")])
    counted = counted.sort_by([(key, "ascending") for key in keys])
    return zip(*(counted[name].to_pylist() for name in [*keys, "count_all", "error_sum"]), strict=True)


__all__ = ["NEEDED", "Calls", "ServiceMap", "service_map"]
