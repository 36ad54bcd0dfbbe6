"""Lakes that older versions made, unpacked for one test each; see make_lakes.py."""

from __future__ import annotations

import json
import tarfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin import Lake
from tests.compat.make_lakes import HERE, plain
from tests.postgres import restore

KINDS = ("sqlite", "postgres")


@dataclass(frozen=True)
class OldLake:
    """A copy of an old lake that a test may change, and what it must show."""

    uri: str
    storage: str | None
    folder: Path
    expected: dict[str, Any]

    def connect(self, **settings: Any) -> Lake:
        return moulin.connect(self.uri, storage=self.storage, **settings)


def canonical(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Rows in an order of their own, to be compared."""
    return sorted(json.dumps(plain(row), sort_keys=True) for row in rows)


def rows_of(lake: Lake, table: str, version: int | None = None) -> list[str]:
    return canonical(lake.table(table).scan(version=version).to_arrow().to_pylist())


def _cases() -> list[Any]:
    marks = {"sqlite": (), "postgres": (pytest.mark.postgres,)}
    return [
        pytest.param((made.name, kind), id=f"{made.name}-{kind}", marks=marks[kind])
        for made in sorted(HERE.iterdir())
        for kind in KINDS
    ]


@pytest.fixture(params=_cases())
def old_lake(request: pytest.FixtureRequest, tmp_path: Path) -> OldLake:
    """Every old lake there is, on its own catalog."""
    values: tuple[str, str] = request.param
    return _unpack(*values, tmp_path / "lake", lambda: request.getfixturevalue("empty_postgres"))


@pytest.fixture
def empty_postgres(postgres_server: str) -> Iterator[str]:
    """A database without tables."""
    import psycopg

    name = f"old_{uuid.uuid4().hex}"
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name} template template0")  # type: ignore[arg-type]
        yield f"{postgres_server}/{name}"
        connection.execute(f"drop database {name} with (force)")  # type: ignore[arg-type]


def _unpack(version: str, kind: str, folder: Path, database: Callable[[], str]) -> OldLake:
    with tarfile.open(HERE / version / f"{kind}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    expected = json.loads((HERE / version / f"{kind}.json").read_text())
    if kind == "sqlite":
        return OldLake(str(folder), None, folder, expected)
    address = database()
    catalog = folder / "catalog.sql"
    restore(address, catalog.read_text())
    catalog.unlink()
    return OldLake(address, str(folder), folder, expected)
