"""A table as a pyarrow dataset: DuckDB, polars and others ask it for columns and filters, and the scan prunes by these.

Only what these libraries call is there. What pyarrow does with the files of a dataset is refused, for it would read
them without deletion vectors.
"""

# Decisions: docs/decisions/0580

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from moulin.errors import InvalidInput, Unsupported
from moulin.model.columns import compute as pc
from moulin.table.read.scan import Scan

Columns = Sequence[str] | Mapping[str, pc.Expression] | None


class TableDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow.dataset is not typed
    """Rows of a table, or of one version of it. Nothing is read before one of its methods is called."""

    def __init__(
        self, scan: Callable[..., Scan], schema: pa.Schema, name: str, where: pc.Expression | None = None
    ) -> None:
        self._scan, self._read_schema, self._name, self._where = scan, schema, name, where

    def __repr__(self) -> str:
        filtered = "" if self._where is None else f" where {self._where}"
        return f"<dataset of {self._name}{filtered}>"

    @property
    def schema(self) -> pa.Schema:
        return self._read_schema

    def scanner(self, columns: Columns = None, filter: pc.Expression | None = None, **_: Any) -> ds.Scanner:
        """The rows that match, as pyarrow's scanner. Settings of pyarrow's own readers have no effect."""
        names = self._names(columns)
        reader = self._scan(names, self._both(filter)).to_reader()
        computed = dict(columns) if isinstance(columns, Mapping) else None
        return ds.Scanner.from_batches(reader, columns=computed)

    def to_table(self, *args: Any, **options: Any) -> pa.Table:
        return self.scanner(*args, **options).to_table()

    def to_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = self.scanner(*args, **options).to_batches()
        return batches

    def head(
        self, num_rows: int, columns: Columns = None, filter: pc.Expression | None = None, **options: Any
    ) -> pa.Table:
        """The first rows that come; the scan ends with the last of them."""
        if isinstance(columns, Mapping):
            table: pa.Table = self.scanner(columns, filter, **options).head(num_rows)
            return table
        return self._scan(self._names(columns), self._both(filter), limit=num_rows).to_arrow()

    def count_rows(self, filter: pc.Expression | None = None, **_: Any) -> int:
        return self._scan(None, self._both(filter)).count()

    def filter(self, expression: pc.Expression) -> TableDataset:
        """The rows that match."""
        return TableDataset(self._scan, self._read_schema, self._name, self._both(expression))

    def take(self, indices: object, *args: Any, **options: Any) -> pa.Table:
        return self.to_table(*args, **options).take(indices)

    def _names(self, columns: Columns) -> list[str]:
        known = self._read_schema.names
        if columns is None:
            return list(known)
        if isinstance(columns, str):
            raise InvalidInput(f"columns takes a list of names; write columns=[{columns!r}].")
        if not isinstance(columns, Mapping):
            return list(columns)
        text = " ".join(map(str, columns.values()))
        named = [name for name in known if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
        return list(known) if "FieldPath(" in text else named or list(known[:1])

    def _both(self, filter: pc.Expression | None) -> pc.Expression | None:
        if self._where is None or filter is None:
            return self._where if filter is None else filter
        return self._where & filter

    def _refused(self, *_: object, **__: object) -> NoReturn:
        raise Unsupported(f"{self!r} has rows, and no fragments that can be read alone: call to_table() first.")

    get_fragments = _get_fragments = replace_schema = join = join_asof = sort_by = _refused
    _scan_options = _scanner_options = __setstate__ = _refused
    partition_expression = property(_refused)

    def __reduce__(self) -> NoReturn:
        raise Unsupported("A dataset of a table cannot be pickled: open the table in the other process.")


__all__ = ["TableDataset"]
