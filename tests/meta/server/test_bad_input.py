"""Every call of every service, with one field at a time spoilt: a refusal that says what to do, never a failure."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory, symbol_database
from google.protobuf.descriptor import FieldDescriptor as F

from moulin.meta.server.services import SERVICES
from tests.meta.api import NOBODY, Api
from tests.meta.conftest import Live, name
from tests.meta.merging import open_shop
from tests.meta.rules import rule

POOL: Any = symbol_database.Default().pool
FAILURES = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}
CALLS = [(service.name, method.name) for service in SERVICES for method in POOL.FindServiceByName(service.name).methods]
INTEGERS = {
    F.TYPE_INT32: 31, F.TYPE_SINT32: 31, F.TYPE_SFIXED32: 31, F.TYPE_UINT32: 32, F.TYPE_FIXED32: 32,
    F.TYPE_INT64: 63, F.TYPE_SINT64: 63, F.TYPE_SFIXED64: 63, F.TYPE_UINT64: 64, F.TYPE_FIXED64: 64,
}  # fmt: skip
UNSIGNED = (32, 64)
TEXTS = ("", "x", "a\0b", "../../x", "y" * 2000, NOBODY)
# Fields that hold the id of something, as text. What is malformed there is INVALID_ARGUMENT.
NO_IDS = ("request_id", "collector_id", "worker_id", "cluster_id")


class Lake:
    """What requests can refer to, by the names of their fields."""

    def __init__(self, live: Live) -> None:
        api = Api(live)
        self.database_id, (table_id, other), stream_id = api.ingest(2)
        token_id, plaintext = api.token(self.database_id, table_id)
        shop = open_shop(live)
        shop.fill(2)
        shop.create()
        database = api.GetDatabase(database_id=self.database_id).database.name
        table = api.GetTable(database_id=self.database_id, table_id=table_id).name
        self.known: dict[str, Any] = {
            "database_id": self.database_id,
            "database": database,
            "new_database": database,
            "table": table,
            "name": table,
            "table_names": table,
            "table_id": table_id,
            "table_ids": other,
            "traces_table_id": table_id,
            "logs_table_id": table_id,
            "metrics_table_id": table_id,
            "view_id": api.view(self.database_id, [table_id]),
            "token_id": token_id,
            "stream_id": stream_id,
            "task_id": shop.list()[0].task_id,
            "ingest_token": plaintext,
            "plaintext_token": plaintext,
            "id": table_id,
        }

    def fill(self, message: Any, choice: int, depth: int = 0) -> Any:
        """A message all of whose fields say something; of each `oneof`, the one with the number `choice`."""
        for field in message.DESCRIPTOR.fields:
            either = field.containing_oneof
            if either is not None and either.fields[choice % len(either.fields)].name != field.name:
                continue
            if field.type == F.TYPE_MESSAGE:
                if _is_map(field) or depth > 2:
                    continue
                inner = getattr(message, field.name)
                self.fill(inner.add() if field.is_repeated else inner, choice, depth + 1)
                continue
            value = self._plausible(field)
            if field.is_repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
        return message

    def _plausible(self, field: Any) -> Any:
        if field.type == F.TYPE_STRING:
            return self.known.get(field.name) or (NOBODY if _is_id(field) else name("n"))
        return {F.TYPE_BOOL: False, F.TYPE_BYTES: b"\1" * 32}.get(field.type, 1)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_id(field: Any) -> bool:
    return field.name.endswith(("_id", "_ids")) and not field.name.endswith(NO_IDS)


def spoilt(message: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Set each field of a message to one bad value after the other, and back; says which, and its descriptor."""
    for field in message.DESCRIPTOR.fields:
        where = f"{path}{field.name}"
        if field.type == F.TYPE_MESSAGE:
            if _is_map(field):
                continue
            kept = type(message)()
            kept.CopyFrom(message)
            if field.is_repeated:
                inner = list(getattr(message, field.name))
            else:
                inner = [getattr(message, field.name)] if message.HasField(field.name) else []
            for one in inner:
                yield from spoilt(one, f"{where}.")
            message.ClearField(field.name)
            yield f"{where} is missing", None
            message.CopyFrom(kept)
            continue
        for value in _bad(field):
            kept = type(message)()
            kept.CopyFrom(message)
            if field.is_repeated:
                getattr(message, field.name)[:] = [value]
            else:
                setattr(message, field.name, value)
            yield f"{where} = {value!r:.40}", field if value == "x" else None
            message.CopyFrom(kept)


def _bad(field: Any) -> tuple[Any, ...]:
    if field.type == F.TYPE_STRING:
        return TEXTS
    if field.type == F.TYPE_BYTES:
        return (b"", b"\xff" * 5)
    if field.type == F.TYPE_ENUM:
        return (99, -5)
    if field.type in (F.TYPE_DOUBLE, F.TYPE_FLOAT):
        return (math.nan, math.inf, -1.0)
    if field.type in INTEGERS:
        bits = INTEGERS[field.type]
        return ((1 << bits) - 1,) if bits in UNSIGNED else (-1, -(1 << bits), (1 << bits) - 1)
    return ()


@pytest.fixture(scope="module")
def lake(live: Live) -> Lake:
    return Lake(live)


@rule("GEN-09")
@pytest.mark.parametrize(("service", "call"), CALLS)
def test_one_bad_field_is_refused_and_never_an_internal_error(live: Live, lake: Lake, service: str, call: str) -> None:
    method = POOL.FindServiceByName(service).methods_by_name[call]
    answers = message_factory.GetMessageClass(method.output_type)
    make = live.channel.unary_stream if method.server_streaming else live.channel.unary_unary
    send = make(f"/{service}/{call}", lambda message: message.SerializeToString(), answers.FromString)
    for choice in range(_choices(method.input_type)):
        request = lake.fill(message_factory.GetMessageClass(method.input_type)(), choice)
        _spoil(send, request, call, streaming=method.server_streaming)


def _choices(descriptor: Any, depth: int = 0) -> int:
    """How many alternatives the longest `oneof` of a message has."""
    counts = [len(either.fields) for either in descriptor.oneofs]
    inner = [field.message_type for field in descriptor.fields if field.message_type is not None and depth < 2]
    return max([1, *counts, *(_choices(one, depth + 1) for one in inner)])


def _spoil(send: Any, request: Any, call: str, *, streaming: bool) -> None:
    for what, field in spoilt(request):
        code, said, answer = _ask(send, request, streaming=streaming)
        assert code not in FAILURES, f"{call}: {what}: {said}"
        if code is not grpc.StatusCode.OK:
            assert said.endswith((".", "?")), f"{call}: {what}: {said}"
        if field is not None and _is_id(field) and "." not in what.partition(" ")[0]:
            refused = code is grpc.StatusCode.INVALID_ARGUMENT or _error(answer)
            assert refused, f"{call}: {what}: {code} {said}"


def _ask(send: Any, request: Any, *, streaming: bool) -> tuple[grpc.StatusCode, str, Any]:
    metadata = (("x-request-id", str(uuid.uuid4())),)
    try:
        answer = send(request, timeout=30, metadata=metadata)
        return grpc.StatusCode.OK, "", list(answer) if streaming else answer
    except grpc.RpcError as error:
        return error.code(), error.details(), None


def _error(answer: Any) -> str:
    """What a call says in its answer, where it has a place for that."""
    return str(getattr(getattr(answer, "error", None), "message", ""))
