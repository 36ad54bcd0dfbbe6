"""Parses the parameters of Jaeger's query API."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from moulin.console.traces.search import SECOND, Asked
from moulin.errors import InvalidInput

TRACES_BACK: Final = 48 * 3600 * SECOND
CALLS_BACK: Final = 24 * 3600 * SECOND
_MICRO: Final = 1000
_MOST_TAGS: Final = 20
_UNITS: Final = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART: Final = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(ns|us|µs|μs|ms|s|m|h)")
_LATEST: Final = (1 << 62) // _MICRO
_KINDS: Final = ("internal", "server", "client", "producer", "consumer")


def asked(
    now: int,
    service: str | None,
    operation: str | None,
    tags: str | None,
    tag: Sequence[str],
    start: int | None,
    end: int | None,
    min_duration: str | None,
    max_duration: str | None,
) -> Asked:
    """A search; InvalidInput for what is none. Times are microseconds, durations are as Go writes them."""
    if not service:
        raise InvalidInput("The parameter 'service' is required: name a service, or a traceID.")
    until = now if end is None else _time(end)
    since = max(0, until - TRACES_BACK) if start is None else _time(start)
    if since > until:
        raise InvalidInput("The parameter 'start' is later than 'end'.")
    pairs = _tags(tags, tag)
    failed = [value for key, value in pairs if key == "error"]
    kinds = [value for key, value in pairs if key == "span.kind"]
    if any(value not in ("true", "") for value in failed):
        raise InvalidInput("The tag 'error' can only be 'true'.")
    if any(kind not in _KINDS for kind in kinds) or len(set(kinds)) > 1:
        raise InvalidInput(f"The tag 'span.kind' must be one of {', '.join(_KINDS)}.")
    return Asked(
        since,
        until,
        service,
        operation or None,
        duration(min_duration),
        duration(max_duration),
        bool(failed),
        tuple(pair for pair in pairs if pair[0] not in ("error", "span.kind")),
        kinds[0] if kinds else None,
    )


def _time(micros: int) -> int:
    if not 0 <= micros <= _LATEST:
        raise InvalidInput("Times must be Unix microseconds.")
    return micros * _MICRO


def duration(text: str | None) -> int | None:
    """Nanoseconds of a duration such as 1.2s, 100ms or 1h5m; None when it is not given."""
    if not text:
        return None
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidInput(f"A duration must be a number with ns, us, ms, s, m or h, not {text[:50]!r}.")
    return min(sum(int(float(number) * _UNITS[unit]) for number, unit in parts), 1 << 62)


def _tags(tags: str | None, tag: Sequence[str]) -> list[tuple[str, str]]:
    """Tags as one JSON object of texts, and as key:value."""
    pairs: list[tuple[str, str]] = []
    if tags:
        try:
            found = json.loads(tags)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise InvalidInput('The parameter \'tags\' is a JSON object of texts, such as {"http.method":"GET"}.')
        pairs += found.items()
    for text in tag:
        key, colon, value = text.partition(":")
        if not key or not colon:
            raise InvalidInput(f"The parameter 'tag' must be key:value, not {text[:50]!r}.")
        pairs.append((key, value))
    if len(pairs) > _MOST_TAGS:
        raise InvalidInput(f"A search can have at most {_MOST_TAGS} tags.")
    return pairs


__all__ = ["CALLS_BACK", "TRACES_BACK", "asked", "duration"]
