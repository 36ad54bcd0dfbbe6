"""Converts errors of the object store client to errors of Moulin."""

from __future__ import annotations

import re
from typing import Final

from obstore import exceptions

from moulin.errors import AlreadyExists, Corrupt, FailedPrecondition, InvalidInput, MoulinError, NotFound, Unavailable


def failure(error: Exception, uri: str, name: str) -> MoulinError:
    """What obstore raised, as ours. Its text holds addresses and headers: only known words of it are passed on."""
    text = str(error)
    answer = re.search(r"status code: (\d{3})", text)
    code = re.search(r"<Code>([A-Za-z]{1,60})</Code>", text)
    if code and code[1] in ("NoSuchBucket", "ContainerNotFound"):
        return FailedPrecondition(f"The bucket of {uri} does not exist: create it first.")
    if isinstance(error, FileNotFoundError):
        return NotFound(f"Object {name} does not exist.")
    if isinstance(error, exceptions.AlreadyExistsError):
        return AlreadyExists(f"Object {name} already exists.")
    if isinstance(error, exceptions.NotSupportedError | NotImplementedError):
        return FailedPrecondition(
            f"{uri} does not support an operation for {name}: use another store or other options."
        )
    if isinstance(error, ValueError | exceptions.InvalidPathError):
        return InvalidInput(f"{name} is not a name or range that the store accepts.")
    if (answer and answer[1] == "416") or "Invalid range: " in text:
        return Corrupt(f"{name} ends before the bytes that were asked for: it is truncated. Restore it.")
    if answer:
        words = f"it answered {answer[1]} {code[1] if code else ''}".rstrip()
        if answer[1] in ("401", "403"):
            return Unavailable(f"{name} was denied ({words}): check the credentials in the storage options.")
        return Unavailable(f"{name} cannot be reached ({words}): retry later.")
    known = next((meaning for sign, meaning in _SIGNS if sign in text), "the request failed")
    return Unavailable(f"{name} cannot be reached ({known}): check the address and the network, then retry.")


def may_be_done(error: Exception) -> bool:
    """Whether a request that failed may have been done: not when the store was never reached, or refused it."""
    text = str(error)
    return not any(sign in text for sign in _NOT_DONE)


_SIGNS: Final = (
    ("/latest/api/token", "no credentials were given, and no machine role was found"),
    ("ConnectionRefused", "the connection was refused"),
    ("dns error", "its host name is unknown"),
    ("certificate", "its certificate is not trusted"),
    ("kind: Timeout", "it did not answer in time"),
    ("timed out", "it did not answer in time"),
    ("BadScheme", "plain http needs the option allow_http"),
)
_NOT_DONE: Final = (
    *("/latest/api/token", "ConnectionRefused", "dns error", "certificate", "BadScheme"),
    *("status code: 401", "status code: 403", "NoSuchBucket", "ContainerNotFound"),
)
