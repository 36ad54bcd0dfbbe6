"""SQL statements that are compiled once per test process: SQLAlchemy keeps them per engine, and every lake has its own.

A test opens a lake, runs each statement once or twice and closes it; compiling them took a third of making a lake.
"""

# Decisions: docs/decisions/0350

from __future__ import annotations

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
    """Let all engines that are made from now on share what they compile, once per process."""
    if hasattr(sa.Engine.__init__, "__wrapped__"):
        return
    compiled, make = _Shared(), sa.Engine.__init__

    @wraps(make)
    def make_sharing(self: sa.Engine, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        self._compiled_cache = compiled

    sa.Engine.__init__ = make_sharing  # type: ignore[method-assign]
