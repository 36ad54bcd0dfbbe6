"""Pages of what a lake has, on every database: the same as whole lists, whatever the size of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

import moulin
from moulin.lake import Lake


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "sqlite":
        return moulin.connect(tmp_path / "lake")
    return moulin.connect(request.getfixturevalue("postgres_url"), storage=str(tmp_path / "lake"))


def test_pages_and_figures_are_those_of_whole_lists(lake: Lake) -> None:
    with lake:
        for database in ("b", "a", "B"):
            lake.create_database(database)
            for name in ("t_1", "t%2", "T3"):
                lake.create_table(f"{database}.{name}", [("x", "int")]).append([{"x": 1}, {"x": 2}])
        lake.table("a.T3").delete_where("x = 1")
        lake.drop_table("b.T3")
        lake.branch("exp").table("a.t_1").append([{"x": 3}])
        overview = lake.own_catalog().overview
        everything = [(one.database, one.name) for one in overview.tables(None, 100)]
        assert sorted(everything) == sorted(
            (database.name, table.name) for database in lake.databases() for table in lake.tables(database.name)
        )
        for size in (1, 3):
            pages, after = [], None
            while page := overview.tables(after, size):
                pages += [(one.database, one.name) for one in page]
                after = pages[-1]
            assert pages == everything
        assert [one.name for one in overview.tables(None, 9, text="A.T_")] == ["t_1"]
        assert {one.name for one in overview.tables(None, 9, text="%")} == {"t%2"}
        assert len(overview.tables_with_column("X", 100)) == 8
        figures = overview.figures()
        assert (figures.version, figures.databases, figures.tables, figures.dropped) == (lake.version, 3, 8, 1)
        assert figures.rows == 15
        table = lake.table("a.T3")
        found, before = [], None
        while page := overview.commits(table.id, before, 1):
            found += page
            before = (page[-1].version, page[-1].ordinal)
        assert found == table.history()
        newest = overview.activity(0, None, 3)
        assert [one.version for one in newest] == [lake.version, lake.version - 1, lake.version - 2]
        assert newest[0].changes[0].database == "a@exp"
        whole, first = (overview.activity(0, None, 1000, most) for most in (1000, 1))
        assert [(one.version, one.tables, one.changes[:1]) for one in whole] == [
            (one.version, one.tables, one.changes) for one in first
        ]
        assert all(one.tables == len({change.table_id for change in one.changes}) for one in whole)
        assert [one.version for one in overview.activity(0, newest[-1].version, 1000)][-1] == 1
        assert sum(overview.versions_by_time(0, 60_000_000_000).values()) == lake.version
