"""The protobuf messages of manifests (proto/moulin/format), loaded when the first of them is used.

Opening a lake whose manifests are all in storage needs none of them.
"""

# Decisions: docs/decisions/0208

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import DecodeError as DecodeError

    from moulin._proto.moulin.format.v1.manifest_pb2 import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Called for the first name alone: from then on this module has all of them."""
    messages = importlib.import_module("moulin._proto.moulin.format.v1.manifest_pb2")
    own = globals()
    own.update({key: value for key, value in vars(messages).items() if not key.startswith("_")})
    own["DecodeError"] = importlib.import_module("google.protobuf.message").DecodeError
    try:
        return own[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
