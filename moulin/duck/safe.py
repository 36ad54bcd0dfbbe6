"""Runs statements of users who may read the lake's tables and nothing else on the machine.

Two independent protections. The text must pass the same check as views: one SELECT over tables and
views of the lake, with functions that compute values. And the connection can only open files in the lake's storage and
in a folder for spilling, and cannot load extensions or change settings.
"""

# Decisions: docs/decisions/0650

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from duckdb import DuckDBPyConnection

from moulin.duck.checked import Checked, checked, parsed
from moulin.duck.columns import column_name, quoted_text
from moulin.duck.connection import LakeDuck
from moulin.duck.results import batches, one_sentence, reader
from moulin.errors import InvalidInput, NotFound, PermissionDenied, Unsupported
from moulin.lake import Lake
from moulin.model.query_plan import QueryPlan, Share, Step
from moulin.model.view_history import Home
from moulin.statement_text import branches_in, with_branches

_WHAT: Final = "a statement"
_SPILLED: Final = "4GB"
_WORDS: Final = "Function Projections Filters Aggregates Groups Conditions Expressions Expression Top Limit Offset CTE"
_PAIRS: Final = ("Join Type", "Order By", "Estimated Cardinality", "Delim Index", "CTE Name")
_SHOWN: Final = frozenset({*_WORDS.split(), *_PAIRS})
"""What is shown of a step. The rest may say where files are."""
_ROWS_AT_ONCE: Final = 1024
_STORED: Final = re.compile(r"\bc\d+\b")


class SafeDuck:
    """Runs statements, one at a time. `cancel` and `progress` may be called from other threads."""

    def __init__(self, lake: Lake, folder: Path, *, memory_bytes: int, threads: int = 2) -> None:
        """`folder` is for what does not fit into memory, and belongs to this process alone."""
        self._lake, self._duck, self._folder = lake, LakeDuck(lake, folder), folder
        self._memory_bytes, self._threads = memory_bytes, threads
        self._connection: DuckDBPyConnection | None = None
        self._roots: tuple[str, ...] = ()

    def run(self, text: str, version: int | None = None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The rows of a statement, read while it runs; tables are read at a version, if there is one.

        Raises PermissionDenied for a statement that is not safe, InvalidInput for one that DuckDB refuses.
        """
        with self._hiding():
            connection = self._at_newest(text)
            stream = reader(connection, self._checked(connection, text, version).text, _ROWS_AT_ONCE)
        return stream.schema, self._batches(stream)

    def plan(self, text: str, version: int | None = None) -> QueryPlan:
        """How DuckDB would run a statement, and how many segments of each table it would be given."""
        with self._hiding():
            connection = self._at_newest(text)
            safe = self._checked(connection, text, version)
            shown = connection.execute(f"EXPLAIN (FORMAT JSON) {safe.text}").fetchall()[0][1]
        names = self._column_names(safe)
        return QueryPlan(tuple(_step(one, names) for one in json.loads(shown)), tuple(self._shares(safe, version)))

    def _batches(self, stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        with self._hiding():
            yield from batches(stream)

    @contextmanager
    def _hiding(self) -> Iterator[None]:
        """Errors as one sentence, without addresses of files."""
        try:
            with one_sentence():
                yield
        except InvalidInput as error:
            said = error.message
            for root in self._roots:
                said = re.sub(rf"""['"]?{re.escape(root)}[^'"\s]*['"]?""", "(a file)", said)
            raise InvalidInput(said, line=error.line, column=error.column) from None

    def cancel(self) -> None:
        """Stop the statement that runs."""
        if self._connection is not None:
            self._connection.interrupt()

    def progress(self) -> float | None:
        """The part of the running statement that is done, as DuckDB estimates it."""
        part = -1.0 if self._connection is None else float(self._connection.query_progress())
        return part / 100 if 0 <= part <= 100 else None

    def _at_newest(self, text: str) -> DuckDBPyConnection:
        """The connection, with views of the newest version and of the branches that the text names."""
        roots = tuple(self._folders())
        if self._connection is not None and roots != self._roots:  # which a connection has once
            self._connection.close()
            self._connection = None
        named = branches_in(text, "duckdb")
        found = {one.name for one in self._lake.branches()} if named else set()
        fresh = self._connection is None
        self._connection = self._duck.connect(self._connection, branches=named & found)
        if fresh:
            self._roots = roots
            self._confine(self._connection)
        return self._connection

    def _folders(self) -> Iterator[str]:
        """What statements may read below: the storage and the base paths that are folders, and objects of others."""
        store = self._lake.context.store
        for path in ("", *(f"bases/{base.id}" for base in self._lake.catalog.bases())):
            local = store.local_path(f"{path}/x".removeprefix("/"))
            if local is not None:
                yield f"{local.parent}/"
        yield f"{self._folder}/"
        yield "moulin://"

    def _confine(self, connection: DuckDBPyConnection) -> None:
        folders = ", ".join(quoted_text(folder) for folder in self._roots)
        for name, value in (
            ("memory_limit", f"'{self._memory_bytes}B'"),
            ("threads", str(self._threads)),
            ("temp_directory", quoted_text(str(self._folder / "spilled"))),
            ("max_temp_directory_size", f"'{_SPILLED}'"),
            ("autoinstall_known_extensions", "false"),
            ("autoload_known_extensions", "false"),
            ("python_enable_replacements", "false"),
            ("allowed_directories", f"[{folders}]"),
            ("enable_external_access", "false"),
            ("lock_configuration", "true"),
        ):
            connection.execute(f"SET {name} = {value}")

    def _checked(self, connection: DuckDBPyConnection, text: str, version: int | None) -> Checked:
        text = with_branches(text, "duckdb")
        self._require_select(connection, text)
        views = connection.execute("SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        known = {(schema.lower(), name.lower()) for schema, name in views}
        try:
            return checked(connection, text, Home(""), known, what=_WHAT, version=version)
        except Unsupported as error:
            raise PermissionDenied(f"The statement is rejected: {error.message}.") from None

    def _require_select(self, connection: DuckDBPyConnection, text: str) -> None:
        with one_sentence():
            found = parsed(connection, text)
        if found.get("error_type") == "parser":
            at = text[: int(found.get("position", 0))]
            line, column = at.count("\n") + 1, len(at) - at.rfind("\n")
            raise InvalidInput(
                f"DuckDB cannot parse the statement: {str(found.get('error_message')).rstrip('.!')}.",
                line=line,
                column=column,
            )
        if found.get("error"):
            raise PermissionDenied("Only read statements are allowed here: write one SELECT.")
        if len(found["statements"]) != 1:
            count = len(found["statements"])
            raise InvalidInput(f"Write one statement; the text has {count}." if count else "Write a statement.")

    def _shares(self, safe: Checked, version: int | None) -> Iterator[Share]:
        """Of tables; views over tables are not opened. All segments are given of those that are not asked for late."""
        assert self._connection is not None
        source = self._duck.source(self._connection)
        for database, name in sorted(safe.named):
            with suppress(NotFound):
                state = self._lake.catalog.table(database, name, source.version if version is None else version)
                segments = len(self._lake.catalog.segments(state.id, state.version, with_columns=False))
                yield Share(f"{database}.{name}", source.read.get((state.id, state.version), segments), segments)

    def _column_names(self, safe: Checked) -> Mapping[str, str]:
        """The names of columns in files, which are numbers; none where several tables have the same numbers."""
        if len(safe.named) != 1:
            return {}
        (database, name) = next(iter(safe.named))
        try:
            schema = self._lake.catalog.table(database, name).schema
        except NotFound:
            return {}
        return {column_name(field.field_id): field.name for field in schema.fields}


def _step(node: Mapping[str, Any], names: Mapping[str, str]) -> Step:
    leaf = not node["children"]
    details = []
    for key, value in node.get("extra_info", {}).items():
        text = (", ".join(map(str, value)) if isinstance(value, list) else str(value)).replace("memory.", "")
        if key not in _SHOWN or not text or (leaf and key in ("Projections", "Filters") and not names):
            continue
        details.append((str(key), _renamed(text, names) if leaf else text))
    return Step(_title(str(node["name"])), tuple(details), tuple(_step(one, names) for one in node["children"]))


def _title(name: str) -> str:
    return name.strip().replace("_", " ").capitalize()


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _STORED.sub(lambda found: names.get(found[0], found[0]), text)
