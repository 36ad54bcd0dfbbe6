"""Structured logs: one JSON object per line on standard error, each with the id of the request it belongs to.

What is logged of a call is its method, status, duration and caller. Requests, tokens and metadata never are.
"""

# Decisions: docs/decisions/0242

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from moulin.meta.server.calls import request_id
from moulin.printable import printable, printable_json

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """A line per record: time, level, logger, message, request id, and what was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_json(json.dumps(_facts(record, self), default=str, ensure_ascii=False))


class TextFormatter(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record, self)
        head = f"{facts.pop('time')} {facts.pop('level').upper():7} {facts.pop('logger')}: {facts.pop('message')}"
        stack = facts.pop("exception", "")
        tail = "".join(f" {key}={value}" for key, value in facts.items())
        return printable(f"{head}{tail}") + (printable(f"\n{stack}", keep="\n") if stack else "")


def _facts(record: logging.LogRecord, formatter: logging.Formatter) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
    }
    if known := request_id.get():
        facts["request_id"] = known
    facts.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
    if record.exc_info:
        facts["exception"] = formatter.formatException(record.exc_info)
    return facts


@contextmanager
def structured_logs(form: str, level: str) -> Iterator[None]:
    """Send everything that is logged in this process, until the block ends, to standard error in one form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("alembic", "httpx", "uvicorn.access"):  # they tell of every step
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)
