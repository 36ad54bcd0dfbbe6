"""Moments as text."""

from __future__ import annotations

import pytest

from moulin.meta.codec.meta.moment import from_message_moment, to_message_moment
from tests.meta.rules import rule


@rule("GEN-12")
@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_a_moment_is_text_in_utc_to_the_microsecond(nanos: int, text: str) -> None:
    assert to_message_moment(nanos) == text
    assert from_message_moment(text) == nanos // 1000 * 1000
