"""Callers and their roles, and the roles of routes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """What a caller may do. Each role includes the ones before it."""

    READ = 1  # look at anything
    WRITE = 2  # make, change and drop databases, tables and views, and commit rows
    PIPELINE = 3  # what collectors, nurseries, compaction workers and janitors do
    ADMIN = 4  # tokens, and everything else


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    role: Role


ANYONE: Final = Caller("", Role.ADMIN)  # where no token is asked for
caller: ContextVar[Caller] = ContextVar("caller", default=ANYONE)


@dataclass(frozen=True, slots=True)
class RouteRule:
    """The role that a route takes; None: it is open to everyone. The whole path must match."""

    methods: frozenset[str]
    path: re.Pattern[str]
    role: Role | None

    def covers(self, method: str, path: str) -> bool:
        return method in self.methods and self.path.fullmatch(path) is not None


Identify = Callable[[], Awaitable[Caller]]
IDENTIFY: Final = "moulin.identify"
"""In the scope of a request: an `Identify`. Asked again during a long answer, it raises once the token is revoked."""

COOKIE: Final = "moulin_session"
COOKIE_PATH: Final = "/api/v1"
"""A browser that logged in sends its token in this cookie, to the paths below this one alone."""
