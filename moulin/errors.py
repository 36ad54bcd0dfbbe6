"""The whole error tree. Few kinds, each telling the caller what to do; detail is in the message, which is not API.

MoulinError
├── InvalidInput         the request itself is wrong: change it
├── NotFound             no such object: check the name, or create it
├── AlreadyExists        the name or object is taken: choose another
├── FailedPrecondition   refused by the state of things: change that state first
├── Conflict             lost against another commit: read again and retry        (retryable)
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
    """Root of every error that Moulin raises on purpose."""

    retryable: ClassVar[bool] = False

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__


class InvalidInput(MoulinError, ValueError):
    """The request itself is wrong; sending it again cannot help.

    `line` and `column`, from 1, say where in a text the mistake is, if that is known.
    """

    def __init__(self, message: str = "", *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(*((message,) if message else ()))
        self.line = line
        self.column = column


class NotFound(MoulinError, LookupError):
    """No object of that name, number or version."""


class AlreadyExists(MoulinError):
    """The name is taken by a live object."""


class FailedPrecondition(MoulinError):
    """The state of the lake forbids it; the message says what to change first."""


class Conflict(MoulinError):
    """Another commit won. Read again and retry.

    `requirement` names what had to hold, `expected` and `found` its two values, `winner` the version that won.
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
    """Rows were erased from every version while this one was read. What is left can be read again, at any version."""


class Unavailable(MoulinError):
    """Storage, catalog or network did not answer in time. Nothing is known to be lost; retry."""

    retryable = True


class Unauthenticated(MoulinError):
    """The call carried no token, or one that is unknown, expired or revoked."""


class PermissionDenied(MoulinError):
    """The token is valid, and its role does not allow the call."""


class Fenced(MoulinError):
    """Another writer or another incarnation of the lake took over. Stop, and open the lake again."""


class Corrupt(MoulinError):
    """Stored bytes are not what was written. The message names the object, and where in it."""


class Unsupported(MoulinError):
    """The object was made by a newer version or needs a feature that this version does not have."""


class Closed(MoulinError):
    """The lake, table or snapshot was closed."""


def missing_extra(what: str, extra: str) -> FailedPrecondition:
    """The error for `what` when a package of one of Moulin's extras is not installed."""
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
