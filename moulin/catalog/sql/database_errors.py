"""Errors of the database as the project's own, without SQL text or parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from moulin.errors import Corrupt, FailedPrecondition, InvalidInput, MoulinError, NotFound, Unavailable


@contextmanager
def translated() -> Iterator[None]:
    """Convert errors of the database in a block to the project's own."""
    try:
        yield
    except MoulinError:
        raise
    except (exc.IntegrityError, exc.DataError) as error:  # the latter: text with a zero byte, a number out of range
        raise InvalidInput(f"The database rejected the change: {reason(error)}.") from error
    except (exc.DBAPIError, exc.TimeoutError, exc.PendingRollbackError) as error:  # the last: it broke before
        found = reason(error)
        if "no such table" in found or "does not exist" in found:
            raise NotFound(f"This is not a lake's catalog: {found}.") from error
        if "malformed" in found or "not a database" in found:
            raise Corrupt(
                f"The catalog is damaged: {found}. Move it away; `moulin recover` rebuilds it from storage."
            ) from error
        if "readonly" in found or "unable to open" in found or "permission denied" in found:
            raise FailedPrecondition(f"The catalog cannot be written: {found}.") from error
        raise Unavailable(f"The catalog is unavailable: {found}. Retry.") from error


def reason(error: exc.SQLAlchemyError) -> str:
    """The first line of the database's message."""
    original = getattr(error, "orig", None) or error
    return str(original).strip().split("\n")[0].rstrip(".")
