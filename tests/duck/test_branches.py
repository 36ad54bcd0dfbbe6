"""Branches in DuckDB: a branch's own connection, and tables of a branch beside those of main."""

from __future__ import annotations

import duckdb
import pytest

from moulin.errors import NotFound
from moulin.lake import Lake
from tests.duck.conftest import rows

COLUMNS = [("id", "long", False), ("n", "long")]


def test_a_branch_has_a_connection_of_its_own_and_main_can_show_its_tables(lake: Lake) -> None:
    lake.create_table("d.t", COLUMNS).append([{"id": n, "n": n} for n in range(4)])
    keyed = lake.create_table("d.k", COLUMNS, primary_key=["id"])
    keyed.put({"id": 1, "n": 1})
    lake.flush()
    lake.create_view("d.v", ["t"])
    branch = lake.branch("exp")
    branch.table("d.t").delete_where("id = 0")
    branch.table("d.k").put({"id": 1, "n": 9})
    branch.create_table("d.made", COLUMNS).append([{"id": 5, "n": 5}])
    on, main = branch.duckdb(), lake.duckdb()
    sums = "select (select count(*) from d.t) as t, (select sum(n) from d.k) as k, (select count(*) from d.v) as v"
    assert rows(on, sums) == [{"t": 3, "k": 9, "v": 3}]
    assert rows(main, sums) == [{"t": 4, "k": 1, "v": 4}]
    assert rows(main, "select count(*) as n from moulin_table('d.t@exp')") == [{"n": 3}]
    with pytest.raises(duckdb.Error):
        main.execute("from d.made")
    with pytest.raises(duckdb.Error):
        main.execute('from "d@exp".t')
    assert lake.duckdb(main, branches=["exp"]) is main
    assert rows(main, 'select a.id from d.t a anti join "d@exp".t b using (id)') == [{"id": 0}]
    assert rows(main, 'select n from "d@exp".made') == [{"n": 5}]
    branch.table("d.k").put({"id": 2, "n": 100})
    lake.duckdb(main)
    assert rows(main, 'select sum(n) as n from "d@exp".k') == [{"n": 109}]
    lake.drop_branch("exp")
    lake.duckdb(main)
    with pytest.raises(duckdb.Error):
        main.execute('from "d@exp".t')
    assert rows(main, sums) == [{"t": 4, "k": 1, "v": 4}]
    with pytest.raises(NotFound, match="Branch 'exp' does not exist"):
        lake.duckdb(branches=["exp"])
