"""Prefixes of Moulin's own request ids. For those of users see `moulin.catalog.commit.requests`."""

# Decisions: docs/decisions/0140

from __future__ import annotations

from typing import Final

CALL: Final = "call-"  # a commit through a server
NURSERY: Final = "nursery:"  # a batch of a nursery
FLUSH: Final = "flush:"  # the buffer of a region
ICEBERG: Final = "iceberg-rest:"  # a commit over REST with an Idempotency-Key
STREAM: Final = "stream:"  # a batch of a structured stream: stream:<query id>:<batch id>
