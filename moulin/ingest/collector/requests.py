"""What a collector checks of a request before it stores it: that it can be decoded, and what it holds."""

# Decisions: docs/decisions/0073

from __future__ import annotations

import base64
import binascii
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.json as pa_json
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from moulin.errors import InvalidInput
from moulin.ingest.otlp.otlp import REQUESTS
from moulin.model.otel import Signal

_IDS: Final = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
_GROUPS: Final = {"logs": "resource_logs", "traces": "resource_spans", "metrics": "resource_metrics"}
_SCOPES: Final = {"logs": "scope_logs", "traces": "scope_spans", "metrics": "scope_metrics"}
_LISTS: Final = {"logs": "log_records", "traces": "spans", "metrics": "metrics"}
_GZIP: Final = 31
_DEEPEST: Final = 100


class TooLarge(InvalidInput):
    """The request has more bytes than a collector takes."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A request that is fit to be stored: its bytes in protobuf, how many records it has, how many were left out."""

    data: bytes
    records: int
    rejected: int = 0
    reason: str = ""


def check_protobuf(signal: Signal, data: bytes) -> Checked:
    """A request in protobuf. Its bytes stay as they are, unless records with malformed ids had to be left out."""
    try:
        message = REQUESTS[signal].FromString(data)
    except DecodeError:
        raise InvalidInput(f"The body is not an OTLP request of {signal} in protobuf.") from None
    return _checked(signal, message, data)


def check_json(signal: Signal, data: bytes) -> Checked:
    """A request in OTLP's JSON, where ids are hex. It is stored in protobuf."""
    try:
        document = json.loads(data)
        if not isinstance(document, dict):
            raise InvalidInput("It is no JSON object.")
        _hex_to_base64(document, 0)
        message = json_format.ParseDict(document, REQUESTS[signal](), ignore_unknown_fields=True)
    except (ValueError, TypeError, AttributeError, RecursionError, json_format.ParseError) as error:
        reason = str(error).splitlines()[0][:200] if isinstance(error, json_format.ParseError | InvalidInput) else ""
        raise InvalidInput(f"The body is not an OTLP request of {signal} in JSON. {reason}".strip()) from None
    return _checked(signal, message, message.SerializeToString())


def check_ndjson(data: bytes) -> int:
    """How many rows there are in lines of JSON objects."""
    try:
        return pa_json.read_json(io.BytesIO(data)).num_rows if data.strip() else 0
    except pa.ArrowException as error:
        raise InvalidInput(f"The body is not one JSON object per line: {str(error).splitlines()[0][:200]}") from None


def check_arrow(data: bytes) -> int:
    """How many rows there are in an Arrow IPC stream; all of it is checked."""
    try:
        rows = 0
        with pa.ipc.open_stream(data) as reader:
            for batch in reader:
                batch.validate(full=True)
                rows += batch.num_rows
        return rows
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInput(f"The body is not an Arrow IPC stream: {str(error).splitlines()[0][:200]}") from None


class Inflater:
    """A gzip body, piece by piece, never more than `limit` bytes of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._zlib = zlib.decompressobj(_GZIP)

    def feed(self, data: bytes) -> bytes:
        """What `data` adds to the body. TooLarge beyond the limit, InvalidInput for what is no gzip."""
        parts = []
        try:
            while data:
                if self._zlib.eof:  # gzip files may follow one another
                    self._zlib = zlib.decompressobj(_GZIP)
                part = self._zlib.decompress(data, self._limit - self._size + 1)
                self._size += len(part)
                if self._size > self._limit:
                    raise TooLarge(
                        f"The body has more than {self._limit} bytes once decompressed: send smaller batches."
                    )
                parts.append(part)
                data = self._zlib.unconsumed_tail or self._zlib.unused_data
        except zlib.error:
            raise InvalidInput("The body is not gzip, as its Content-Encoding says.") from None
        return b"".join(parts)

    def finish(self) -> None:
        if not self._zlib.eof:
            raise InvalidInput("The gzip body is cut short.")


def _checked(signal: Signal, message: Any, data: bytes) -> Checked:
    records = rejected = 0
    for scope in _scopes(signal, message):
        found = getattr(scope, _LISTS[signal])
        if signal == "metrics":
            records += sum(_points(metric) for metric in found)
            continue
        bad = [
            index
            for index, record in enumerate(found)
            if len(record.trace_id) not in (0, 16) or len(record.span_id) not in (0, 8)
        ]
        records += len(found) - len(bad)
        rejected += len(bad)
        for index in reversed(bad):
            del found[index]
    if not rejected:
        return Checked(data, records)
    reason = f"{rejected} records have a trace id that is not 16 bytes or a span id that is not 8 bytes long."
    return Checked(message.SerializeToString(), records, rejected, reason)


def _scopes(signal: Signal, message: Any) -> Iterator[Any]:
    for group in getattr(message, _GROUPS[signal]):
        yield from getattr(group, _SCOPES[signal])


def _points(metric: Any) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind else 0


def _hex_to_base64(value: Any, depth: int) -> None:
    """Rewrites ids, in place, to what protobuf's own JSON has for bytes."""
    if depth > _DEEPEST:
        raise InvalidInput("It is nested too deeply.")
    if isinstance(value, list):
        for item in value:
            _hex_to_base64(item, depth + 1)
    elif isinstance(value, dict):
        for name in _IDS:
            if isinstance(found := value.get(name), str):
                try:
                    value[name] = base64.b64encode(binascii.unhexlify(found)).decode()
                except ValueError:
                    raise InvalidInput(f"{name} is not hex.") from None
        for name, item in value.items():
            if name not in ("attributes", "body") and isinstance(item, list | dict):
                _hex_to_base64(item, depth + 1)


__all__ = ["Checked", "Inflater", "TooLarge", "check_arrow", "check_json", "check_ndjson", "check_protobuf"]
