"""Converts user data to record batches of a table's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.columns.batching import batched
from moulin.model.names import did_you_mean
from moulin.model.rows.conversion import Misfit, Target, TypeMisfit, absent, fit
from moulin.model.rows.python_values import from_python
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema

# Python rows turned into one batch.
CHUNK_ROWS = 65_536

_SHOWN = 100
_NAMED = 3  # columns that tell which row an error is about


@dataclass(frozen=True, slots=True)
class RowsOf:
    """What names rows that a statement makes: their table, and the columns of the data that say which row of the table
    they are about, with the names that queries have for these.
    """

    table: str
    named: Mapping[str, str] = field(default_factory=dict)

    def refusal(self, misfit: Misfit, columns: Iterable[str], value: Callable[[str], Any]) -> InvalidInput:
        """The error for a value of a row. `columns` are those of the row, and `value` gives what it has in one."""
        own = misfit.path.partition(".")[0]
        place = {shown: value(name) for name, shown in self.named.items() if not _is_missing(value(name))}
        others = [
            name for name in columns if name != own and name not in self.named and not name.startswith("_moulin_")
        ]
        known = place or {name: value(name) for name in others[:_NAMED]}
        row = " and ".join(f"{name} = {_short(one)}" for name, one in known.items())
        found = value(own)
        shown = "" if _is_missing(found) else f" The value is {_short(found)}."
        which = f" It is for the row with {row}." if row else ""
        return InvalidInput(f"Column {misfit.path} of {self.table}: {misfit.reason}{shown}{which}")


def to_batches(data: object, schema: Schema, rows_of: RowsOf | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of `data` in batches of exactly `arrow_schema(schema)`, without a copy where they have it already.

    `data` is an Arrow table, batch or reader, anything that exports an Arrow stream or array (pandas, polars, DuckDB),
    a dataset of pyarrow, a lazy frame of polars, a dict of columns, or an iterable of dicts, batches or tables.
    Columns are matched by name, in any order; a missing one gets its write default, or null. Values are converted only
    without loss. The error for a value that does not fit names its column and its row, counted from 0 over all of
    `data` or as `rows_of` says, and is raised when the iterator gets there: commit nothing before its end.
    """
    intake = _Intake(schema, rows_of)
    data = opened(data)
    if is_arrow(data):
        return intake.arrow(data)
    if isinstance(data, Mapping):
        return intake.columns(data)
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise _unknown_form(data)
    return intake.items(iter(data))


class _Intake:
    """One piece of data on its way in; counts the rows that have passed."""

    def __init__(self, schema: Schema, rows_of: RowsOf | None) -> None:
        self._schema, self._rows_of = arrow_schema(schema), rows_of
        self._targets = [Target.of(field) for field in schema.fields]
        self._names = {target.name for target in self._targets}
        self._checked = any(target.required or target.strict for target in self._targets)
        self._row = 0

    def arrow(self, data: Any) -> Iterator[pa.RecordBatch]:
        """From anything that speaks Arrow."""
        try:
            if hasattr(data, "__arrow_c_stream__"):
                reader = data.to_reader() if isinstance(data, pa.Table) else pa.RecordBatchReader.from_stream(data)
            else:
                batch = data if isinstance(data, pa.RecordBatch) else pa.record_batch(data)
                reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
        except (pa.ArrowException, ValueError, TypeError):
            raise _unknown_form(data) from None
        indexes = self._match(reader.schema.names)
        for target in self._targets:
            if target.name in indexes:
                self._fit(pa.nulls(0, reader.schema.field(indexes[target.name]).type), target)
        return self._arrow_batches(reader, indexes)

    def columns(self, data: Mapping[Any, Any]) -> Iterator[pa.RecordBatch]:
        """From a dict of columns."""
        self._match(list(data))
        columns = {name: _column(name, values) for name, values in data.items()}
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            described = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise InvalidInput(f"The columns have different lengths: {described[:500]}.")
        rows = next(iter(lengths.values()), 0)
        chunks = range(0, rows, CHUNK_ROWS)
        return chain.from_iterable(
            self._python_batch({name: values[start : start + CHUNK_ROWS] for name, values in columns.items()})
            for start in chunks
        )

    def items(self, data: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        """From an iterator of dicts, or of what speaks Arrow."""
        for first in data:
            if isinstance(first, Mapping):
                return self._dicts(chain([first], data))
            if is_arrow(first):
                return chain.from_iterable(map(self._arrow_item, chain([first], data)))
            raise _unknown_form(first, "An iterable of rows")
        return iter(())

    def _arrow_item(self, item: object) -> Iterator[pa.RecordBatch]:
        if not is_arrow(item):
            raise _unknown_form(item, "An iterable of Arrow batches")
        return self.arrow(item)

    def _dicts(self, rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for chunk in batched(rows, CHUNK_ROWS):
            for index, row in enumerate(chunk):
                if not isinstance(row, Mapping):
                    raise InvalidInput(f"Row {self._row + index} is not a dict, but {type(row).__name__}.")
                if not row.keys() <= self._names:
                    name = next(key for key in row if key not in self._names)
                    raise InvalidInput(f"Row {self._row + index} has {self._unknown(name)}")
            defaults = [(target.name, target.python_default) for target in self._targets]
            yield from self._python_batch(
                {name: [row.get(name, default) for row in chunk] for name, default in defaults}
            )

    def _arrow_batches(self, batches: Iterable[pa.RecordBatch], indexes: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not self._checked and batch.schema.equals(self._schema, check_metadata=True):
                self._row += batch.num_rows
                yield batch
            elif batch.num_rows:
                yield from self._arrow_batch(batch, indexes)

    def _arrow_batch(self, batch: pa.RecordBatch, indexes: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
        def convert(target: Target, start: int, length: int) -> pa.Array:
            if target.name not in indexes:
                return absent(target, length)
            return self._fit(batch.column(indexes[target.name])[start : start + length], target)

        def value(name: str, row: int) -> Any:
            return batch.column(indexes[name])[row] if name in indexes else None

        return self._pieces(batch.num_rows, convert, value)

    def _fit(self, array: pa.Array, target: Target) -> pa.Array:
        try:
            return fit(array, target)
        except TypeMisfit as misfit:
            raise InvalidInput(f"Column {misfit.path}: {misfit.reason}") from None

    def _python_batch(self, columns: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        def convert(target: Target, start: int, length: int) -> pa.Array:
            if target.name not in columns:
                return absent(target, length)
            values = columns[target.name][start : start + length]
            if isinstance(values, pa.ChunkedArray):
                values = values.combine_chunks()
            return fit(values, target) if isinstance(values, pa.Array) else from_python(values, target)

        rows = len(next(iter(columns.values())))
        return self._pieces(rows, convert, lambda name, row: columns[name][row] if name in columns else None)

    def _pieces(
        self, rows: int, convert: Callable[[Target, int, int], pa.Array], value: Callable[[str, int], Any]
    ) -> Iterator[pa.RecordBatch]:
        """The rows as one batch; when they do not fit, as halves of halves down to the first row that does not."""
        waiting = [(0, rows)]
        while waiting:
            start, length = waiting.pop()
            try:
                columns = [convert(target, start, length) for target in self._targets]
            except Misfit as misfit:
                if length == 1:
                    raise self._refusal(misfit, start, value) from None
                half = length // 2
                waiting += [(start + half, length - half), (start, half)]
            else:
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._row += rows

    def _refusal(self, misfit: Misfit, row: int, value: Callable[[str, int], Any]) -> InvalidInput:
        if self._rows_of is not None:
            names = [target.name for target in self._targets]
            return self._rows_of.refusal(misfit, names, lambda name: value(name, row))
        found = value(misfit.path.split(".")[0], row)
        shown = "" if _is_missing(found) else f" The value is {_short(found)}."
        return InvalidInput(f"Row {self._row + row} (the first is 0), column {misfit.path}: {misfit.reason}{shown}")

    def _match(self, names: Sequence[Any]) -> dict[str, int]:
        """The index of each column in the data; refuses unknown ones, and required ones that are missing."""
        indexes: dict[str, int] = {}
        for index, name in enumerate(names):
            if name not in self._names:
                raise InvalidInput(f"The data has {self._unknown(name)}")
            if name in indexes:
                raise InvalidInput(f"The data has column {name!r} twice: rename or drop one of the two.")
            indexes[name] = index
        for target in self._targets:
            if target.required and target.default is None and target.name not in indexes:
                raise InvalidInput(f"Column {target.name} is required, but the data does not have it.")
        return indexes

    def _unknown(self, name: object) -> str:
        known = ", ".join(target.name for target in self._targets[:20])
        return f"a column {name!r} that the table does not have.{did_you_mean(str(name), self._names)} It has: {known}."


def opened(data: Any) -> Any:
    """Datasets and scanners of pyarrow and lazy frames of polars as a stream of their rows; other data as it is."""
    if hasattr(data, "scanner"):
        data = data.scanner()
    if hasattr(data, "projected_schema"):
        return data.to_reader()
    return data.collect_batches() if hasattr(data, "collect_batches") else data


def is_arrow(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _column(name: str, values: Any) -> Any:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"Column {name} must be a list or array of values, not {type(values).__name__}.")
    return values if isinstance(values, list) or (isinstance(values, np.ndarray) and values.ndim == 1) else list(values)


def _is_missing(value: Any) -> bool:
    return not value.is_valid if isinstance(value, pa.Scalar) else value is None


def _short(value: Any) -> str:
    try:
        text = repr(value.as_py() if isinstance(value, pa.Scalar) else value)
    except (ValueError, OverflowError):  # a time that Python cannot hold
        text = str(value.cast(pa.int64()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _unknown_form(data: object, what: str = "Data") -> InvalidInput:
    return InvalidInput(
        f"{what} cannot be read from {type(data).__name__}: use an Arrow table, batch or reader, a list of dicts, "
        "a dict of columns, a pyarrow dataset, or a pandas, polars or DuckDB object."
    )


__all__ = ["CHUNK_ROWS", "RowsOf", "is_arrow", "opened", "to_batches"]
