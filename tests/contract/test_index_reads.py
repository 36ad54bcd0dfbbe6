"""What readers ask about indexes, and what was written since a version: the same answers whoever gives them."""

from __future__ import annotations

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.indexes import Coverage, IndexSize
from moulin.model.entities import Index
from moulin.model.ids import new_id
from moulin.model.operations import Append, CreateIndex, IndexFile
from moulin.storage import paths
from tests.contract.samples import commit, make_table, segment


def test_the_catalog_knows_indexes_their_sizes_and_what_they_cover(catalog: Catalog) -> None:
    state = make_table(catalog)
    made = [segment(catalog, state.id) for _ in range(3)]
    commit(catalog, state.id, Append(added=tuple(made)))
    file = IndexFile(paths.index_path(state.id, new_id()), 500, 20, (made[0].number, made[1].number))
    operation = CreateIndex(new_id(), "by_id", "btree", 1, (file,))
    version = commit(catalog, state.id, operation).version
    index = Index(operation.id, "by_id", "btree", 1, version, catalog.history(state.id, 1)[0].timestamp_ns)
    assert catalog.indexes(state.id) == [index]
    assert catalog.index_sizes(state.id) == {index.id: IndexSize(1, 500, 2)}
    numbers = [facts.number for facts in made[1:]]
    assert catalog.index_coverage(state.id, numbers) == [Coverage(index, file.path, 500, (made[1].number,))]
    assert catalog.index_coverage(state.id, numbers, {1}) == catalog.index_coverage(state.id, numbers)
    assert catalog.index_coverage(state.id, numbers, {2}) == []


def test_bytes_written_since_a_version_are_counted_by_level(catalog: Catalog) -> None:
    state = make_table(catalog)
    first = commit(catalog, state.id, Append(added=(segment(catalog, state.id),))).version
    more = (segment(catalog, state.id, level=1), segment(catalog, state.id), segment(catalog, state.id))
    commit(catalog, state.id, Append(added=more))
    assert catalog.written_bytes(state.id, first) == {0: 2000, 1: 1000}
    assert catalog.written_bytes(state.id, 0) == {0: 3000, 1: 1000}
