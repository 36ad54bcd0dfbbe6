"""Arguments of branches: their lifetime and start."""

# Decisions: docs/decisions/0411

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from moulin.catalog.backend import CatalogBackend
from moulin.errors import InvalidInput
from moulin.table.versions import to_nanos

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SPAN = re.compile(r"(\d{1,9})\s*([smhdw])")


def seconds_of(expires: str | float | timedelta | None) -> float | None:
    """The lifetime of a branch: seconds, a timedelta, or text such as "36h" or "7d"; None is unlimited."""
    if expires is None:
        return None
    if isinstance(expires, timedelta):
        return expires.total_seconds()
    if isinstance(expires, str):
        if (found := _SPAN.fullmatch(expires.strip())) is None:
            raise InvalidInput(f'{expires!r} is not a time that a branch can live: write "90m", "36h", "7d" or "2w".')
        return float(found[1]) * _UNITS[found[2]]
    if isinstance(expires, bool) or not isinstance(expires, int | float):
        raise InvalidInput(f'A branch lives for seconds, a timedelta or text such as "7d", not {expires!r}.')
    return float(expires)


def version_of(catalog: CatalogBackend, at: int | str | datetime) -> int:
    """The version of the lake that a number or a time means."""
    if isinstance(at, bool) or not isinstance(at, int | str | datetime):
        raise InvalidInput(f"A branch begins at a version or a time, not at {at!r}.")
    return at if isinstance(at, int) else catalog.version_at(to_nanos(at))
