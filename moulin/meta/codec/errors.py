"""Errors of `moulin.errors` <-> gRPC status, both ways.

A server returns a standard status code, the message, and an `ErrorDetail` in the trailing metadata. Our client raises
the same error from the detail; without one (from a proxy or the network) it uses the code.
"""

# Decisions: docs/decisions/0101

from __future__ import annotations

import json
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from moulin import errors
from moulin._proto.moulin.lake.v1 import error_pb2 as pb
from moulin.catalog.commit.table_commit import Stale
from moulin.errors import Conflict, MoulinError
from moulin.model.conflicts import Verdict

DETAIL: Final = "moulin-error-bin"
_LONGEST = 2000  # of a message, in characters: all metadata of an answer must stay below 8 KiB

# Most special first: an error has the code of the first that it is an instance of.
CODES: Final[dict[type[MoulinError], grpc.StatusCode]] = {
    errors.InvalidInput: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFound: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Erased: grpc.StatusCode.ABORTED,
    errors.Conflict: grpc.StatusCode.ABORTED,
    errors.Unavailable: grpc.StatusCode.UNAVAILABLE,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDenied: grpc.StatusCode.PERMISSION_DENIED,
    errors.Fenced: grpc.StatusCode.FAILED_PRECONDITION,
    errors.Corrupt: grpc.StatusCode.DATA_LOSS,
    errors.Unsupported: grpc.StatusCode.UNIMPLEMENTED,
    errors.Closed: grpc.StatusCode.UNAVAILABLE,
}
_KINDS: Final = {kind.__name__: kind for kind in CODES}
_BY_CODE: Final[dict[grpc.StatusCode, type[MoulinError]]] = {
    **{code: kind for kind, code in reversed(CODES.items())},
    grpc.StatusCode.ABORTED: errors.Conflict,
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.FAILED_PRECONDITION: errors.FailedPrecondition,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.Unavailable,
    grpc.StatusCode.CANCELLED: errors.Unavailable,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.Unavailable,
    grpc.StatusCode.OUT_OF_RANGE: errors.InvalidInput,
}


def kind_of(error: MoulinError) -> type[MoulinError]:
    """The kind that a client is told of; MoulinError itself for one that is not in the tree."""
    return next((kind for kind in CODES if isinstance(error, kind)), MoulinError)


def code_of(error: MoulinError) -> grpc.StatusCode:
    return CODES.get(kind_of(error), grpc.StatusCode.INTERNAL)


def message_of(error: MoulinError) -> str:
    """The sentence, cut where it would not fit into an answer's metadata."""
    text = error.message
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def to_message_error(error: MoulinError) -> pb.ErrorDetail:
    detail = pb.ErrorDetail(kind=kind_of(error).__name__, message=message_of(error))
    if isinstance(error, Conflict):
        detail.requirement = error.requirement
        detail.expected_json = _to_json(error.expected)
        detail.found_json = _to_json(error.found)
        if error.winner is not None:
            detail.winner = error.winner
    if isinstance(error, Stale):
        detail.verdict = error.verdict.value
    return detail


def from_message_error(detail: pb.ErrorDetail) -> MoulinError:
    """The inverse of `to_message_error`. A kind that a newer server knows and this client does not is a MoulinError."""
    kind = _KINDS.get(detail.kind, MoulinError)
    if kind is not Conflict:
        return kind(detail.message)
    figures: dict[str, Any] = {
        "requirement": detail.requirement,
        "expected": _from_json(detail.expected_json),
        "found": _from_json(detail.found_json),
        "winner": detail.winner if detail.HasField("winner") else None,
    }
    if detail.verdict in {verdict.value for verdict in Verdict}:
        return Stale(detail.message, Verdict(detail.verdict), **figures)
    return Conflict(detail.message, **figures)


def from_rpc_error(error: grpc.RpcError) -> MoulinError:
    """The error that a failed call stands for."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAIL:
            try:
                return from_message_error(pb.ErrorDetail.FromString(value))
            except DecodeError:
                break
    code, text = error.code(), error.details() or ""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        return errors.InvalidInput(f"The message is too large for the server or this client: {text}.")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.Unavailable("The server did not answer in time: the outcome of the call is unknown.")
    if code is grpc.StatusCode.UNAVAILABLE:
        return errors.Unavailable(f"The server cannot be reached: {text or 'no answer'}. {_advice(text)}")
    return _BY_CODE.get(code, MoulinError)(text or f"The server answered {code.name}.")


def _advice(text: str) -> str:
    """What to do about a connection that was not made, by gRPC's words for it."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "Give certificate=, a PEM file of the authority that signed the server's certificate."
    if "WRONG_VERSION_NUMBER" in text:
        return "The server speaks no TLS: write grpc:// in place of grpcs://."
    if "Socket closed" in text:
        return "If the server speaks TLS, write grpcs:// in place of grpc://. Else try again."
    return "Try again."


def _to_json(value: object) -> str:
    return "" if value is None else json.dumps(value, default=str)


def _from_json(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
