"""Structured logs: one JSON object per line on standard error, each with the id of the request it belongs to.

The log of a call has its method, status, duration and caller; never requests, tokens or metadata.

Repeated warnings and errors are limited to `BURST` lines of each kind in `WINDOW` seconds; the first of the next window
has the number of omitted ones as `suppressed`.
"""

# Decisions: docs/decisions/0242

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from moulin.errors import InvalidInput
from moulin.printable import printable, printable_json

request_id: ContextVar[str] = ContextVar("request_id", default="")

FORMS: Final = ("json", "text")
LEVELS: Final = ("debug", "info", "warning", "error")
BURST: Final = 10
WINDOW: Final = 10.0
_KINDS: Final = 1000
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


@dataclass(slots=True)
class _Window:
    since: float
    lines: int = 0


class RateLimit(logging.Filter):
    """Cuts warnings and errors that repeat. Lines of lower levels are left alone."""

    def __init__(self) -> None:
        super().__init__()
        self._windows: dict[tuple[str, int, str], _Window] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        kind = (record.name, record.levelno, str(record.msg).partition("\n")[0][:80])
        now, window = time.monotonic(), self._windows.get(kind)
        if window is None or now - window.since >= WINDOW:
            if window is not None and window.lines > BURST:
                record.suppressed = window.lines - BURST
            if len(self._windows) >= _KINDS:
                self._windows.clear()
            window = self._windows[kind] = _Window(now)
        window.lines += 1
        return window.lines <= BURST


@contextmanager
def structured_logs(form: str, level: str) -> Iterator[None]:
    """Send everything that is logged in this process, until the block ends, to standard error in one form."""
    if form not in FORMS or level not in LEVELS:
        raise InvalidInput(
            f"The log format must be one of {', '.join(FORMS)} and the level one of {', '.join(LEVELS)}, not "
            f"{form!r} and "
            f"{level!r}."
        )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(RateLimit())
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
