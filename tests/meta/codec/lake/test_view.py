"""Views as messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.errors import InvalidInput
from moulin.meta.codec.lake.view import from_message_query, from_message_view, to_message_query, to_message_view
from moulin.model.entities import Named, Tombstone, View
from moulin.model.ids import new_id
from tests.contract.samples import view_query


def test_a_view_is_the_same_after_a_call() -> None:
    union = View(new_id(), "d", "v", (Named(new_id(), "a"),), 5, "", Tombstone(6, 7))
    query = View(new_id(), "d", "v", (), 5, None, None, replace(view_query("select 1", "from x", a="b"), version=3))
    for view in (union, query):
        assert from_message_view(to_message_view(view)) == view


def test_columns_that_cannot_be_read_are_refused() -> None:
    message = to_message_query(view_query("select 1"))
    assert message is not None
    message.schema_json = '{"fields": 7}'
    with pytest.raises(InvalidInput, match="columns of the view"):
        from_message_query(pb.CreateViewRequest(query=message))
