"""SQL statements that are compiled once per test process: SQLAlchemy keeps them per engine, and every lake has its own.

A test opens a lake, runs each statement once or twice and closes it; compiling them took a third of making a lake.
"""

# Decisions: docs/decisions/0350

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import sqlalchemy as sa

_MOST = 5000


class _Shared(dict[Any, Any]):
    """Compiled statements by the kind of database instead of the dialect object that an engine has for itself."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_by_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(self) >= _MOST:
            self.clear()
        super().__setitem__(_by_kind(key), compiled)


def _by_kind(key: Any) -> tuple[Any, ...]:
    dialect, *statement = key
    return (type(dialect), dialect.server_version_info, *statement)


def share() -> None:
    """Let all catalogs that are opened from now on share what they compile, once per process."""
    from moulin.catalog.sql import drivers

    if hasattr(drivers.sqlite, "__wrapped__"):
        return
    compiled = _Shared()
    drivers.sqlite = _sharing(drivers.sqlite, compiled)
    drivers.postgresql = _sharing(drivers.postgresql, compiled)


def _sharing(make: Callable[..., sa.Engine], compiled: _Shared) -> Callable[..., sa.Engine]:
    @wraps(make)
    def make_sharing(*arguments: Any) -> sa.Engine:
        engine = make(*arguments)
        engine._compiled_cache = compiled
        return engine

    return make_sharing
