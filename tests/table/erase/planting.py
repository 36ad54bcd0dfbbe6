"""A value planted wherever a lake keeps values, and a search for it in every byte of a lake."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq

from moulin.lake import Lake
from moulin.storage.store import Store

SECRET = "zanzibar-7741-quokka"
NUMBER = 7_741_000_123_456_789
ORDERS = [("id", "long", False), ("email", "string"), ("user", "long"), ("day", "int", False), ("note", "string")]
ROW = {"email": SECRET, "user": NUMBER, "day": 7, "note": f"note of {SECRET}"}
WHERE = f"user = {NUMBER} or email = '{SECRET}'"


def order(number: int, **values: Any) -> dict[str, Any]:
    row = {"id": number, "email": f"u{number}@x", "user": number, "day": number % 5, "note": None}
    return {**row, **values}


def secret(number: int, **values: Any) -> dict[str, Any]:
    return {"id": number, **ROW, **values}


def holding(store: Store) -> list[str]:
    """The objects of a store in which the value is, as bytes, or as a value of a Parquet or Avro file."""
    return sorted(info.path for info in store.list() if _holds(info.path, store.get(info.path)))


def _holds(path: str, data: bytes) -> bool:
    if in_bytes(data):
        return True
    if path.endswith(".parquet"):
        import io

        file = pq.ParquetFile(io.BytesIO(data))
        return in_bytes(repr(file.read().to_pylist()).encode()) or in_bytes(repr(file.metadata.to_dict()).encode())
    if path.endswith(".avro"):
        import io

        return in_bytes(repr(list(fastavro.reader(io.BytesIO(data)))).encode())
    return False


def in_bytes(data: bytes) -> bool:
    little, big = NUMBER.to_bytes(8, "little"), (NUMBER ^ (1 << 63)).to_bytes(8, "big")
    forms = (SECRET.encode(), str(NUMBER).encode(), little, NUMBER.to_bytes(8, "big"), big, SECRET[:8].encode())
    return any(re.search(re.escape(form), data) for form in forms)


def catalog_files(folder: Path) -> list[str]:
    """Files of the catalog in a folder that hold the value."""
    found = [path for path in folder.iterdir() if path.name.startswith("catalog.sqlite")]
    return [path.name for path in found if in_bytes(path.read_bytes())]


def rows_of(table: Any, version: int | None = None) -> dict[int, dict[str, Any]]:
    rows = table.scan(version=version).to_pylist()
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def history(lake: Lake, names: list[str]) -> dict[tuple[str, int], dict[int, dict[str, Any]]]:
    """The rows of every kept version of tables."""
    found = {}
    for name in names:
        table = lake.table(name)
        for version in {info.version for info in table.history()}:
            found[name, version] = rows_of(table, version)
    return found


def without_secret(history: dict[Any, dict[int, dict[str, Any]]]) -> dict[Any, dict[int, dict[str, Any]]]:
    """The model: the same versions without the rows that match."""

    def matches(row: dict[str, Any]) -> bool:
        return row.get("email") == SECRET or row.get("user") == NUMBER

    return {at: {key: row for key, row in rows.items() if not matches(row)} for at, rows in history.items()}
