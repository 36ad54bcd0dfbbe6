"""Moulin: a lakehouse engine. Rows are stored in sorted Parquet files, and a commit is one SQL transaction.

import moulin

lake = moulin.connect("./lake")

Folders are layers, and imports point down only: `cli` > `meta`, `pipeline`, `iceberg`, `duck` > `ingest` > `network` >
`mirror` > `lake` > `table` > `catalog` > `formats`, `storage` > `model` > `config`, `sized_cache` > `deprecation`,
`errors`. Each folder's `__init__.py` describes its content and names the file to read first. ARCHITECTURE.md has the
picture; `make check` enforces the order. Read first: `lake.py`, then `table/table.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from moulin import errors
from moulin.release import VERSION

if TYPE_CHECKING:
    from uuid import UUID

    from moulin.lake import Lake
    from moulin.model.entities import BasePath, Branch, CommitInfo, Database, TableEntry, View
    from moulin.model.rows.nano_datetime import NanoDatetime
    from moulin.settings import Settings
    from moulin.table.adopt.adopt import Adoption
    from moulin.table.branch_diff import BranchDiff
    from moulin.table.compact.compaction import Compaction
    from moulin.table.compact.move import Move
    from moulin.table.edit.merge_builder import MergeBuilder
    from moulin.table.erase.erasure import Erasure
    from moulin.table.index.index import IndexInfo
    from moulin.table.ports import Backfilled, Duck, Export, Exporter, Spark
    from moulin.table.publishing import Publication
    from moulin.table.read.blob import Blob
    from moulin.table.read.dataset import TableDataset
    from moulin.table.read.feed import Feed
    from moulin.table.read.scan import Scan, ScanPlan
    from moulin.table.snapshot import Snapshot
    from moulin.table.stats import TableStats
    from moulin.table.table import Table
    from moulin.table.transaction import Transaction
    from moulin.table.trial import Trial
    from moulin.table.write.writes import Outcome

__version__ = VERSION
__all__ = [
    "Adoption",
    "Backfilled",
    "BasePath",
    "Blob",
    "Branch",
    "BranchDiff",
    "CommitInfo",
    "Compaction",
    "Database",
    "Erasure",
    "Export",
    "Feed",
    "IndexInfo",
    "Lake",
    "MergeBuilder",
    "Move",
    "NanoDatetime",
    "Outcome",
    "Publication",
    "Scan",
    "ScanPlan",
    "Settings",
    "Snapshot",
    "Table",
    "TableDataset",
    "TableEntry",
    "TableStats",
    "Transaction",
    "Trial",
    "View",
    "connect",
    "errors",
]

_HOMES = {
    "Adoption": "moulin.table.adopt.adopt",
    "Backfilled": "moulin.table.ports",
    "BasePath": "moulin.model.entities",
    "Blob": "moulin.table.read.blob",
    "Branch": "moulin.model.entities",
    "BranchDiff": "moulin.table.branch_diff",
    "CommitInfo": "moulin.model.entities",
    "Compaction": "moulin.table.compact.compaction",
    "Database": "moulin.model.entities",
    "Erasure": "moulin.table.erase.erasure",
    "Export": "moulin.table.ports",
    "Feed": "moulin.table.read.feed",
    "IndexInfo": "moulin.table.index.index",
    "Lake": "moulin.lake",
    "MergeBuilder": "moulin.table.edit.merge_builder",
    "Move": "moulin.table.compact.move",
    "NanoDatetime": "moulin.model.rows.nano_datetime",
    "Outcome": "moulin.table.write.writes",
    "Publication": "moulin.table.publishing",
    "Scan": "moulin.table.read.scan",
    "ScanPlan": "moulin.table.read.scan",
    "Settings": "moulin.settings",
    "Snapshot": "moulin.table.snapshot",
    "Table": "moulin.table.table",
    "TableDataset": "moulin.table.read.dataset",
    "TableEntry": "moulin.model.entities",
    "TableStats": "moulin.table.stats",
    "Transaction": "moulin.table.transaction",
    "Trial": "moulin.table.trial",
    "View": "moulin.model.entities",
}


def connect(
    uri: str | Path,
    *,
    storage: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    base_options: Mapping[str, Mapping[str, str]] | None = None,
    spark: Any = None,
    read_only: bool = False,
    token: str | None = None,
    certificate: str | Path | None = None,
    **settings: Unpack[Settings],
) -> Lake:
    """Open a lake. A folder that does not exist is created.

    `uri` is a folder, with the catalog and the files in it, or a postgresql:// address with `storage`, the folder or
    object store for the files. `storage_options` configure that store, such as region and endpoint. `base_options` has
    those of base paths, by name; the default is MOULIN_BASE_OPTIONS, a JSON object of the same form.

    A grpc://host:9560 address (grpcs:// with TLS) opens a lake behind `moulin serve`, which knows the storage.
    `token` is an access token of the server (default: MOULIN_TOKEN). `certificate` is a PEM file of authorities.

    With `read_only`, `uri` is the storage of a lake, a folder or an object store such as s3://bucket/prefix. The
    catalog is not needed: the lake is read from its manifests, `refresh()` moves to the newest version, and nothing is
    written.

    To open a branch, append its name to the address: "./lake@exp", "postgresql://host/db@exp", "grpc://host:9560@exp",
    "s3://bucket/prefix@exp". "./lake@exp/", with a slash, is always a folder.

    `spark` is a Spark session, or the address of a master, to use instead of a local Spark. `settings` are those of
    `moulin.config.Config`.

    >>> lake = moulin.connect("./new-lake")
    >>> lake.create_database("shop").name
    'shop'
    >>> lake.close()
    """
    from moulin.lake import Lake
    from moulin.storage.address import split_branch

    def make_spark(lake: Lake) -> Spark:
        made: Spark = _load("moulin.pipeline.spark", "Spark", "spark").LakeSpark(lake, spark)
        return made

    text, branch = split_branch(str(uri), storage_options)
    if branch is not None:
        whole = connect(
            text,
            storage=storage,
            storage_options=storage_options,
            spark=spark,
            read_only=read_only,
            token=token,
            certificate=certificate,
            **settings,
        )
        return whole.branch_alone(branch)
    if text.startswith(("grpc://", "grpcs://")) and not read_only:
        opened: Lake = _load("moulin.meta.client.client", "A lake behind a server", "serve").open_lake(
            text,
            storage=storage,
            storage_options=storage_options,
            base_options=base_options,
            token=token,
            certificate=certificate,
            settings=dict(settings),
            make_spark=make_spark,
            make_exporter=_make_exporter,
            make_duck=_make_duck,
        )
        return opened
    if token is not None or certificate is not None:
        raise errors.InvalidInput("token= and certificate= can only be used with grpc:// or grpcs:// addresses.")
    if read_only:
        if storage is not None:
            raise errors.InvalidInput("Open a read-only lake by the address of its storage, without storage=.")
        return Lake.open_replica(
            text,
            storage_options=storage_options,
            base_options=base_options,
            settings=dict(settings),
            make_spark=make_spark,
            make_exporter=_make_exporter,
            make_duck=_make_duck,
        )
    return Lake.open(
        text,
        storage=storage,
        storage_options=storage_options,
        base_options=base_options,
        settings=dict(settings),
        make_spark=make_spark,
        make_exporter=_make_exporter,
        make_duck=_make_duck,
    )


def _load(module: str, what: str, extra: str) -> Any:
    """Import a module that needs packages of an extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("moulin"):
            raise
        raise errors.missing_extra(what, extra) from None


def _make_exporter(lake: Lake) -> Exporter:
    def export(table_id: UUID, directory: str, *, version: int | None, copy: bool) -> Export:
        module = importlib.import_module("moulin.iceberg.projection.export")
        made: Export = module.export(lake.context, table_id, directory, version=version, copy=copy)
        return made

    return export


def _make_duck(lake: Lake) -> Duck:
    made: Duck = _load("moulin.duck.connection", "lake.duckdb()", "duckdb").LakeDuck(lake)
    return made


def __getattr__(name: str) -> Any:
    """Load classes on first use, so that `import moulin` is fast."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'moulin' has no attribute {name!r}")
