"""Ids in messages. An id is a UUID in canonical form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from moulin.errors import InvalidInput

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def from_message_id(text: str, what: str) -> UUID:
    """The id in a request; InvalidInput names the field that lacks one or holds something else."""
    if not text:
        raise InvalidInput(f"{what} is required.")
    if not _UUID.fullmatch(text):
        raise InvalidInput(f"{what} {text[:60]!r} is not a UUID.")
    return UUID(text)


def from_message_ids(texts: Sequence[str], what: str) -> list[UUID]:
    return [from_message_id(text, what) for text in texts]
