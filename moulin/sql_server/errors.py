"""Errors in the format of Spark's clients: a status, a message, and the exception class."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from moulin.errors import InvalidInput, MoulinError, NotFound
from moulin.meta.codec.errors import code_of, message_of
from moulin.pipeline.sql.safe import without_addresses

_ANALYSIS = ["org.apache.spark.sql.AnalysisException", "java.lang.Exception"]
_OTHERS = ["org.apache.spark.SparkException", "java.lang.Exception"]


def named(error: Exception) -> Exception:
    """An error of Spark as one of ours: one sentence without addresses of files. Others are as they were."""
    if not isinstance(error, (PySparkException, Py4JError)):
        return error
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    cause = next((line for line in lines if "[" in line and "SQLSTATE" in line), lines[0])
    start = cause.find("[") if "SQLSTATE" in cause else 0
    return InvalidInput(f"The query failed: {without_addresses(cause[start:])}")


def abort(context: Any, error: MoulinError) -> NoReturn:
    """End a call with an error."""
    context.abort_with_status(rpc_status.to_status(status_of(error)))
    raise AssertionError  # abort raises


def status_of(error: MoulinError) -> status_pb2.Status:
    classes = _ANALYSIS if isinstance(error, (InvalidInput, NotFound)) else _OTHERS
    info = error_details_pb2.ErrorInfo(
        reason=classes[0], domain="org.apache.spark", metadata={"classes": json.dumps(classes)}
    )
    detail = any_pb2.Any()
    detail.Pack(info)
    code = getattr(code_pb2, code_of(error).name)
    return status_pb2.Status(code=code, message=message_of(error), details=[detail])
