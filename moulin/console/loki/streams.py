"""Records and counts as Loki's JSON has them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.console.loki import rows
from moulin.console.loki.ranges import Labels
from moulin.console.telemetry import nanos
from moulin.model.rows.nano_datetime import to_rows

CATEGORIZED: Final = "categorize-labels"
"""What clients ask for in X-Loki-Response-Encoding-Flags to get metadata apart from the labels of a stream."""
Document = dict[str, Any]


def streams_of(found: pa.Table, *, categorized: bool) -> list[Document]:
    """The streams of records, each with its records in their order. Apart from others, metadata are labels, too."""
    streams: dict[tuple[tuple[str, str], ...], Document] = {}
    services, levels = (rows.label(found, name).to_pylist() for name in ("service_name", "level"))
    texts = rows.lines(found).to_pylist()
    carried = to_rows(found.select([name for name in rows.COLUMNS if name not in ("body", "service_name")]), pairs=True)
    for time, service, level, text, row in zip(nanos(found).tolist(), services, levels, texts, carried, strict=True):
        labels = {"level": level, "service_name": service}
        extra = rows.metadata(row)
        if not categorized:
            labels |= extra
        key = tuple(sorted(labels.items()))
        stream = streams.setdefault(key, {"stream": dict(key), "values": []})
        value: list[Any] = [str(time), text]
        if categorized:
            value.append({"structuredMetadata": extra} if extra else {})
        stream["values"].append(value)
    return list(streams.values())


def matrix_of(steps: npt.NDArray[np.int64], found: dict[Labels, npt.NDArray[np.float64]]) -> list[Document]:
    seconds = (steps / 1e9).tolist()
    series = []
    for labels in sorted(found):
        values = found[labels].tolist()
        shown = [[at, number(value)] for at, value in zip(seconds, values, strict=True) if value == value]
        if shown:
            series.append({"metric": dict(labels), "values": shown})
    return series


def vector_of(steps: npt.NDArray[np.int64], found: dict[Labels, npt.NDArray[np.float64]]) -> list[Document]:
    return [
        {"metric": dict(labels), "value": [steps[-1] / 1e9, number(values[-1])]}
        for labels, values in sorted(found.items(), key=lambda one: one[0])
        if values[-1] == values[-1]
    ]


def number(value: float) -> str:
    """A number as Go writes it at its shortest."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def volumes(counted: dict[Labels, npt.NDArray[np.float64]], at: int, most: int) -> list[Document]:
    """The bytes of streams, the largest first."""
    ordered = sorted(counted.items(), key=lambda one: (-np.nan_to_num(one[1][-1]), one[0]))[:most]
    return [{"metric": dict(labels), "value": [at / 1e9, number(float(values[-1]))]} for labels, values in ordered]


__all__ = ["CATEGORIZED", "Document", "matrix_of", "number", "streams_of", "vector_of", "volumes"]
