"""What a server has besides its own: the Iceberg REST catalog under /iceberg, the console under / and /api/v1."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any
from uuid import UUID

from moulin.lake import Lake


def mount(app: Any) -> None:
    """Put both on the app of a server. REQUIRES: the packages of the extra `serve`."""
    import_module("moulin.iceberg.rest.app").mount(app)
    import_module("moulin.console.app").mount(app, _readers)


def _readers(lake: Lake, table_id: UUID) -> Iterable[Any]:
    from moulin.iceberg.projection.readers import readers_of

    return readers_of(lake.context, table_id)[2]
