"""The calls of Spark Connect. All others are rejected."""

# Decisions: docs/decisions/0265, docs/decisions/0266, docs/decisions/0285

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pyspark.sql.connect.proto as pb
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceServicer

from moulin.errors import InvalidInput, MoulinError, PermissionDenied, Unavailable
from moulin.meta.auth import Caller, caller
from moulin.network.slots import Slots
from moulin.sql_server.analysis import Analysis
from moulin.sql_server.errors import abort, named
from moulin.sql_server.operations import Operation
from moulin.sql_server.plans import unpacked
from moulin.sql_server.results import answers
from moulin.sql_server.sessions import ClientSession, Sessions

MAX_OPERATIONS = 32
"""Of one session at a time, whether they run or wait."""
_ARTIFACTS = "This server takes no files and no code of its clients: write it with Spark's own functions."

R = TypeVar("R")


def _told(call: Callable[..., R]) -> Callable[..., R]:
    """A call whose errors are told as Spark's clients understand them."""

    @wraps(call)
    def wrapped(self: Service, request: Any, context: Any) -> R:
        try:
            return call(self, request, context)
        except (MoulinError, PySparkException, Py4JError) as error:
            told = named(error)
            assert isinstance(told, MoulinError)
            abort(context, told)

    return wrapped


def _told_by_and_by(call: Callable[..., Iterator[R]]) -> Callable[..., Iterator[R]]:
    @wraps(call)
    def wrapped(self: Service, request: Any, context: Any) -> Iterator[R]:
        try:
            yield from call(self, request, context)
        except (MoulinError, PySparkException, Py4JError) as error:
            told = named(error)
            assert isinstance(told, MoulinError)
            abort(context, told)

    return wrapped


class Service(SparkConnectServiceServicer):
    """One server's calls. REQUIRES: `moulin.meta.auth.caller` is who calls."""

    def __init__(self, sessions: Sessions, spark: SparkSession, slots: Slots, largest: int) -> None:
        self._sessions, self._spark, self._slots, self._largest = sessions, spark, slots, largest

    @_told_by_and_by
    def ExecutePlan(self, request: pb.ExecutePlanRequest, context: Any) -> Iterator[pb.ExecutePlanResponse]:
        session = self._open(request)
        operation = self._start(session, request)
        reattachable = any(one.reattach_options.reattachable for one in request.request_options)
        try:
            yield from _addressed(session, operation.answers("", context.is_active))
        except GeneratorExit:
            if not reattachable:
                session.operations.forget(operation.id)
            raise
        if not reattachable:
            session.operations.forget(operation.id)

    @_told_by_and_by
    def ReattachExecute(self, request: pb.ReattachExecuteRequest, context: Any) -> Iterator[pb.ExecutePlanResponse]:
        session = self._get(request)
        operation = session.operations.get(request.operation_id)
        yield from _addressed(session, operation.answers(request.last_response_id, context.is_active))

    @_told
    def ReleaseExecute(self, request: pb.ReleaseExecuteRequest, context: Any) -> pb.ReleaseExecuteResponse:
        session = self._get(request)
        if request.WhichOneof("release") == "release_until":
            for operation in session.operations.find(lambda one: one.id == request.operation_id):
                operation.release(request.release_until.response_id)
        else:
            session.operations.forget(request.operation_id)
        return _of(session, pb.ReleaseExecuteResponse(operation_id=request.operation_id))

    @_told
    def Interrupt(self, request: pb.InterruptRequest, context: Any) -> pb.InterruptResponse:
        session = self._get(request)
        kinds = pb.InterruptRequest.InterruptType
        wanted: dict[int, Callable[[Operation], bool]] = {
            kinds.INTERRUPT_TYPE_ALL: lambda one: True,
            kinds.INTERRUPT_TYPE_TAG: lambda one: request.operation_tag in one.tags,
            kinds.INTERRUPT_TYPE_OPERATION_ID: lambda one: one.id == request.operation_id,
        }
        if request.interrupt_type not in wanted:
            raise InvalidInput("An interrupt must select all operations, a tag or one operation.")
        found = session.operations.find(wanted[request.interrupt_type])
        return _of(session, pb.InterruptResponse(interrupted_ids=[one.id for one in found if one.interrupt()]))

    @_told
    def AnalyzePlan(self, request: pb.AnalyzePlanRequest, context: Any) -> pb.AnalyzePlanResponse:
        session = self._open(request)
        return _of(session, Analysis(session.connect, self._largest)(request))

    @_told
    def Config(self, request: pb.ConfigRequest, context: Any) -> pb.ConfigResponse:
        session = self._open(request)
        response = pb.ConfigResponse()
        _configure(session, request.operation, response)
        return _of(session, response)

    @_told
    def ReleaseSession(self, request: pb.ReleaseSessionRequest, context: Any) -> pb.ReleaseSessionResponse:
        self._sessions.close(caller.get(), request.session_id)
        return pb.ReleaseSessionResponse(session_id=request.session_id)

    @_told
    def FetchErrorDetails(self, request: pb.FetchErrorDetailsRequest, context: Any) -> pb.FetchErrorDetailsResponse:
        """Errors have no details beyond their sentences."""
        return _of(self._get(request), pb.FetchErrorDetailsResponse())

    @_told
    def AddArtifacts(self, requests: Iterable[pb.AddArtifactsRequest], context: Any) -> pb.AddArtifactsResponse:
        raise PermissionDenied(_ARTIFACTS)

    @_told
    def ArtifactStatus(self, request: pb.ArtifactStatusesRequest, context: Any) -> pb.ArtifactStatusesResponse:
        raise PermissionDenied(_ARTIFACTS)

    def _open(self, request: Any) -> ClientSession:
        return self._sessions.open(_caller(), request.session_id, request.client_observed_server_side_session_id)

    def _get(self, request: Any) -> ClientSession:
        return self._sessions.get(_caller(), request.session_id)

    def _start(self, session: ClientSession, request: pb.ExecutePlanRequest) -> Operation:
        plan = unpacked(request.plan, self._largest)
        operation = Operation(_operation_id(request), request.tags, self._spark)
        if len(session.operations.find(lambda one: not one.done)) >= MAX_OPERATIONS:
            raise Unavailable(
                f"A session can have at most {MAX_OPERATIONS} operations at a time: wait for one of them."
            )
        self._slots.check(_caller())
        self._sessions.make_room(_caller())
        session.operations.add(operation)
        counts = not _is_jdbc(request)
        self._slots.submit(_caller(), lambda: operation.run(lambda: _run(session, plan, counts=counts)))
        return operation


def _run(session: ClientSession, plan: pb.Plan, *, counts: bool) -> Iterator[pb.ExecutePlanResponse]:
    kind = plan.WhichOneof("op_type")
    if kind == "root":
        yield from answers(session.connect.result(plan.root))
    elif kind == "command":
        result = session.connect.command(plan.command, counts=counts)
        if result is not None:
            yield pb.ExecutePlanResponse(sql_command_result=pb.ExecutePlanResponse.SqlCommandResult(relation=result))
    else:
        raise InvalidInput("The plan is empty.")


def _is_jdbc(request: pb.ExecutePlanRequest) -> bool:
    """Its `executeUpdate` fails, after the change was made, when there are columns in the result."""
    return request.client_type.startswith("Spark Connect JDBC")


def _configure(session: ClientSession, operation: pb.ConfigRequest.Operation, response: pb.ConfigResponse) -> None:
    settings, kind = session.connect.settings, operation.WhichOneof("op_type")
    found: dict[str, str | None] = {}
    if kind == "set":
        for pair in operation.set.pairs:
            try:
                settings.set(pair.key, pair.value)
            except PermissionDenied as error:
                if not operation.set.silent:
                    raise
                response.warnings.append(error.message)
    elif kind == "get":
        found = {key: settings.get(key) for key in operation.get.keys}
    elif kind == "get_option":
        found = {key: settings.find(key) for key in operation.get_option.keys}
    elif kind == "get_with_default":
        for pair in operation.get_with_default.pairs:
            value = settings.find(pair.key)
            found[pair.key] = value if value is not None or not pair.HasField("value") else pair.value
    elif kind == "get_all":
        found = dict(settings.all(operation.get_all.prefix))
    elif kind == "unset":
        settings.unset(operation.unset.keys)
    elif kind == "is_modifiable":
        found = {key: str(settings.is_settable(key)).lower() for key in operation.is_modifiable.keys}
    else:
        raise InvalidInput("A call for settings must get, set or unset them.")
    response.pairs.extend(pb.KeyValue(key=key, value=value) for key, value in found.items())


def _caller() -> Caller:
    return caller.get()


def _operation_id(request: pb.ExecutePlanRequest) -> str:
    try:
        return str(UUID(request.operation_id)) if request.operation_id else str(uuid4())
    except ValueError:
        raise InvalidInput("[INVALID_HANDLE.FORMAT] The id of an operation is a UUID.") from None


def _of(session: ClientSession, message: R) -> R:
    """The message, with the session that it belongs to."""
    message.session_id = session.id  # type: ignore[attr-defined]
    message.server_side_session_id = session.server_side_id  # type: ignore[attr-defined]
    return message


def _addressed(session: ClientSession, found: Iterator[pb.ExecutePlanResponse]) -> Iterator[pb.ExecutePlanResponse]:
    return (_of(session, answer) for answer in found)
