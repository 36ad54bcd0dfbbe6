"""A table as a pyarrow dataset, into which DuckDB, polars and others push columns and filters for pruning.

Only the methods that these libraries call are implemented. pyarrow's methods for the files of a dataset are rejected:
they would read the files without deletion vectors.
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
    """The rows of a table, or of one version. Nothing is read until a method is called."""

    def __init__(
        self, scan: Callable[..., Scan], schema: pa.Schema, name: str, where: pc.Expression | None = None
    ) -> None:
        self._scan, self._read_schema, self._name, self._where = scan, schema, name, where

    def __repr__(self) -> str:
        filtered = "" if self._where is None else f" where {self._where}"
        return f"<dataset of {self._name}{filtered}>"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table.

        >>> orders = lake.table("shop.orders").dataset()
        >>> orders.schema.names
        ['id', 'customer', 'amount']
        """
        return self._read_schema

    def scanner(self, columns: Columns = None, filter: pc.Expression | None = None, **_: Any) -> ds.Scanner:
        """The rows that match, as a pyarrow scanner. Settings of pyarrow's own readers have no effect.

        >>> orders = lake.table("shop.orders").dataset()
        >>> orders.scanner(columns=["id"]).to_table().to_pylist()
        [{'id': 1}]
        """
        names = self._names(columns)
        reader = self._scan(names, self._both(filter)).to_reader()
        computed = dict(columns) if isinstance(columns, Mapping) else None
        return ds.Scanner.from_batches(reader, columns=computed)

    def to_table(self, *args: Any, **options: Any) -> pa.Table:
        """The rows as a table; takes the arguments of `scanner`.

        >>> orders = lake.table("shop.orders").dataset()
        >>> orders.to_table(columns=["amount"]).to_pylist()
        [{'amount': 9.5}]
        """
        return self.scanner(*args, **options).to_table()

    def to_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """The rows in batches; takes the arguments of `scanner`.

        >>> orders = lake.table("shop.orders").dataset()
        >>> [batch.num_rows for batch in orders.to_batches()]
        [1]
        """
        batches: Iterator[pa.RecordBatch] = self.scanner(*args, **options).to_batches()
        return batches

    def head(
        self, num_rows: int, columns: Columns = None, filter: pc.Expression | None = None, **options: Any
    ) -> pa.Table:
        """The first rows of the scan, which then stops.

        >>> orders = lake.table("shop.orders").dataset()
        >>> orders.head(5).num_rows
        1
        """
        if isinstance(columns, Mapping):
            table: pa.Table = self.scanner(columns, filter, **options).head(num_rows)
            return table
        return self._scan(self._names(columns), self._both(filter), limit=num_rows).to_arrow()

    def count_rows(self, filter: pc.Expression | None = None, **_: Any) -> int:
        """The number of rows, or of rows that match.

        >>> orders = lake.table("shop.orders").dataset()
        >>> import pyarrow.compute as pc
        >>> orders.count_rows(pc.field("id") > 5)
        0
        """
        return self._scan(None, self._both(filter)).count()

    def filter(self, expression: pc.Expression) -> TableDataset:
        """A dataset of the rows that match.

        >>> orders = lake.table("shop.orders").dataset()
        >>> import pyarrow.compute as pc
        >>> orders.filter(pc.field("id") == 1).count_rows()
        1
        """
        return TableDataset(self._scan, self._read_schema, self._name, self._both(expression))

    def take(self, indices: object, *args: Any, **options: Any) -> pa.Table:
        """The rows at these positions of the scan. It reads the whole table: `Table.take` finds rows by id.

        >>> orders = lake.table("shop.orders").dataset()
        >>> orders.take([0]).num_rows
        1
        """
        return self.to_table(*args, **options).take(indices)

    def _names(self, columns: Columns) -> list[str]:
        known = self._read_schema.names
        if columns is None:
            return list(known)
        if isinstance(columns, str):
            raise InvalidInput(f"columns must be a list of names: use columns=[{columns!r}].")
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
        raise Unsupported(f"{self!r} has no fragments that can be read separately: call to_table() first.")

    get_fragments = _get_fragments = replace_schema = join = join_asof = sort_by = _refused
    _scan_options = _scanner_options = __setstate__ = _refused
    partition_expression = property(_refused)

    def __reduce__(self) -> NoReturn:
        raise Unsupported("A dataset of a table cannot be pickled: open the table in the other process.")


__all__ = ["TableDataset"]
