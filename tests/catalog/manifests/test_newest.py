"""A catalog that went back in time is refused, and no error follows a commit that happened but an unknown outcome."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.sql import schema as s
from moulin.config import Config
from moulin.errors import Corrupt, Fenced, MoulinError, PermissionDenied, Unavailable
from moulin.model.operations import Append, SetProperties
from moulin.storage import paths
from moulin.storage.store import open_store
from tests.contract.samples import commit, make_table, segment

FILES = ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm")


class Home:
    """A lake in a folder, opened as often as a test likes, and copies of its catalog."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lake"
        self.store = open_store(self.folder)
        self.uri = f"sqlite:///{self.folder}/catalog.sqlite"
        self.opened: list[Catalog] = []

    def open(self) -> Catalog:
        self.opened.append(Catalog.open(self.uri, self.store, Config()))
        return self.opened[-1]

    def stop(self) -> None:
        while self.opened:
            self.opened.pop().close()

    def keep(self, name: str) -> Path:
        """A copy of the catalog as it is now, made the way SQLite wants it."""
        copy = self.folder.parent / name
        with sqlite3.connect(self.folder / "catalog.sqlite") as source, sqlite3.connect(copy) as target:
            source.backup(target)
        source.close()
        target.close()
        return copy

    def lose(self) -> None:
        for name in FILES:
            (self.folder / name).unlink(missing_ok=True)

    def put_back(self, copy: Path) -> None:
        self.lose()
        shutil.copy(copy, self.folder / "catalog.sqlite")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    yield home
    home.stop()


@pytest.mark.parametrize("change", ["rows of a table", "names"])
def test_an_older_copy_of_the_catalog_is_refused_and_recovery_brings_all_back(home: Home, change: str) -> None:
    catalog = home.open()
    state = make_table(catalog)
    version = catalog.version()
    older = home.keep("older.sqlite")
    for n in range(3):
        if change == "names":
            catalog.create_database(f"new{n}")
        else:
            commit(catalog, state.id, Append(added=(segment(catalog, state.id),)))
    newest, history = catalog.version(), catalog.history(state.id)
    home.stop()
    home.put_back(older)
    before = {info.path for info in home.store.list()}
    with pytest.raises(Corrupt, match=rf"at version {version}, .* holds version {newest}.*moulin recover"):
        home.open()
    assert {info.path for info in home.store.list()} - before <= {*FILES}, "nothing was published"
    home.lose()
    assert recover(home.store, home.uri, Config()).version == newest
    assert home.open().history(state.id) == history


def test_a_catalog_that_lost_its_write_ahead_log_is_refused(home: Home) -> None:
    catalog = home.open()
    state = make_table(catalog)
    with catalog.pool.unordered() as connection:
        connection.execute(sa.text("SELECT 1"))
    home.stop()  # the log is folded into the file
    catalog = home.open()
    commit(catalog, state.id, SetProperties({"a": "b"}))
    kept = (home.folder / "catalog.sqlite").read_bytes()
    home.stop()
    home.lose()
    (home.folder / "catalog.sqlite").write_bytes(kept)
    with pytest.raises(Corrupt, match="went back in time"):
        home.open()


@pytest.mark.postgres
def test_a_restored_dump_is_refused(tmp_path: Path, postgres_url: str) -> None:
    store = open_store(tmp_path / "lake")
    catalog = Catalog.open(postgres_url, store, Config())
    state = make_table(catalog)
    commit(catalog, state.id, SetProperties({"a": "b"}))
    with catalog.pool.unordered() as connection:  # all that a dump from before the last commit would lack
        last = s.table_commits.c.version == state.version + 1
        connection.execute(s.table_commits.delete().where(last))
        connection.execute(s.versions.delete().where(s.versions.c.version == state.version + 1))
        connection.execute(s.tables.update().values(head_version=state.version))
        connection.execute(s.counter.update().values(version=state.version))
    with pytest.raises(Fenced, match="went back from version 3 to 2"):
        commit(catalog, state.id, SetProperties({"c": "d"}))
    assert catalog.version() == state.version
    catalog.close()
    with pytest.raises(Corrupt, match="went back in time"):
        Catalog.open(postgres_url, store, Config())


def test_a_process_that_has_the_catalog_open_does_not_commit_to_an_older_copy(home: Home) -> None:
    """The file is the same, its bytes are older: as if a backup were copied over it."""
    catalog = home.open()
    state = make_table(catalog)
    older = home.keep("older.sqlite")
    commit(catalog, state.id, SetProperties({"a": "b"}))
    with sqlite3.connect(older) as source, sqlite3.connect(home.folder / "catalog.sqlite") as target:
        source.backup(target)
    source.close()
    target.close()
    with pytest.raises(Fenced, match="went back"):
        commit(catalog, state.id, SetProperties({"c": "d"}))
    assert catalog.version() == state.version


def test_a_version_that_another_catalog_published_makes_the_outcome_unknown_once(home: Home) -> None:
    """Nobody can tell before the commit. After it every process is refused before it commits."""
    catalog, other = home.open(), home.open()
    state = make_table(catalog)
    foreign = paths.table_manifest(state.id, state.version + 1, "delta")
    home.store.put(foreign, b"of another catalog")
    with pytest.raises(Unavailable, match=f"outcome of the change is unknown.*{foreign}"):
        commit(catalog, state.id, SetProperties({"a": "b"}))
    version = catalog.version()
    for one in (catalog, other):
        with pytest.raises(Fenced, match="another"):
            commit(one, state.id, SetProperties({"c": "d"}))
        with pytest.raises(Fenced, match="another"):
            one.create_database("e")
    assert catalog.version() == version
    assert home.store.get(foreign) == b"of another catalog"
    with pytest.raises(MoulinError, match="another"):
        home.open()


@pytest.mark.parametrize("error", [PermissionDenied("No."), Corrupt("What?"), OSError("disk"), RuntimeError("bug")])
def test_whatever_publication_raises_the_commit_stands_and_says_so(
    home: Home, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    catalog = home.open()
    state = make_table(catalog)

    def refuse(path: str, data: bytes) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(home.store, "put_if_absent", refuse)
        done = commit(catalog, state.id, SetProperties({"a": "b"}))
        catalog.create_database("e")
        assert catalog.published_version() == state.version
    assert catalog.table_by_id(state.id).head_version == done.version
    commit(catalog, state.id, SetProperties({"c": "d"}))
    assert catalog.published_version() == catalog.version() == done.version + 2


def test_full_manifests_that_cannot_be_started_are_not_an_error_of_the_commit(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = home.open()
    state = make_table(catalog)

    def refuse(*_: Any) -> None:
        raise Unavailable("The catalog is busy.")

    monkeypatch.setattr(catalog.publisher, "_write_full_if_due", refuse)
    for n in range(catalog.config.manifest_deltas + 2):
        commit(catalog, state.id, SetProperties({"a": str(n)}))
    assert catalog.version() == state.version + catalog.config.manifest_deltas + 2


def test_a_commit_that_was_not_confirmed_says_that_its_outcome_is_unknown(home: Home) -> None:
    catalog = home.open()
    state = make_table(catalog)

    def break_off(connection: sa.Connection) -> None:
        if "moulin_write" in connection.get_execution_options():
            raise exc.OperationalError("COMMIT", {}, Exception("server closed the connection"))

    sa.event.listen(catalog.pool._engine, "commit", break_off)
    with pytest.raises(Unavailable, match="outcome is unknown"):
        commit(catalog, state.id, SetProperties({"a": "b"}))


def test_opening_while_others_commit_is_not_mistaken_for_an_old_copy(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifests that appear between the look at the catalog and the look at storage belong to it."""
    catalog = home.open()
    state = make_table(catalog)
    list_all, done = home.store.list, []

    def commit_first(prefix: str = "", after: str = "") -> Any:
        if not done:
            done.append(commit(catalog, state.id, SetProperties({"a": "b"})))
        return list_all(prefix, after)

    monkeypatch.setattr(home.store, "list", commit_first)
    assert home.open().version() == done[0].version
