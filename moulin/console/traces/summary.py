"""A row for each of many traces, as a list shows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from moulin.console.traces.spans import numbers, rows_once
from moulin.model.columns import compute as pc


@dataclass(frozen=True, slots=True)
class ServiceSpans:
    """How many spans of a trace, or a range of time, are of one service, and how many of them failed."""

    service: str
    spans: int
    errors: int


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """`service` and `name` are those of the first root; of the first span when no root is there (`rooted` is false)."""

    trace_id: str
    start: int
    end: int
    service: str
    name: str
    rooted: bool
    spans: int
    errors: int
    services: tuple[ServiceSpans, ...]


def summarize(spans: pa.Table) -> dict[str, TraceSummary]:
    """Of spans in columns of OUTLINE, each trace by its id. Spans without a trace id are left out."""
    spans = spans.filter(pc.is_valid(spans["trace_id"]))
    spans = spans.take(rows_once(spans))
    if not spans.num_rows:
        return {}
    start, end = numbers(spans, "start"), numbers(spans, "end")
    ids = spans["trace_id"].combine_chunks().dictionary_encode()
    codes = np.asarray(ids.indices)
    has_parent = pc.is_valid(spans["parent"]).to_numpy()
    order = np.lexsort((start, has_parent, codes))
    edges = np.flatnonzero(np.append(True, np.diff(codes[order]) > 0))
    firsts = order[edges]
    errors = spans["error"].to_numpy().astype(np.int64)
    services = _services(spans)
    columns = (
        ids.dictionary.take(pa.array(codes[firsts])).to_pylist(),
        np.minimum.reduceat(start[order], edges).tolist(),
        np.maximum.reduceat(end[order], edges).tolist(),
        spans["service"].take(firsts).to_pylist(),
        spans["name"].take(firsts).to_pylist(),
        (~has_parent[firsts]).tolist(),
        np.diff(np.append(edges, len(order))).tolist(),
        np.add.reduceat(errors[order], edges).tolist(),
    )
    return {
        trace_id: TraceSummary(trace_id, first, last, service, name, rooted, count, failed, services[trace_id])
        for trace_id, first, last, service, name, rooted, count, failed in zip(*columns, strict=True)
    }


def _services(spans: pa.Table) -> dict[str, tuple[ServiceSpans, ...]]:
    """The services of each trace, by name."""
    counted = spans.group_by(["trace_id", "service"], use_threads=False)
    counted = counted.aggregate([([], "count_all"), ("error", "sum")]).sort_by("service")
    found: dict[str, list[ServiceSpans]] = {}
    for trace_id, *figures in zip(*(counted[n].to_pylist() for n in _COUNTED), strict=True):
        found.setdefault(trace_id, []).append(ServiceSpans(*figures))
    return {trace_id: tuple(services) for trace_id, services in found.items()}


_COUNTED = ("trace_id", "service", "count_all", "error_sum")

__all__ = ["ServiceSpans", "TraceSummary", "summarize"]
