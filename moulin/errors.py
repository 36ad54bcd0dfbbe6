"""All error classes. The class tells the caller what to do; details are in the message, which is not API.

MoulinError
├── InvalidInput         the request is invalid: change it
├── NotFound             no such object: check the name, or create it
├── AlreadyExists        the name is taken: choose another
├── FailedPrecondition   not possible in the current state: change the state first
├── Conflict             another commit was first: read again and retry            (retryable)
│   └── Erased           rows were erased while they were read: read again        (retryable)
├── Unavailable          storage, catalog or network did not answer: retry later  (retryable)
├── Unauthenticated      the server does not know who asks: send a valid token
├── PermissionDenied     it knows, and that role may not do this: ask for another role
├── Fenced               another writer took over: stop and reopen
├── Corrupt              stored bytes are damaged: restore them, see `moulin check`
├── Unsupported          made by a newer version, or needs a feature this one lacks: upgrade
└── Closed               the object was closed: open it again
"""

from __future__ import annotations

from typing import ClassVar


class MoulinError(Exception):
    """Base class of all errors that Moulin raises."""

    retryable: ClassVar[bool] = False

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


class InvalidInput(MoulinError, ValueError):
    """The request is invalid; repeating it cannot succeed.

    `line` and `column`, counted from 1, are the position of the error in a text, if known.
    """

    def __init__(self, message: str = "", *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(*((message,) if message else ()))
        self.line = line
        self.column = column


class NotFound(MoulinError, LookupError):
    """There is no object with this name, number or version."""


class AlreadyExists(MoulinError):
    """The name is used by an existing object."""


class FailedPrecondition(MoulinError):
    """Not possible in the current state of the lake; the message says what to change first."""


class Conflict(MoulinError):
    """Another commit was first. Read again and retry.

    `requirement` is the violated condition, `expected` and `found` its two values, `winner` the version of the other
    commit.
    """

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        requirement: str = "",
        expected: object = None,
        found: object = None,
        winner: int | None = None,
    ) -> None:
        super().__init__(message)
        self.requirement = requirement
        self.expected = expected
        self.found = found
        self.winner = winner


class Erased(Conflict):
    """Rows were erased from every version while this version was read. Read again; the remaining rows are readable."""


class Unavailable(MoulinError):
    """Storage, catalog or network were unavailable. Nothing is known to be lost; retry."""

    retryable = True


class Unauthenticated(MoulinError):
    """The call had no token, or its token is unknown, expired or revoked."""


class PermissionDenied(MoulinError):
    """The token is valid, but its role does not allow the call."""


class Fenced(MoulinError):
    """Another writer or incarnation of the lake took over. Stop, and open the lake again."""


class Corrupt(MoulinError):
    """Stored data is damaged. The message names the object and the position."""


class Unsupported(MoulinError):
    """The object was written by a newer version, or needs a feature that this version lacks."""


class Closed(MoulinError):
    """The lake, table or snapshot was closed."""


def missing_extra(what: str, extra: str) -> FailedPrecondition:
    """The error for `what` if a package of one of Moulin's extras is not installed."""
    return FailedPrecondition(f"{what} needs the extra {extra!r}: pip install 'moulin[{extra}]'.")


__all__ = [
    "AlreadyExists",
    "Closed",
    "Conflict",
    "Corrupt",
    "Erased",
    "FailedPrecondition",
    "Fenced",
    "InvalidInput",
    "MoulinError",
    "NotFound",
    "PermissionDenied",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
]
