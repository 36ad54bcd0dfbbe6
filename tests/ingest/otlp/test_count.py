"""Messages counted on the wire, compared with the messages that protobuf makes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moulin.ingest.otlp import count
from moulin.ingest.otlp.count import TooMany, count_messages
from moulin.ingest.otlp.otlp import REQUESTS
from moulin.model.otel import SIGNALS, Signal
from tests.ingest import reference


def counted(message: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                found[one.DESCRIPTOR.name] += 1
                found += counted(one)
    return found


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize(("size", "block"), [(1 << 20, 65_536), (64, 5)], ids=["together", "block by block"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_message_is_counted_by_its_type(size: int, block: int, signal: Signal, seed: int) -> None:
    data = reference.Generator(seed).request(signal)
    expected = counted(REQUESTS[signal].FromString(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count, "_SLICE", size)
        patch.setattr(count, "_BLOCK", block)
        assert count_messages(REQUESTS[signal].DESCRIPTOR, data, 10**6) == expected
        if expected:
            assert count_messages(REQUESTS[signal].DESCRIPTOR, data, max(expected.total(), len(data))) == expected
            with pytest.raises(TooMany):
                count_messages(REQUESTS[signal].DESCRIPTOR, data, expected.total() - 1)
