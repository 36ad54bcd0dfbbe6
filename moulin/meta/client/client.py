"""The client side of the meta service: a lake behind a server, and all services with the project's errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin._proto.moulin.lake.v1.catalog_pb2_grpc import CatalogServiceStub
from moulin.config import Config, load_config
from moulin.errors import InvalidInput
from moulin.lake import Lake
from moulin.meta.client.catalog import ClientCatalog
from moulin.meta.client.connection import Connection
from moulin.meta.client.streams import MetaRegistry
from moulin.storage.bases import BasesStore, Options
from moulin.storage.cache import open_cached
from moulin.table.ports import Duck, Exporter, Spark

SCHEMES: Final = ("grpc://", "grpcs://")
_LOCAL: Final = {"log_folder", "cache_folder", "cache_bytes"}  # settings that are about this machine


def open_lake(
    uri: str,
    *,
    storage: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    base_options: Options | None = None,
    token: str | None = None,
    certificate: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    make_spark: Callable[[Lake], Spark] | None = None,
    make_exporter: Callable[[Lake], Exporter] | None = None,
    make_duck: Callable[[Lake], Duck] | None = None,
) -> Lake:
    """The lake that a server serves. Rows are read and written in its storage directly, from here.

    The storage's address comes from the server; `storage` is its address as seen from this machine, if that is another
    one. Settings are the server's where neither the environment nor `settings` say otherwise.
    """
    connection = Connection(uri, token=token, certificate=certificate)
    try:
        told = connection.call(connection.stub(CatalogServiceStub).GetLake, pb.GetLakeRequest(), again=True)
        connection.tag(told.settings.get("cluster_id") or told.id)
        config = load_config(defaults=_defaults(told.settings), **settings or {})
        options = {**told.storage_options, **(storage_options or {})}
        own = open_cached(storage or told.storage_uri, options or None, config)
        catalog = ClientCatalog(connection, UUID(told.id), config, may_write=told.role != "read")
        store = BasesStore(own, config, base_options).follow(catalog.bases)
        return Lake(catalog, store, uri, make_spark, make_exporter, make_duck)
    except BaseException:
        connection.close()
        raise


def stream_registry(lake: Lake) -> MetaRegistry:
    """What a collector asks of the server that a lake is behind."""
    catalog = lake.catalog
    if not isinstance(catalog, ClientCatalog):
        raise InvalidInput("The lake is not behind a server: use its catalog.")
    return MetaRegistry(catalog.connection, catalog)


def _defaults(told: Mapping[str, str]) -> dict[str, str]:
    """The server's settings that hold here, too; one that this version does not know is the server's own business."""
    known = {field.name for field in dataclasses.fields(Config)} - _LOCAL
    return {name: value for name, value in told.items() if name in known}
