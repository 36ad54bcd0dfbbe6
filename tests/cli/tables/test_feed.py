"""`moulin changes`: the change feed on the command line."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def lake(run: Run) -> Run:
    assert run("init").code == 0
    assert run("db", "create", "shop").code == 0
    assert run("table", "create", "shop.orders", "id:long!", "region:string").code == 0
    rows = "".join(json.dumps({"id": n, "region": "eu"}) + "\n" for n in range(5))
    assert run("append", "shop.orders", "-", stdin=rows).code == 0
    assert run("delete", "shop.orders", "--where", "id = 3").code == 0
    return run


def since(run: Run) -> int:
    return int(run("table", "history", "shop.orders", "--json").json()[-1]["version"])


def test_changes_are_shown(lake: Run) -> None:
    base = str(since(lake))
    rows = lake("changes", "shop.orders", "--since", base, "--json").json()
    assert [row["_change_type"] for row in rows] == ["insert"] * 5 + ["delete"]
    assert list(rows[-1]) == ["_change_type", "_row_id", "_version", "_commit_timestamp", "id", "region"]
    assert (rows[-1]["id"], rows[-1]["region"], rows[-1]["_version"]) == (3, "eu", int(base) + 2)
    net = lake("changes", "shop.orders", "--since", base, "--net", "--json").json()
    assert sorted(row["id"] for row in net) == [0, 1, 2, 4]
    until = lake("changes", "shop.orders", "--since", base, "--until", str(int(base) + 1), "--json").json()
    assert len(until) == 5
    shown = lake("changes", "shop.orders", "--since", base, "--limit", "2")
    assert "The first 2 rows" in shown.out
    assert "delete" not in shown.out
    exact = lake("changes", "shop.orders", "--since", base, "--limit", "6")
    assert "The first" not in exact.out
    assert "delete" in exact.out


def test_an_empty_range_is_reported_and_a_wrong_one_refused(lake: Run) -> None:
    base = since(lake)
    done = lake("changes", "shop.orders", "--since", str(base + 2))
    assert (done.code, "No rows of shop.orders changed" in done.out) == (0, True)
    for words, message in [
        (("--since", "99"), "does not exist yet"),
        (("--since", str(base), "--limit", "-1"), "--limit must be zero or more"),
        (("--since", str(base - 1)), f"since version {base}"),
    ]:
        done = lake("changes", "shop.orders", *words)
        assert (done.code, message in done.err) == (1, True)
    assert lake("changes", "shop.orders").code == 2


def test_restore_reports_the_rows_that_it_changed(lake: Run) -> None:
    base = since(lake)
    done = lake("table", "restore", "shop.orders", str(base + 1))
    assert "1 added, 0 removed, 0 updated" in " ".join(done.out.split())
    machine = lake("table", "restore", "shop.orders", str(base), "--json").json()
    assert machine == {"version": base + 4, "rows": {"added": 0, "removed": 5, "updated": 0}}


def test_changes_show_nanoseconds_whole(lake: Run) -> None:
    assert lake("table", "create", "shop.times", "id:long", "at:timestamp[ns,tz=UTC]").code == 0
    row = '{"id": 1, "at": "2024-03-01T10:00:00.123456789Z"}\n'
    assert lake("append", "shop.times", "-", stdin=row).code == 0
    base = lake("table", "history", "shop.times", "--json").json()[-1]["version"]
    for words in (("changes", "shop.times", "--since", str(base)), ("scan", "shop.times")):
        (found,) = lake(*words, "--json").json()
        assert found["at"] == "2024-03-01T10:00:00.123456789Z"
