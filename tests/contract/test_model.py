"""Random histories against a plain model that keeps the whole state of every version; also after a recovery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.manifests.recover import recover
from moulin.config import Config
from moulin.model.facts import SegmentFacts
from moulin.model.operations import (
    AlterSchema,
    Append,
    Compact,
    Delete,
    Expected,
    Operation,
    Overwrite,
    Restore,
    SetPartitioning,
    SetProperties,
)
from moulin.model.schema.change import AddColumn
from tests.contract.conftest import Backend, memory_store
from tests.contract.samples import journal, make_table, segment, vector


@dataclass(frozen=True)
class State:
    """A table as a reader should see it: live segments and how many rows of each are deleted, and its settings."""

    segments: dict[int, tuple[SegmentFacts, int]] = field(default_factory=dict)
    columns: tuple[str, ...] = ("id", "ts", "region")
    properties: dict[str, str] = field(default_factory=dict)
    spec: tuple[str, ...] = ()


class Model:
    """One table in the catalog, and what is expected of it."""

    def __init__(self, catalog: Catalog, name: str) -> None:
        self.catalog = catalog
        self.table = make_table(catalog, name)
        self.now = State()
        self.versions = {self.table.version: self.now}

    def operation(self, step: str, a: int, b: int) -> tuple[Operation, State]:
        return STEPS[step](self, a, b)

    def commit(self, step: str, a: int, b: int) -> None:
        operation, expected = self.operation(step, a, b)
        read = self.catalog.version()
        version = self.catalog.commit([TableCommit(self.table.id, read, operation)]).version
        self.now = self.versions[version] = expected

    def new(self, a: int) -> SegmentFacts:
        return segment(self.catalog, self.table.id, rows=3 + a % 5, time_min=a, time_max=a + a * a)

    def seen(self, number: int) -> int:
        found = self.catalog.segments_by_number(self.table.id, [number], self.catalog.version())[number].vector
        return found.id if found else 0

    def some(self, a: int, count: int) -> list[int]:
        numbers = sorted(self.now.segments)
        return sorted({numbers[(a + n) % len(numbers)] for n in range(count)}) if numbers else []

    def without(self, numbers: list[int]) -> dict[int, tuple[SegmentFacts, int]]:
        return {number: kept for number, kept in self.now.segments.items() if number not in numbers}

    def expect(self, numbers: list[int]) -> tuple[Expected, ...]:
        return tuple(Expected(number, self.seen(number)) for number in numbers)


def _append(m: Model, a: int, b: int) -> tuple[Operation, State]:
    added = tuple(m.new(a + n) for n in range(1 + b % 3))
    return Append(added=added), replace(m.now, segments={**m.now.segments, **{s.number: (s, 0) for s in added}})


def _delete(m: Model, a: int, b: int) -> tuple[Operation, State]:
    chosen = [n for n in m.some(a, 1 + b % 2) if m.now.segments[n][1] < m.now.segments[n][0].rows]
    vectors, segments = [], dict(m.now.segments)
    for number in chosen:
        facts, deleted = segments[number]
        segments[number] = (facts, deleted + 1)
        vectors.append(vector(m.table.id, number, deleted + 1, m.seen(number)))
    return Delete(vectors=tuple(vectors)), replace(m.now, segments=segments)


def _remove(m: Model, a: int, b: int) -> tuple[Operation, State]:
    gone = m.some(a, 1 + b % 2)
    return Delete(removed=m.expect(gone)), replace(m.now, segments=m.without(gone))


def _compact(m: Model, a: int, b: int) -> tuple[Operation, State]:
    gone, added = m.some(a, 1 + b % 3), m.new(a)
    carried = {added.number: vector(m.table.id, added.number, 2).facts} if b % 2 else {}
    merge = Compact(removed=m.expect(gone), added=(added,), added_vectors=carried, journals=(journal(m.table.id),))
    return merge, replace(m.now, segments={**m.without(gone), added.number: (added, 2 if b % 2 else 0)})


def _overwrite(m: Model, a: int, b: int) -> tuple[Operation, State]:
    added = m.new(a)
    if b % 2:
        return Overwrite(everything=True, added=(added,)), replace(m.now, segments={added.number: (added, 0)})
    gone = m.some(a, 2)
    kept = {**m.without(gone), added.number: (added, 0)}
    return Overwrite(removed=m.expect(gone), added=(added,)), replace(m.now, segments=kept)


def _restore(m: Model, a: int, b: int) -> tuple[Operation, State]:
    target = sorted(m.versions)[a % len(m.versions)]
    return Restore(target), replace(m.versions[target], properties=m.now.properties)


def _alter(m: Model, a: int, b: int) -> tuple[Operation, State]:
    name = f"c{m.catalog.version()}"
    change: Any = AddColumn(name, "int")  # type: ignore[arg-type]
    return AlterSchema((change,)), replace(m.now, columns=(*m.now.columns, name))


def _properties(m: Model, a: int, b: int) -> tuple[Operation, State]:
    update, removal = {f"p{a % 3}": str(b)}, f"p{(a + 1) % 3}"
    kept = {key: value for key, value in m.now.properties.items() if key != removal}
    return SetProperties(update, (removal,)), replace(m.now, properties={**kept, **update})


def _partitioning(m: Model, a: int, b: int) -> tuple[Operation, State]:
    fields, names = (((), ()), (("region",), ("region",)), (("day(ts)",), ("ts_day",)))[a % 3]
    return SetPartitioning(fields), replace(m.now, spec=names)


STEPS: dict[str, Callable[[Model, int, int], tuple[Operation, State]]] = {
    "append": _append,
    "delete": _delete,
    "remove": _remove,
    "merge": _compact,
    "overwrite": _overwrite,
    "restore": _restore,
    "alter": _alter,
    "properties": _properties,
    "partitioning": _partitioning,
}

steps = st.tuples(
    st.integers(0, 1), st.sampled_from([*STEPS, "append", "delete", "restore"]), st.integers(0, 99), st.integers(0, 9)
)


def require_equal(catalog: Catalog, model: Model) -> None:
    """Every version reads as the model says."""
    for version, expected in model.versions.items():
        state = catalog.table_by_id(model.table.id, version)
        found = catalog.segments(model.table.id, version)
        assert [s.facts for s in found] == [facts for _, (facts, _) in sorted(expected.segments.items())]
        assert [s.vector.cardinality if s.vector else 0 for s in found] == [
            deleted for _, (_, deleted) in sorted(expected.segments.items())
        ]
        assert catalog.count_rows(model.table.id, version) == sum(
            facts.rows - deleted for facts, deleted in expected.segments.values()
        )
        assert tuple(f.name for f in state.schema.fields) == expected.columns
        assert tuple(f.name for f in state.spec.fields if str(f.transform) != "void") == expected.spec
        assert state.properties == expected.properties
    assert [c.version for c in catalog.history(model.table.id)] == sorted(model.versions, reverse=True)
    entry = catalog.table_entry(model.table.id)
    assert (entry.segments, entry.rows) == (
        len(model.now.segments),
        sum(facts.rows - deleted for facts, deleted in model.now.segments.values()),
    )


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(plan=st.lists(steps, min_size=5, max_size=25))
def test_every_version_reads_as_it_was(backend: Backend, plan: list[tuple[int, str, int, int]]) -> None:
    backend.close()
    store = memory_store()
    catalog = backend.open(backend.new_uri(), store)
    models = [Model(catalog, name) for name in ("one", "two")]
    for which, step, a, b in plan:
        models[which].commit(step, a, b)
    for model in models:
        require_equal(catalog, model)
    for model in models:  # numbers are contiguous, and none is used twice
        kept = catalog.history(model.table.id)[::-1]
        for before, after in pairwise(kept):
            assert after.first_row_id == before.first_row_id + before.added_rows
            assert after.sequence - before.sequence in (0, 1)
    catalog.close()
    uri = backend.new_uri()
    recovered = recover(store, uri, Config())
    assert (recovered.version, recovered.incomplete, recovered.ignored) == (catalog_version(models), None, ())
    again = backend.open(uri, store)
    for model in models:
        require_equal(again, model)
        assert again.history(model.table.id)[0].sequence == again.table_by_id(model.table.id).last_sequence


def catalog_version(models: list[Model]) -> int:
    return max(version for model in models for version in model.versions)
