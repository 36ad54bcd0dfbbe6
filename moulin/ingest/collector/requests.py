"""Checks an OTLP request before it is stored: that it can be decoded, and its content."""

# Decisions: docs/decisions/0073, docs/decisions/0225

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf.message import DecodeError

from moulin.errors import InvalidInput
from moulin.ingest.collector.limits import RequestLimits, TooLarge
from moulin.ingest.otlp.count import DEEPEST, TooMany, count_messages
from moulin.ingest.otlp.json_request import NotOtlp, count_values, to_protobuf
from moulin.ingest.otlp.mend import RECORDS, Unmendable, mend
from moulin.ingest.otlp.otlp import REQUESTS
from moulin.ingest.otlp.wire import Odd
from moulin.model.otel import Signal

_GROUPS: Final = {"logs": "resource_logs", "traces": "resource_spans", "metrics": "resource_metrics"}
_SCOPES: Final = {"logs": "scope_logs", "traces": "scope_spans", "metrics": "scope_metrics"}
_LISTS: Final = {"logs": "log_records", "traces": "spans", "metrics": "metrics"}
_GZIP: Final = 31
_PIECE: Final = 1 << 20
_SMALLEST: Final = 2  # bytes that a message takes at least


@dataclass(frozen=True, slots=True)
class Checked:
    """A request that is fit to be stored: its bytes in protobuf, how many records it has, how many were left out.

    `mended` counts texts in which something was replaced; `reason` is for the sender, empty when all is as it was sent.
    """

    data: bytes
    records: int
    rejected: int = 0
    reason: str = ""
    mended: int = 0


def check_protobuf(signal: Signal, data: bytes, limits: RequestLimits) -> Checked:
    """A request in protobuf. Its bytes stay as they are, unless something in it cannot be stored."""
    _check_counts(signal, data, limits)
    try:
        message = REQUESTS[signal].FromString(data)
    except DecodeError:
        return _mended(signal, data)
    return _checked(signal, message, data)


def check_json(signal: Signal, data: bytes, limits: RequestLimits) -> Checked:
    """A request in OTLP's JSON, where ids are hex. It is stored in protobuf."""
    limits.check_values(count_values(data, limits.values))
    try:
        encoded, replaced = to_protobuf(signal, data)
    except NotOtlp as error:
        raise InvalidInput(f"The body is not an OTLP request of {signal} in JSON. {error}") from None
    checked = check_protobuf(signal, encoded, limits)
    return _with_texts(checked, replaced) if replaced else checked


def _check_counts(signal: Signal, data: bytes, limits: RequestLimits) -> None:
    """Refuses a request with too many records or values, before protobuf makes an object of each."""
    if len(data) <= _SMALLEST * min(limits.rows, limits.values):
        return
    try:
        found = count_messages(REQUESTS[signal].DESCRIPTOR, data, limits.values)
    except TooMany:
        limits.check_values(limits.values + 1)
    except Odd:
        raise _not_otlp(signal) from None
    else:
        limits.check_rows(sum(found[name] for name in RECORDS[signal]))


def _mended(signal: Signal, data: bytes) -> Checked:
    """A repaired request that protobuf rejected, without unreadable parts."""
    try:
        found = mend(signal, data)
    except Unmendable:
        raise _not_otlp(signal) from None
    checked = _checked(signal, REQUESTS[signal].FromString(found.data), found.data)
    if found.left_out:
        reason = f"{found.left_out} records have values nested too deeply (more than {DEEPEST} messages) or cut short."
        checked = replace(
            checked, rejected=checked.rejected + found.left_out, reason=f"{checked.reason} {reason}".strip()
        )
    return _with_texts(checked, found.texts) if found.texts else checked


def _with_texts(checked: Checked, texts: int) -> Checked:
    reason = f"{checked.reason} Bytes that are not UTF-8 were replaced by U+FFFD; the records were taken.".strip()
    return replace(checked, reason=reason, mended=checked.mended + texts)


def _not_otlp(signal: Signal) -> InvalidInput:
    return InvalidInput(f"The body is not an OTLP request of {signal} in protobuf.")


class Inflater:
    """A gzip body, piece by piece, never more than a mebibyte past `limit` bytes of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._zlib = zlib.decompressobj(_GZIP)

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Returns a decompressed piece of the body, at most 1 MiB, and the rest of `data`, to be fed next.

        Raises TooLarge beyond the limit, and InvalidInput for bytes that are not gzip.
        """
        parts, size = [], 0
        try:
            while data and size < _PIECE:
                if self._zlib.eof:  # gzip files may follow one another
                    self._zlib = zlib.decompressobj(_GZIP)
                parts.append(self._zlib.decompress(data, _PIECE - size))
                size += len(parts[-1])
                data = self._zlib.unconsumed_tail or self._zlib.unused_data
        except zlib.error:
            raise InvalidInput("The body is not gzip, as its Content-Encoding says.") from None
        self._size += size
        if self._size > self._limit:
            raise TooLarge(
                f"The body has more than {self._limit:,} bytes once decompressed (collector_request_bytes): "
                "send smaller batches."
            )
        return b"".join(parts), data

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
        good = [record for record in found if len(record.trace_id) in (0, 16) and len(record.span_id) in (0, 8)]
        records += len(good)
        if len(good) < len(found):
            rejected += len(found) - len(good)
            del found[:]
            found.extend(good)
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


__all__ = ["Checked", "Inflater", "TooLarge", "check_json", "check_protobuf"]
