"""Writers that a table knows: with `verify = new-writers`, data files of all others are read at their commit.

A writer is a token, a client and an engine in the version that they give themselves, writing under one schema and one
partition spec: what another release writes, or the same one for a new column, is read again. It is known once all files
of a commit of its were read and found right. Nothing of it is a proof: what it says later is read after the commit.
"""

# Decisions: docs/decisions/0700

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from fastapi import Request

from moulin.config import Config
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.commit.trust import ALL, MANIFEST, NEW_WRITERS, mode
from moulin.model.entities import TableState
from moulin.model.tags import WRITER_PREFIX

_HEADERS: Final = ("user-agent", "x-client-version")
_SUMMARY: Final = ("engine-name", "engine-version", "iceberg-version")
_MOST: Final = 64
_LONGEST: Final = 200


def client(request: Request) -> str:
    """Whose token a request has, and what its client says it is."""
    user = request.scope.get("user")
    name = "" if user is None else str(user.display_name)
    return " ".join([name, *(request.headers.get(header, "")[:_LONGEST] for header in _HEADERS)])


class Writer:
    """Who made snapshots of a commit to one table. `state` is the table as the commit leaves it."""

    def __init__(self, config: Config, client: str, snapshots: Sequence[Json], state: TableState) -> None:
        said = [str((one.get("summary") or {}).get(key, ""))[:_LONGEST] for one in snapshots for key in _SUMMARY]
        text = repr((client, said, state.schema_id, state.spec_id))
        self.state, self.mode = state, mode(config, state.properties)
        self.key = WRITER_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:24]
        self.shown = " ".join(f"{client} {' '.join(dict.fromkeys(said))}".split())[:_LONGEST]

    @property
    def verify(self) -> str:
        """How much of this writer's files is read."""
        if self.mode != NEW_WRITERS:
            return self.mode
        return MANIFEST if self.key in self.state.properties else ALL

    @property
    def learned(self) -> Mapping[str, str]:
        """The property by which the table knows this writer once its files were right; none where it needs none."""
        known = sum(key.startswith(WRITER_PREFIX) for key in self.state.properties)
        if self.mode != NEW_WRITERS or self.key in self.state.properties or known >= _MOST:
            return {}
        return {self.key: self.shown}
