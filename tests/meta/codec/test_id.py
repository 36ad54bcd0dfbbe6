"""Ids in messages."""

from __future__ import annotations

import pytest

from moulin.errors import InvalidInput
from moulin.meta.codec.id import from_message_id


def test_ids_have_one_form() -> None:
    text = "019ae8e5-f2aa-79c2-8000-0123456789ab"
    assert str(from_message_id(text.upper(), "id")) == text
    for bad in ("", text[:-1], f"{{{text}}}", f"urn:uuid:{text}", text.replace("-", ""), text + "\n"):
        with pytest.raises(InvalidInput):
            from_message_id(bad, "id")
