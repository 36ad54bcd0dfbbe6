"""Engines that read Iceberg tables, each as a function from the location of metadata to an Arrow table."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

Read = Callable[[str], pa.Table]


@cache
def duckdb_connection() -> Any:
    """DuckDB with the extensions that are installed as packages; nothing is downloaded."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "httpfs", "iceberg"):  # in this order: the last needs the first
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        (file,) = Path(spec.origin).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def duckdb(location: str) -> pa.Table:
    found = duckdb_connection().execute(f"SELECT * FROM iceberg_scan('{location}')").arrow()
    return found if isinstance(found, pa.Table) else found.read_all()


def pyiceberg(location: str) -> pa.Table:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(location).scan().to_arrow()


def polars(location: str) -> pa.Table:
    import polars as pl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a planner which is not installed would be quicker
        return pl.scan_iceberg(location).collect().to_arrow()


def polars_native(location: str) -> pa.Table:
    import polars as pl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.scan_iceberg(location, reader_override="native").collect().to_arrow()


def datafusion(location: str) -> pa.Table:
    from datafusion import SessionContext
    from pyiceberg_core.datafusion import IcebergDataFusionTable

    context = SessionContext()
    table = IcebergDataFusionTable(identifier=["database", "t"], metadata_location=location, file_io_properties={})
    context.register_table("t", table)
    return context.sql("SELECT * FROM t").to_arrow_table()


ENGINES: dict[str, Read] = {
    "duckdb": duckdb,
    "pyiceberg": pyiceberg,
    "polars": polars,
    "polars native": polars_native,
    "datafusion (pyiceberg-core)": datafusion,
}


def read_alone(engine: str, root: Path, folders: list[str]) -> list[pa.Table]:
    """What an engine of `own_process` reads from tables in folders below `root`."""
    target = root / f"read-{engine.split()[0]}"
    target.mkdir()
    command = [sys.executable, "-m", "tests.interop.own_process", engine, str(target), *folders]
    project = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": project}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [pa.ipc.open_file(f"{target}/{place}.arrow").read_all() for place in range(len(folders))]


def rows(table: pa.Table, schema: pa.Schema) -> list[dict[str, Any]]:
    """Rows in one form and order, whatever an engine's types for text, zones, units and UUIDs are."""
    columns = [_column(table.column(field.name), field.type) for field in schema]
    return sorted(pa.table(columns, schema=schema).to_pylist(), key=repr)


def _column(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.Array:
    plain = column.combine_chunks()
    if isinstance(plain.type, pa.BaseExtensionType):
        plain = plain.storage
    storage = wanted.storage_type if isinstance(wanted, pa.BaseExtensionType) else wanted
    if storage == pa.binary(16) and pa.types.is_string(plain.type):
        plain = pa.array([None if text is None else UUID(text).bytes for text in plain.to_pylist()], storage)
    plain = plain.cast(storage)
    return pa.ExtensionArray.from_storage(wanted, plain) if isinstance(wanted, pa.BaseExtensionType) else plain
