"""Clones: tables that read the segments of another one at a version. Random histories, against a plain model."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moulin.catalog.catalog import Catalog
from moulin.catalog.manifests.recover import recover
from moulin.catalog.replica import ReplicaCatalog
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import AlreadyExists, NotFound
from moulin.model.facts import LiveSegment
from moulin.model.operations import Append, Delete, Expected, Overwrite, Restore
from tests.contract.conftest import Backend, HandClock, memory_store
from tests.contract.samples import commit, live, make_table, segment, vector
from tests.contract.test_model import STEPS, Model, require_equal

DAY = 86400


class CloneModel(Model):
    """A clone of a modelled table at one of its versions."""

    def __init__(self, source: Model, name: str, a: int) -> None:
        self.catalog = source.catalog
        at = sorted(source.versions)[a % len(source.versions)]
        self.table = self.catalog.clone_table(source.table.id, "d", name, version=at)
        self.now = source.versions[at]
        self.versions = {self.table.version: self.now}


steps = st.tuples(
    st.integers(0, 9),
    st.sampled_from([*STEPS, "append", "delete", "restore", "clone", "clone"]),
    st.integers(0, 99),
    st.integers(0, 9),
)


def joined(catalog: Catalog, table_id: UUID, version: int) -> list[LiveSegment]:
    """What each segment is, how it joined its table, and its vector."""
    return catalog.segments(table_id, version)


def play(models: list[Model], plan: list[tuple[int, str, int, int]]) -> None:
    for which, step, a, b in plan:
        model = models[which % len(models)]
        if step == "clone":
            models.append(CloneModel(model, f"clone{len(models)}", a))
        else:
            model.commit(step, a, b)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=st.lists(steps, min_size=8, max_size=30), more=st.lists(steps, max_size=12))
def test_clones_and_their_sources_go_their_own_ways(
    backend: Backend, plan: list[tuple[int, str, int, int]], more: list[tuple[int, str, int, int]]
) -> None:
    backend.close()
    store = memory_store()
    catalog = backend.open(backend.new_uri(), store)
    models: list[Model] = [Model(catalog, "one")]
    play(models, plan)
    replica = ReplicaCatalog.from_manifests(store, Config())
    play(models, more)
    for model in models:
        require_equal(catalog, model)
    states = {
        (model.table.id, version): joined(catalog, model.table.id, version)
        for model in models
        for version in model.versions
    }
    catalog.close()
    replica.refresh()
    uri = backend.new_uri()
    recover(store, uri, Config())
    again = backend.open(uri, store)
    for other in (replica, again):
        for model in models:
            require_equal(other, model)
        found = {key: joined(other, *key) for key in states}
        assert found == states
    replica.close()
