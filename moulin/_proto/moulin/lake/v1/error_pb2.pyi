from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorDetail(_message.Message):
    __slots__ = ("kind", "message", "requirement", "expected_json", "found_json", "winner", "verdict")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REQUIREMENT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_JSON_FIELD_NUMBER: _ClassVar[int]
    FOUND_JSON_FIELD_NUMBER: _ClassVar[int]
    WINNER_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    requirement: str
    expected_json: str
    found_json: str
    winner: int
    verdict: str
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., requirement: _Optional[str] = ..., expected_json: _Optional[str] = ..., found_json: _Optional[str] = ..., winner: _Optional[int] = ..., verdict: _Optional[str] = ...) -> None: ...
