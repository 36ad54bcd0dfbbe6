"""A table as a lazy frame of polars, which asks for columns and filters when it is collected.

polars filters the rows itself: for Arrow NaN is unequal to everything and null may be in a list, and for polars NaN is
the greatest number and null is in none. So its filters, as it writes them for pyarrow datasets, leave out segments
alone, where both agree.
"""

# Decisions: docs/decisions/0741

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from polars.io.plugins import register_io_source

from moulin.model.columns import compute as pc
from moulin.model.where import Hint
from moulin.table.read.scan import Scan


def lazy_frame(scan: Callable[..., Scan], schema: pa.Schema) -> pl.LazyFrame:
    """The rows that `scan`, which takes columns and a where, finds when the frame is collected."""
    empty = schema.empty_table()
    shown = pl.DataFrame(empty)

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = list(shown.columns) if columns is None else columns
        named = [] if predicate is None else predicate.meta.root_names()
        where = None if predicate is None else _hint(predicate, empty)
        left = rows
        for batch in scan(list(dict.fromkeys([*wanted, *named])) or shown.columns[:1], where).to_batches():
            found = pl.DataFrame(batch)
            if predicate is not None:
                found = found.filter(predicate)
            if left is not None:
                found, left = found.head(left), left - min(left, found.height)
            yield found.select(wanted)
            if left == 0:
                return

    return register_io_source(read, schema=shown.schema)


def _hint(predicate: pl.Expr, empty: pa.Table) -> Hint | None:
    """The predicate as polars writes it for pyarrow; None where it cannot."""
    asked = _Asked(empty)
    pl.scan_pyarrow_dataset(asked).filter(predicate).collect()
    return None if asked.expression is None else Hint(asked.expression)


class _Asked(ds.Dataset):  # type: ignore[misc]  # pyarrow.dataset is not typed
    """Learns what polars would ask a dataset for."""

    def __init__(self, empty: pa.Table) -> None:
        self._empty = empty
        self.expression: pc.Expression | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._empty.schema

    def to_table(self, *_: Any, columns: Any = None, filter: pc.Expression | None = None, **__: Any) -> pa.Table:
        self.expression = filter
        return self._empty if columns is None else self._empty.select(columns)

    def to_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        return iter(self.to_table(*args, **options).to_batches())


__all__ = ["lazy_frame"]
