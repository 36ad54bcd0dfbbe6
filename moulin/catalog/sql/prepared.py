"""Statements of the hot path: SQLAlchemy compiles each once per dialect, then it runs on the driver's own cursor.

SQLAlchemy's `Connection.execute` takes several times as long as SQLite takes to run a statement by a key, and a small
append is a dozen such statements. Types are converted by the same processors, and errors are SQLAlchemy's. While
somebody listens to the engine's statements (`before_cursor_execute`), they run the usual way.
"""

# Decisions: docs/decisions/0321

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

Parameters = Mapping[str, Any]
Processor = Callable[[Any], Any]


class Prepared:
    """A statement with named parameters, and no `IN` over a list of them.

    REQUIRES: the columns of an INSERT or UPDATE are those that its parameters name; it has no defaults of Python's.
    """

    def __init__(self, statement: sa.Select[Any] | sa.CompoundSelect[Any] | sa.Insert | sa.Update) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, ...], _Compiled] = {}

    def run(self, connection: sa.Connection, *parameters: Parameters) -> None:
        """Execute an INSERT or UPDATE, once for each of `parameters`, which name the same columns."""
        if _is_watched(connection):
            connection.execute(self._statement, [dict(one) for one in parameters])
            return
        compiled = self._for(connection, parameters[0])
        if len(parameters) == 1:
            execute(connection, compiled.text, compiled.bind(parameters[0])).close()
        else:
            execute(connection, compiled.text, compiled.bind_all(parameters), many=True).close()

    def first(self, connection: sa.Connection, parameters: Parameters) -> Any:
        """The first row of a SELECT, None when there is none."""
        found = self.all(connection, parameters)
        return found[0] if found else None

    def all(self, connection: sa.Connection, parameters: Parameters) -> Sequence[Any]:
        """The rows of a SELECT, with the attributes of SQLAlchemy's."""
        if _is_watched(connection):
            return connection.execute(self._statement, dict(parameters)).all()
        compiled = self._for(connection, parameters)
        cursor = execute(connection, compiled.text, compiled.bind(parameters))
        try:
            rows = cursor.fetchall()
        except connection.dialect.loaded_dbapi.Error as error:
            raise _as_sqlalchemy(connection, compiled.text, error, cursor) from error
        finally:
            cursor.close()
        return [compiled.row(row) for row in rows]

    def _for(self, connection: sa.Connection, parameters: Parameters) -> _Compiled:
        key = (connection.dialect.name, *parameters)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = _compile(self._statement, connection.dialect, list(parameters))
        return found


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement in the driver's form, with conversions of values."""

    text: str
    binds: tuple[tuple[str, Any, Processor | None], ...]  # name, default, conversion
    by_name: bool
    make_row: Callable[..., Any] | None
    converted: tuple[tuple[int, Processor], ...]

    def bind(self, parameters: Parameters) -> Any:
        values = [
            convert(parameters.get(name, default)) if convert else parameters.get(name, default)
            for name, default, convert in self.binds
        ]
        return {bind[0]: value for bind, value in zip(self.binds, values, strict=True)} if self.by_name else values

    def bind_all(self, parameters: Sequence[Parameters]) -> list[Any]:
        """As `bind` of each. A value that all have in common, such as the id of a table, is converted once."""
        columns = []
        for name, default, convert in self.binds:
            values = [one.get(name, default) for one in parameters]
            if convert is not None:
                first = values[0]
                shared = all(value is first for value in values)
                values = [convert(first)] * len(values) if shared else [convert(value) for value in values]
            columns.append(values)
        rows = zip(*columns, strict=True)
        if not self.by_name:
            return list(rows)
        names = [name for name, _, _ in self.binds]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def row(self, values: Sequence[Any]) -> Any:
        if self.converted:
            values = list(values)
            for index, convert in self.converted:
                values[index] = convert(values[index])
        assert self.make_row is not None
        return self.make_row(*values)


def _compile(statement: Any, dialect: sa.Dialect, names: list[str]) -> _Compiled:
    compiled = statement.compile(dialect=dialect, column_keys=names if statement.is_dml else None)
    if compiled.post_compile_params or compiled.literal_execute_params:
        raise NotImplementedError("A prepared statement has no parameters that become part of its text.")
    types = {name: parameter.type for parameter, name in compiled.bind_names.items()}
    binds = tuple(
        (name, compiled.params[name], types[name].dialect_impl(dialect).bind_processor(dialect))
        for name in compiled.positiontup or types
    )
    columns = list(statement.selected_columns) if statement.is_select else []
    processors = (column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns)
    return _Compiled(
        text=str(compiled),
        binds=binds,
        by_name=compiled.positiontup is None,
        make_row=_row_class([column.name for column in columns]) if columns else None,
        converted=tuple((index, convert) for index, convert in enumerate(processors) if convert is not None),
    )


def _row_class(names: list[str]) -> Callable[..., Any]:
    fields = namedtuple("Row", names)  # type: ignore[misc]
    return type("Row", (fields,), {"__slots__": (), "_mapping": property(lambda row: row._asdict())})


def execute(connection: sa.Connection, text: str, values: Any = (), *, many: bool = False) -> Any:
    """Run text of the driver's own SQL, with `many` once for each of `values`; returns the open cursor.

    Errors are those of SQLAlchemy.
    """
    if _is_watched(connection):
        return connection.exec_driver_sql(text, values or None)
    cursor = None
    try:
        cursor = connection.connection.cursor()
        if many:
            cursor.executemany(text, values)
        else:
            cursor.execute(text, values)
    except connection.dialect.loaded_dbapi.Error as error:
        raise _as_sqlalchemy(connection, text, error, cursor) from error
    return cursor


def _is_watched(connection: sa.Connection) -> bool:
    return bool(connection.engine.dispatch.before_cursor_execute)


def _as_sqlalchemy(connection: sa.Connection, text: str, error: Any, cursor: Any) -> Exception:
    """An error of the driver as SQLAlchemy raises it. A broken connection is closed."""
    dialect = connection.dialect
    broken = dialect.is_disconnect(error, connection.connection, cursor)
    wrapped: Exception = exc.DBAPIError.instance(
        text, None, error, dialect.loaded_dbapi.Error, connection_invalidated=broken, dialect=dialect
    )
    if broken:
        connection.invalidate(error)
    return wrapped
