"""Clones: tables that read the segments of another one at a version. Random histories, against a plain model."""

from __future__ import annotations

import random

import pytest

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.replica import ReplicaCatalog
from moulin.config import Config
from moulin.errors import AlreadyExists, NotFound
from moulin.model.operations import Append, Delete, Expected, Overwrite, Restore
from tests.contract.conftest import Backend, memory_store
from tests.contract.samples import commit, live, make_table, segment, vector
from tests.contract.test_model import STEPS, Model, require_equal


class CloneModel(Model):
    """A clone of a modelled table at one of its versions."""

    def __init__(self, source: Model, name: str, a: int) -> None:
        self.catalog = source.catalog
        at = sorted(source.versions)[a % len(source.versions)]
        self.table = self.catalog.clone_table(source.table.id, "d", name, version=at)
        self.now = source.versions[at]
        self.versions = {self.table.version: self.now}


_STEPS = [*STEPS, "append", "delete", "restore", "clone", "clone"]
Step = tuple[int, str, int, int]


def steps(seed: int, count: int) -> list[Step]:
    chance = random.Random(seed)
    return [
        (chance.randrange(10), chance.choice(_STEPS), chance.randrange(100), chance.randrange(10)) for _ in range(count)
    ]


def play(models: list[Model], plan: list[Step]) -> None:
    for which, step, a, b in plan:
        model = models[which % len(models)]
        if step == "clone":
            models.append(CloneModel(model, f"clone{len(models)}", a))
        else:
            model.commit(step, a, b)


def histories(backend: Backend, seed: int, count: int) -> None:
    """A table, its clones and their clones: every version of each, then from a replica and after a recovery."""
    store, plan = memory_store(), steps(seed, count)
    catalog = backend.open(backend.new_uri(), store)
    models: list[Model] = [Model(catalog, "one")]
    play(models, plan[: seed % count])
    replica = ReplicaCatalog.from_manifests(store, Config())
    play(models, plan[seed % count :])
    for model in models:
        require_equal(catalog, model)
    seen = {(model.table.id, version): None for model in models for version in model.versions}
    states = {key: catalog.segments(*key) for key in seen}
    sequences = {model.table.id: catalog.sequence_versions(model.table.id) for model in models}
    births = {model.table.id: catalog.birth_versions(model.table.id) for model in models}
    catalog.close()
    replica.refresh()
    uri = backend.new_uri()
    recover(store, uri, Config())
    for other in (replica, backend.open(uri, store)):
        for model in models:
            require_equal(other, model)
        assert {key: other.segments(*key) for key in seen} == states
        assert {table_id: other.sequence_versions(table_id) for table_id in sequences} == sequences
        assert {table_id: other.birth_versions(table_id) for table_id in births} == births
    replica.close()


@pytest.mark.sample(6)
@pytest.mark.parametrize("seed", range(4))
def test_clones_and_their_sources_go_their_own_ways(backend: Backend, seed: int) -> None:
    histories(backend, seed, 20)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_long_histories_of_clones(backend: Backend, seed: int) -> None:
    histories(backend, seed, 120)


def test_a_clone_starts_as_its_source_was_and_neither_sees_the_other_change(catalog: Catalog) -> None:
    source = make_table(catalog)
    a, b = segment(catalog, source.id), segment(catalog, source.id)
    old = commit(catalog, source.id, Append(added=(a,))).version
    commit(catalog, source.id, Append(added=(b,)))
    clone = catalog.clone_table(source.id, "d", "copy", version=old)
    assert (live(catalog, clone.id), clone.next_row_id, clone.last_sequence) == ({a.number: 10}, 10, 1)
    assert catalog.segments(clone.id, clone.version) == catalog.segments(source.id, old)
    own = segment(catalog, clone.id)
    commit(catalog, clone.id, Append(added=(own,)))
    commit(catalog, clone.id, Delete(vectors=(vector(clone.id, a.number, 3),)))
    commit(catalog, source.id, Overwrite(everything=True))
    assert live(catalog, clone.id) == {a.number: 7, own.number: 10}
    assert live(catalog, source.id) == {}
    assert live(catalog, source.id, old) == {a.number: 10}
    assert [s.first_row_id for s in catalog.segments(clone.id, catalog.version())] == [0, 10]
    with pytest.raises(NotFound, match="was created at version"):
        catalog.segments(clone.id, old)


def test_the_feed_of_a_clone_tells_what_it_did_to_the_segments_of_its_base(catalog: Catalog) -> None:
    source = make_table(catalog)
    a, b = segment(catalog, source.id), segment(catalog, source.id)
    commit(catalog, source.id, Append(added=(a, b)))
    clone = catalog.clone_table(source.id, "d", "copy")
    marked = commit(catalog, clone.id, Delete(vectors=(vector(clone.id, a.number, 3),))).version
    removed = commit(catalog, clone.id, Delete(removed=(Expected(b.number, 0),))).version
    back = commit(catalog, clone.id, Restore(clone.version)).version
    told = {
        entry.version: [
            (one.before.live_rows if one.before else None, one.after.live_rows if one.after else None)
            for one in entry.segments
        ]
        for entry in catalog.feed(clone.id, clone.version, catalog.version())
    }
    assert told == {marked: [(10, 7)], removed: [(10, None)], back: [(7, 10), (None, 10)]}
    (net,) = catalog.feed(clone.id, clone.version, catalog.version(), net=True)
    assert net.segments == ()


def test_a_clone_needs_a_name_of_its_own_and_a_version_that_is_there(catalog: Catalog) -> None:
    source = make_table(catalog)
    with pytest.raises(AlreadyExists, match="already exists"):
        catalog.clone_table(source.id, "d", "t")
    with pytest.raises(NotFound, match="does not exist yet"):
        catalog.clone_table(source.id, "d", "copy", version=99)
    assert [entry.name for entry in catalog.tables("d")] == ["t"]
