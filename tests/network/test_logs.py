"""Lines of a log: each has a time and a level, and those that repeat are cut."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from moulin.errors import InvalidInput
from moulin.network import logs
from moulin.network.logs import BURST, JsonFormatter, RateLimit, TextFormatter, structured_logs


@pytest.fixture
def written() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    stream, logger = io.StringIO(), logging.getLogger("tests.network.logs")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(RateLimit())
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    yield logger, stream
    logger.removeHandler(handler)


def test_warnings_and_errors_that_repeat_are_cut_and_counted(
    written: tuple[logging.Logger, io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, stream = written
    now = 100.0
    monkeypatch.setattr(logs.time, "monotonic", lambda: now)
    for number in range(1000):
        logger.error("out of files\nsocket %d", number, exc_info=OSError("x" * 1000))
        logger.warning("of another kind: %d", number)
        logger.info("a call")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [sum(line["level"] == level for line in lines) for level in ("error", "warning", "info")] == [
        BURST,
        BURST,
        1000,
    ]
    now += 60
    logger.error("out of files\nsocket %d", 1)
    assert json.loads(stream.getvalue().splitlines()[-1])["suppressed"] == 1000 - BURST


def test_kinds_of_messages_that_never_end_take_no_memory(written: tuple[logging.Logger, io.StringIO]) -> None:
    logger, _ = written
    limit = next(one for one in logger.handlers[0].filters if isinstance(one, RateLimit))
    for number in range(3000):
        logger.warning(f"task {number} failed")
    assert len(limit._windows) <= 1000


@pytest.mark.parametrize("form", ["json", "text"])
def test_every_line_has_a_time_and_a_level(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    with structured_logs(form, "info"):
        logging.getLogger("tests").warning("late", extra={"by": 3})
    line = capsys.readouterr().err.strip()
    if form == "json":
        found = json.loads(line)
        assert (found["level"], found["message"], found["by"]) == ("warning", "late", 3)
        assert found["time"].endswith("+00:00")
    else:
        assert line.split()[1:] == ["WARNING", "tests:", "late", "by=3"]


def test_an_unknown_form_or_level_is_refused() -> None:
    for form, level in (("xml", "info"), ("json", "loud")):
        with pytest.raises(InvalidInput, match="one of"), structured_logs(form, level):
            pass
    assert TextFormatter
