"""Opening a lake: catalog and storage must belong together, and neither may be newer than this version knows."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moulin.catalog.catalog import Catalog
from moulin.config import Config
from moulin.errors import Corrupt, FailedPrecondition, InvalidInput, MoulinError, NotFound, Unavailable, Unsupported
from moulin.storage import paths
from moulin.storage.store import open_store
from tests.contract.conftest import Backend, memory_store
from tests.contract.samples import make_table


def test_a_new_lake_leaves_its_marker(backend: Backend) -> None:
    store = memory_store()
    catalog = backend.open(backend.new_uri(), store)
    assert json.loads(store.get(paths.marker())) == {"format": 1, "uuid": str(catalog.uuid)}
    assert catalog.version() == 0


def test_opening_again_finds_everything(backend: Backend) -> None:
    """GEN-16"""
    uri, store = backend.new_uri(), memory_store()
    first = backend.open(uri, store)
    state = make_table(first)
    first.close()
    again = backend.open(uri, store)
    assert (again.uuid, again.table("d", "t")) == (first.uuid, state)


def test_many_open_a_new_lake_at_once(backend: Backend) -> None:
    uri, store = backend.new_uri(), memory_store()
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: backend.open(uri, store), range(4)))
    assert len({catalog.uuid for catalog in opened}) == 1
    opened[0].create_database("d")
    assert [d.name for d in opened[3].databases()] == ["d"]


def test_a_catalog_and_a_storage_of_different_lakes_are_refused(backend: Backend) -> None:
    one, two = memory_store(), memory_store()
    uri = backend.new_uri()
    backend.open(uri, one)
    backend.open(backend.new_uri(), two)
    with pytest.raises(FailedPrecondition, match="different lakes"):
        backend.open(uri, two)
    with pytest.raises(FailedPrecondition, match="contains no lake"):
        backend.open(uri, memory_store())


def test_a_lost_catalog_is_not_replaced_by_an_empty_one(backend: Backend) -> None:
    store = memory_store()
    backend.open(backend.new_uri(), store)
    with pytest.raises(FailedPrecondition, match="moulin recover"):
        backend.open(backend.new_uri(), store)


def test_a_marker_lost_in_a_crash_is_written_again(backend: Backend) -> None:
    uri, store = backend.new_uri(), memory_store()
    first = backend.open(uri, store)
    store.delete([paths.marker()])
    assert backend.open(uri, store).uuid == first.uuid
    assert store.exists(paths.marker())


@pytest.mark.parametrize("marker", [b"", b"{", b"[]", b"{}", b'{"format": 1}', b'{"format": 1, "uuid": "x"}', b"\xff"])
def test_a_damaged_marker_is_corrupt(backend: Backend, marker: bytes) -> None:
    store = memory_store()
    store.put(paths.marker(), marker)
    with pytest.raises(Corrupt, match=r"moulin\.json"):
        backend.open(backend.new_uri(), store)


def test_a_lake_of_a_newer_version_is_refused(backend: Backend) -> None:
    store = memory_store()
    lake = {"format": 2, "uuid": "01890a5d-ac96-774b-bcce-b302099a8057"}
    store.put(paths.marker(), json.dumps(lake).encode())
    with pytest.raises(Unsupported, match="upgrade moulin"):
        backend.open(backend.new_uri(), store)


@pytest.mark.parametrize("uri", ["mysql://host/db", "nonsense", "sqlite+foo://x"])
def test_malformed_addresses_are_refused(uri: str) -> None:
    with pytest.raises(InvalidInput):
        Catalog.open(uri, memory_store(), Config())


def test_a_database_that_does_not_answer_keeps_its_secret() -> None:
    with pytest.raises(Unavailable) as error:
        Catalog.open("postgresql://user:hunter2@127.0.0.1:1/db", memory_store(), Config(lock_seconds=1))
    assert "hunter2" not in str(error.value)


def test_a_file_that_is_not_a_catalog_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").write_bytes(b"not a database, but long enough to be looked at " * 100)
    with pytest.raises(Corrupt, match="moulin recover"):
        Catalog.open(f"sqlite:///{tmp_path}/catalog.sqlite", open_store(tmp_path), Config())


def test_a_catalog_file_that_vanished_is_not_made_again(tmp_path: Path) -> None:
    uri, store = f"sqlite:///{tmp_path}/catalog.sqlite", open_store(tmp_path)
    catalog = Catalog.open(uri, store, Config())
    catalog.create_database("d")
    for file in tmp_path.glob("catalog.sqlite*"):
        file.unlink()
    with pytest.raises(FailedPrecondition, match="moulin recover"):
        Catalog.open(uri, store, Config())
    with pytest.raises(MoulinError, match="replaced"):
        catalog.create_database("e")
    catalog.close()


def test_a_catalog_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises((FailedPrecondition, NotFound)):
        Catalog.open(f"sqlite:///{tmp_path}/nowhere/catalog.sqlite", memory_store(), Config())
