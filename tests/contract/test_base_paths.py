"""Base paths in the catalog: registered, listed, refused while in use, and known to recovery and replicas."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.replica import ReplicaCatalog
from moulin.config import Config
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound
from moulin.formats import manifest as codec
from moulin.model.entities import BasePath, TableState
from moulin.model.facts import AdoptedFile, SegmentFacts
from moulin.model.operations import Append, Delete, Expected
from moulin.storage import paths
from tests.contract.conftest import Backend, memory_store
from tests.contract.samples import commit, live, make_table, segment

ARCHIVE = "s3://archive/old lake"


def adopted(catalog: Catalog, table: TableState, base: BasePath, name: str = "a=1/f.parquet") -> SegmentFacts:
    facts = segment(catalog, table.id)
    file = AdoptedFile(table.id, (0, 1, 0), ((2, b"x"),), 5, "tag", (3,), True)
    return replace(facts, path=paths.base_path(base.id, name), adopted=file, level=0, inline=None)


def test_base_paths_are_listed_by_name(catalog: Catalog) -> None:
    assert catalog.bases() == []
    made = catalog.add_base("b", ARCHIVE)
    assert (made.name, made.uri) == ("b", ARCHIVE)
    other = catalog.add_base("a", "gs://bucket")
    assert catalog.bases() == [other, made]
    assert catalog.drop_base("b") == made
    assert catalog.bases() == [other]


def test_what_cannot_be_a_base_path_is_refused(catalog: Catalog) -> None:
    catalog.add_base("archive", ARCHIVE)
    for name, uri in (
        ("", "s3://b"),
        ("a b", "s3://b"),
        ("x", "ftp://b/c"),
        ("x", "s3://b/../c"),
        ("x", "s3://b/c/"),
        ("x", "s3://user:secret@b/c"),
        ("x", "s3://b/c?key=secret"),
        ("x", "b/c"),
    ):
        with pytest.raises(InvalidInput) as refused:
            catalog.add_base(name, uri)
        assert "secret" not in str(refused.value)
    with pytest.raises(AlreadyExists, match="'archive' already exists"):
        catalog.add_base("archive", "s3://b")
    with pytest.raises(AlreadyExists, match="lies in the base path 'archive'"):
        catalog.add_base("inner", f"{ARCHIVE}/inner")
    with pytest.raises(NotFound, match="'nobody' does not exist"):
        catalog.drop_base("nobody")
    assert [base.name for base in catalog.bases()] == ["archive"]


def test_a_file_below_a_base_path_is_a_segment_and_is_one_once(catalog: Catalog) -> None:
    table, other = make_table(catalog), make_table(catalog, "other")
    base = catalog.add_base("archive", ARCHIVE)
    facts = adopted(catalog, table, base)
    commit(catalog, table.id, Append(added=(facts,)))
    (found,) = catalog.segments(table.id, catalog.version(), with_columns=False)
    assert found.facts.adopted == facts.adopted
    assert catalog.known_paths(table.id, [facts.path, f"{facts.path}2"]) == [facts.path]
    assert catalog.known_paths(other.id, [facts.path]) == []
    with pytest.raises(AlreadyExists, match="is a file of d.t already"):
        commit(catalog, table.id, Append(added=(adopted(catalog, table, base),)))
    commit(catalog, other.id, Append(added=(adopted(catalog, other, base),)))  # another table may have it
    with pytest.raises(FailedPrecondition, match=r"is in use by table d\.(t|other)"):
        catalog.drop_base("archive")
    commit(catalog, table.id, Delete(removed=(Expected(facts.number, 0),)))
    with pytest.raises(AlreadyExists, match="already, or was"):
        commit(catalog, table.id, Append(added=(adopted(catalog, table, base),)))


def test_paths_of_adopted_files_are_checked(catalog: Catalog) -> None:
    table = make_table(catalog)
    base = catalog.add_base("archive", ARCHIVE)
    good = adopted(catalog, table, base)
    strange = UUID(int=7)
    moved = f"bases/{base.id}/moulin/{strange}/{paths.segment_path(table.id, good.number, '0' * 8)}"
    assert good.adopted is not None
    for wrong in (
        replace(good, path="bases/x/f.parquet"),
        replace(good, path=f"bases/{base.id}/../f.parquet"),
        replace(good, path=f"bases/{base.id}//f.parquet"),
        replace(good, path=moved),
        replace(good, path=moved, adopted=None),
        replace(good, path=paths.segment_path(table.id, good.number, "0" * 8)),
        replace(good, adopted=replace(good.adopted, owner=strange)),
        replace(good, adopted=replace(good.adopted, field_ids=(1, 1))),
        replace(good, adopted=replace(good.adopted, field_ids=(-1,))),
        replace(good, level=1),
        replace(good, adopted=None),
    ):
        with pytest.raises(InvalidInput):
            commit(catalog, table.id, Append(added=(wrong,)))
    with pytest.raises(NotFound, match="Base path .* does not exist"):
        commit(catalog, table.id, Append(added=(replace(good, path=paths.base_path(strange, "f.parquet")),)))
    assert live(catalog, table.id) == {}


def test_manifests_bring_base_paths_and_adopted_segments_back(backend: Backend) -> None:
    store = memory_store()
    catalog = backend.open(backend.new_uri(), store)
    table = make_table(catalog)
    base = catalog.add_base("archive", ARCHIVE)
    catalog.add_base("gone", "gs://gone")
    replica = ReplicaCatalog.from_manifests(store, Config())
    facts = adopted(catalog, table, base)
    commit(catalog, table.id, Append(added=(facts,)))
    catalog.clone_table(table.id, "d", "clone")
    catalog.drop_base("gone")
    catalog.close()
    replica.refresh()
    uri = backend.new_uri()
    recover(store, uri, Config())
    fresh, recovered = ReplicaCatalog.from_manifests(store, Config()), backend.open(uri, store)
    for other in (replica, fresh, recovered):
        assert other.bases() == [base]
        for name in ("t", "clone"):
            (found,) = other.segments(other.table("d", name).id, other.version())
            assert (found.facts.adopted, found.facts.path) == (facts.adopted, facts.path)
            assert other.known_paths(other.table("d", name).id, [facts.path, "x"]) == [facts.path]
    replica.close()
    fresh.close()


def test_a_manifest_with_a_base_path_is_stamped(catalog: Catalog, backend: Backend) -> None:
    table = make_table(catalog)
    base = catalog.add_base("archive", ARCHIVE)
    before = catalog.version()
    commit(catalog, table.id, Append(added=(adopted(catalog, table, base),)))
    names = [paths.lake_manifest(before, "delta"), paths.table_manifest(table.id, catalog.version(), "delta")]
    for name in names:
        manifest = codec.decode(catalog.store.get(name), name).manifest
        assert manifest.reader_features & manifest.writer_features & codec.FEATURE_BASE_PATHS
