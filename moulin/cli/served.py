"""Additional services of a server: the Iceberg REST catalog under /iceberg, the console under / and /api/v1."""

from __future__ import annotations

import importlib.util
import math
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any
from uuid import UUID

from moulin.config import MIB, safe_environment
from moulin.lake import Lake
from moulin.storage.bases import options_of_environment
from moulin.storage.variables import with_variables


@dataclass(frozen=True)
class Sql:
    """How SQL of the console runs: on no engine (`off`), on DuckDB (`auto`), on Spark as well (`on`).

    `limits` are the arguments of the console's own, `storage_options` those of the lake.
    """

    engines: str = "auto"
    limits: Mapping[str, Any] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(config: Any, storage_options: Mapping[str, str] | None = None) -> Sql:
        """From the settings of a server."""
        names = ("seconds", "rows", "running", "result_bytes", "memory_bytes")
        limits = {name: getattr(config, f"sql_{name}") for name in names}
        return Sql(config.sql, limits, storage_options or {})


_USUAL = Sql()
_OF_A_CHILD = 512 * MIB
"""What a child of DuckDB may hold besides DuckDB's own memory and the rows that it sends."""


def mount(app: Any, sql: Sql = _USUAL) -> None:
    """Mount both on the app of a server. REQUIRES: the packages of the extra `serve`."""
    import_module("moulin.iceberg.rest.app").mount(app)
    statements = _statements(app.state.lake, sql)
    import_module("moulin.console.app").mount(app, _readers, statements, _functions)


def _readers(lake: Lake, table_id: UUID) -> Iterable[Any]:
    from moulin.iceberg.projection.readers import readers_of

    return readers_of(lake.context, table_id)[2]


@cache
def _functions(engine: str) -> Sequence[str]:
    """The functions that statements may call in an engine."""
    if engine == "spark":
        return sorted(import_module("moulin.pipeline.sql.safe_functions").ALLOWED_FUNCTIONS)
    if importlib.util.find_spec("duckdb") is None:
        return ()
    found: Sequence[str] = import_module("moulin.duck.checked").all_functions()
    return found


def _statements(lake: Lake, sql: Sql) -> Any:
    """The runner of statements; None if no engine is allowed."""
    wanted = {"off": (), "auto": ("duckdb",), "on": ("duckdb", "pyspark")}[sql.engines]
    engines = [name for name in wanted if importlib.util.find_spec(name) is not None]
    if not engines:
        return None
    statements = import_module("moulin.console.sql.statements")
    children = import_module("moulin.console.sql.children")
    limits = statements.Limits(**sql.limits)
    door = _Door(lake, sql, limits)
    command = [sys.executable, "-m", "moulin.cli.query.child"]
    of_duckdb = limits.memory_bytes + 4 * limits.result_bytes + _OF_A_CHILD
    recipes = {
        engine: children.Recipe(command, safe_environment(), door.opening(engine), at_once, memory_bytes)
        for package, engine, at_once, memory_bytes in (
            ("pyspark", "spark", limits.running, math.inf),
            ("duckdb", "duckdb", 1, of_duckdb),
        )
        if package in engines
    }
    return statements.Statements(children.Children(recipes, door.close), limits)


class _Door:
    """The address by which child processes open the lake: a private server, started with the first child."""

    def __init__(self, lake: Lake, sql: Sql, limits: Any) -> None:
        self._lake, self._sql, self._limits = lake, sql, limits
        self._lock = threading.Lock()
        self._server: Any = None

    def close(self) -> None:
        with self._lock:
            if self._server is not None:
                self._server.stop()

    def opening(self, engine: str) -> Any:
        def make() -> Any:
            with self._lock:
                if self._server is None:
                    role = import_module("moulin.meta.roles").Role.READ
                    self._server = import_module("moulin.meta.server.private").PrivateServer(self._lake, role)
            return import_module("moulin.console.sql.wire").Opening(
                engine=engine,
                address=self._server.address,
                token=self._server.token,
                storage_options=with_variables(self._lake.store.uri, self._sql.storage_options),
                base_options=_base_options(self._lake),
                folder="",
                memory_bytes=self._limits.memory_bytes,
                result_bytes=self._limits.result_bytes,
            )

        return make


def _base_options(lake: Lake) -> dict[str, dict[str, str]]:
    given = options_of_environment()
    known = {base.name: with_variables(base.uri, given.get(base.name, {})) for base in lake.own_catalog().bases()}
    return {**given, **known}
