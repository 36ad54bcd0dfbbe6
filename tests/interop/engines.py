"""Engines that read Iceberg tables, each as a function from the location of metadata to an Arrow table."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
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


def duckdb_filtered(location: str) -> pa.Table:
    """All rows of a table whose `id` is at least 0, by that condition."""
    query = f"SELECT * FROM iceberg_scan('{location}') WHERE id >= 0"
    found = duckdb_connection().execute(query).arrow()
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


Question = tuple[str, str]
"""An engine, and the metadata or the folder that it reads."""


def answers(root: Path, questions: list[Question]) -> list[pa.Table | str]:
    """What engines read in processes of their own, which they may end: rows, or how they failed."""
    target = Path(tempfile.mkdtemp(prefix="answers-", dir=root))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "tests.interop.own_process", str(target)]
    found: list[pa.Table | str] = []
    while len(found) < len(questions):
        asked = json.dumps([len(found), questions])
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, input=asked, text=True, timeout=600, check=False
        )
        found += _found(target, len(found), len(questions))
        if len(found) < len(questions):  # the engine that was asked last took its process along
            assert done.returncode, done.stderr[-2000:]
            found.append(f"ended with {done.returncode}: {done.stderr[-2000:]}")
    return found


def _found(target: Path, first: int, end: int) -> Iterator[pa.Table | str]:
    for place in range(first, end):
        rows, failed = target / f"{place}.arrow", target / f"{place}.failed"
        if rows.exists():
            yield pa.ipc.open_file(str(rows)).read_all()
        elif failed.exists():
            yield failed.read_text()
        else:
            return


def read_alone(engine: str, root: Path, folders: list[str]) -> list[pa.Table]:
    """What an engine of `own_process` reads from tables in folders below `root`."""
    found = answers(root, [(engine, folder) for folder in folders])
    failed = [one for one in found if isinstance(one, str)]
    assert not failed, failed
    return found


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
