"""What clean-up forgets of old versions, and what everyone who may still ask finds as it was."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import moulin
from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.table_commit import Stale
from moulin.catalog.manifests.recover import recover
from moulin.catalog.objects.births import BIRTHS
from moulin.catalog.segments.stats import Filter
from moulin.catalog.sql import schema as s
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import DAY
from moulin.errors import NotFound
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake, locate
from moulin.mirror import Mirror
from moulin.model.conflicts import Verdict
from moulin.model.operations import AlterSchema, SetProperties
from moulin.model.schema.change import AddColumn
from moulin.table.keyed.left_logs import regions_in_logs
from moulin.table.table import Table
from tests.catalog.conftest import HandClock
from tests.contract.samples import commit

COLUMNS = [("id", "long", False)]
LINEAGE = ["id", "_row_id", "_last_updated_version", "_created_version"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def lake(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> Iterator[Lake]:
    postgres = request.param == "postgres"
    uri = request.getfixturevalue("postgres_url") if postgres else str(tmp_path / "lake")
    with Lake.open(uri, storage=str(tmp_path / "files") if postgres else None, clock=clock) as lake:
        lake.create_database("shop")
        yield lake


def _count(lake: Lake, table: sa.Table) -> int:
    with lake.own_catalog().pool.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def _set(lake: Lake, table: Table, number: int) -> None:
    commit(lake.own_catalog(), table.id, SetProperties({"n": str(number)}))


def test_commits_and_versions_shrink_to_what_can_be_read(lake: Lake, clock: HandClock) -> None:
    table, other = lake.create_table("shop.t", COLUMNS), lake.create_table("shop.idle", COLUMNS)
    other.append([{"id": 1}])
    for n in range(40):
        table.append([{"id": n}])
        _set(lake, table, n)
    table.compact(everything=True)
    before = table.scan(columns=LINEAGE).to_arrow().sort_by("id")
    assert (_count(lake, s.versions), _count(lake, s.table_commits)) == (85, 84)
    collect(lake.catalog)
    assert _count(lake, s.table_commits) == 84, "a week of history is kept"
    clock.forward(8 * DAY)
    collect(lake.catalog)
    assert _count(lake, s.table_commits) == 4, (
        "of each the last commit; who wrote what, and who made what, in one row each"
    )
    assert _count(lake, s.versions) <= 6
    assert table.scan(columns=LINEAGE).to_arrow().sort_by("id") == before
    assert table.properties["n"] == "39"
    assert table.at(version=table.version).properties["n"] == "39"
    assert [c.version for c in table.history()] == [table.state().head_version]
    assert other.scan().count() == 1
    table.append([{"id": 99}])
    assert table.changes(table.version - 1).count() == 1
    assert check(lake.catalog) == []
    c = s.table_commits
    with lake.own_catalog().pool.unordered() as connection:  # as an earlier release left it
        connection.execute(c.delete().where(c.c.ordinal == BIRTHS))
    found = {row["id"]: row["_created_version"] for row in table.scan(["id", "_created_version"]).to_pylist()}
    assert found == {**dict.fromkeys(range(40)), 99: table.version}


def test_a_tag_keeps_the_history_after_it(lake: Lake, clock: HandClock) -> None:
    table = lake.create_table("shop.t", COLUMNS)
    for n in range(10):
        table.append([{"id": n}])
    table.tag("kept", table.version)
    tagged = table.tags()["kept"]
    stamp = table.history(1)[0].timestamp_ns
    for n in range(10, 20):
        table.append([{"id": n}])
    clock.forward(30 * DAY)
    collect(lake.catalog)
    assert [c.version for c in table.history()][-1] >= tagged
    assert table.at(tag="kept").scan().count() == 10
    assert lake.catalog.version_at(stamp) == tagged + 1
    assert table.changes(tagged).count() == 10
    table.drop_tag("kept")
    clock.forward(30 * DAY)
    collect(lake.catalog)
    assert len(table.history()) == 1
    with pytest.raises(NotFound, match="cleaned up"):
        table.at(version=tagged)


def test_ages_of_segments_outlive_the_versions_around_them(lake: Lake, clock: HandClock) -> None:
    table = lake.create_table("shop.t", COLUMNS)
    table.append([{"id": 1}])
    clock.forward(40 * DAY)
    for n in range(30):
        _set(lake, table, n)
    table.append([{"id": 2}])
    clock.forward(10 * DAY)
    collect(lake.catalog)
    assert _count(lake, s.versions) <= 5
    with lake.own_catalog().pool.read() as connection:
        after, _ = Filter(max_age_seconds=int(20 * DAY)).versions(connection, clock.now)
    segments = lake.catalog.segments(table.id, lake.version)
    assert [one.added_version > after for one in sorted(segments, key=lambda one: one.added_version)] == [False, True]


def test_what_was_prepared_before_forgotten_versions_is_prepared_again(lake: Lake, clock: HandClock) -> None:
    """A column that was asked for on a table whose past is unknown since: nothing is guessed."""
    table = lake.create_table("shop.t", COLUMNS)
    read = table.version
    for n in range(5):
        _set(lake, table, n)
    clock.forward(30 * DAY)
    collect(lake.catalog)

    with pytest.raises(Stale) as caught:
        commit(lake.own_catalog(), table.id, AlterSchema((AddColumn("x", "long"),)), read=read)  # type: ignore[arg-type]
    assert caught.value.verdict is Verdict.RETRY


def test_a_mirror_that_was_away_goes_on(lake: Lake, clock: HandClock, tmp_path: Path) -> None:
    table = lake.create_table("shop.t", COLUMNS)
    table.append([{"id": 0}])
    mirror = Mirror(lake, str(tmp_path / "mirror"))
    mirror.run_once()
    for n in range(1, 10):
        table.append([{"id": n}])
    table.compact(everything=True)
    for _ in range(2):
        clock.forward(30 * DAY)
        collect(lake.catalog)
    mirror.run_once()
    with moulin.connect(str(tmp_path / "mirror"), read_only=True) as replica:
        found = replica.table("shop.t").scan(columns=LINEAGE).to_arrow().sort_by("id")
    assert found == table.scan(columns=LINEAGE).to_arrow().sort_by("id")


class Model:
    """A table of a lake beside what a plain dictionary says of each version."""

    def __init__(self, lake: Lake, clock: HandClock) -> None:
        self.lake, self.clock = lake, clock
        self.table = lake.create_table("shop.t", COLUMNS)
        self.next = 0
        self.wrote: dict[int, int] = {}  # id -> the version that wrote it
        self.made: dict[int, int] = {}  # row id -> the version that made it
        self.states: dict[int, tuple[dict[int, int], str | None]] = {}
        self.property: str | None = None
        self.note()

    def note(self) -> None:
        self.states[self.table.state().head_version] = (dict(self.wrote), self.property)

    def append(self) -> None:
        self.table.append([{"id": self.next}, {"id": self.next + 1}])
        self.wrote |= dict.fromkeys((self.next, self.next + 1), self.table.state().head_version)
        self.next += 2

    def delete(self) -> None:
        if self.wrote:
            gone = min(self.wrote)
            self.table.delete_where(f"id = {gone}")
            del self.wrote[gone]

    def set(self) -> None:
        self.property = str(self.next)
        _set(self.lake, self.table, self.next)

    def compact(self) -> None:
        self.table.compact(everything=True)

    def tag(self) -> None:
        self.table.tag("t", self.table.state().head_version)

    def untag(self) -> None:
        if "t" in self.table.tags():
            self.table.drop_tag("t")

    def restore(self) -> None:
        version = self.kept()[0]
        self.table.restore(version)
        found = self.table.scan(columns=LINEAGE).to_arrow().to_pylist()
        assert {row["id"] for row in found} == set(self.at(version)[0])
        self.wrote = {row["id"]: row["_last_updated_version"] for row in found}

    def idle(self) -> None:
        self.lake.create_database(f"d{len(self.states)}{self.clock.now}")

    def wait(self) -> None:
        self.clock.forward(5 * DAY)

    def gc(self) -> None:
        collect(self.lake.catalog)

    def kept(self) -> list[int]:
        oldest = self.table.state().oldest_version
        return [oldest, *(version for version in sorted(self.states) if version > oldest)]

    def at(self, version: int) -> tuple[dict[int, int], str | None]:
        return self.states[max(known for known in self.states if known <= version)]

    def check(self, table: Table, *, some: bool = False) -> None:
        """Every kept version, its rows and settings; what changed from each to now; who wrote what is there.

        With `some`, the oldest and newest versions and one between: the last look is at all of them.
        """
        kept = self.kept()
        now = self.at(kept[-1])[0]
        for version in {kept[0], kept[len(kept) // 2], kept[-1]} if some else kept:
            rows, setting = self.at(version)
            shown = table.at(version=version)
            assert sorted(shown.scan().to_arrow()["id"].to_pylist()) == sorted(rows)
            assert shown.properties.get("n") == setting
            feed = table.changes(version, net=True).to_arrow()
            came = set(now) - set(rows)
            assert came <= set(feed["id"].to_pylist())
            assert set(rows) - set(now) <= set(feed["id"].to_pylist())
            table.changes(version).count()
        assert {c.version for c in table.history()} <= set(self.states)
        found = table.scan(columns=LINEAGE).to_arrow().to_pylist()
        for row in found:
            wrote = now[row["id"]]
            assert row["_last_updated_version"] == wrote
            made = self.made.setdefault(row["_row_id"], row["_created_version"])
            assert made is not None
            assert made == row["_created_version"] <= wrote


STEPS = ["append", "append", "delete", "set", "compact", "tag", "untag", "restore", "idle", "wait", "wait", "gc", "gc"]


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(STEPS), min_size=6, max_size=18))
def test_whatever_is_forgotten_nobody_misses_it(steps: list[str]) -> None:
    """The lake, one that was recovered from its manifests, a replica, and the projection for engines."""
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder,
        ExitStack() as over,
    ):
        clock = HandClock()
        lake = over.enter_context(Lake.open(f"{folder}/lake", clock=clock))
        lake.create_database("shop")
        model = Model(lake, clock)
        model.append()
        model.note()
        replica = over.enter_context(moulin.connect(f"{folder}/lake", read_only=True))
        for step in [*steps, "gc"]:
            getattr(model, step)()
            model.note()
            if step == "gc":
                model.check(model.table, some=True)
        replica.refresh()
        model.check(replica.table("shop.t"))
        made = project(lake.context, model.table.id)
        assert made.version == model.table.state().head_version
        assert check(lake.catalog) == []
        lake.own_catalog().publisher.publish()
        _, store, config = locate(f"{folder}/lake", None, None, None)
        recover(store, f"sqlite:///{folder}/again.sqlite", config, find_regions=partial(regions_in_logs, store, config))
        again = Lake(Catalog.open(f"sqlite:///{folder}/again.sqlite", store, config, clock=clock), store, "again")
        over.callback(again.close)
        model.check(again.table("shop.t"))
