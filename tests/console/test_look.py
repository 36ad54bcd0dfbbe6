"""What the API shows of a lake: the same as the lake itself and the command line."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import pytest

import moulin
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.pipeline.nursery.nursery import Nursery
from tests.cli.conftest import Run
from tests.console.conftest import HOSTILE, Api, Serve, ids
from tests.console.logs import Writer, request


@pytest.fixture
def api(shop: Lake, serve: Serve) -> Api:
    return serve(shop)


def all_pages(api: Api, path: str, **query: Any) -> list[Any]:
    found, cursor = [], None
    while True:
        page = api.json(path, **query, **({"cursor": cursor} if cursor else {}))
        assert len(page["items"]) <= query.get("limit", 1000)
        found += page["items"]
        if (cursor := page["next_cursor"]) is None:
            return found


def test_the_lake_has_the_sums_of_its_tables(api: Api, shop: Lake) -> None:
    shown, tables = api.json("/lake"), shop.tables("shop")
    assert (shown["tables"], shown["databases"], shown["dropped"]) == (3, 1, 1)
    assert int(shown["rows"]) == sum(table.rows for table in tables) == 193
    assert int(shown["bytes"]) == sum(table.bytes for table in tables)
    assert shown["version"] == str(shop.version)
    assert shown["stuck"] == []
    assert len(shown["minutes"]) == 60
    assert sum(one["versions"] for one in shown["minutes"]) == shop.version


def test_a_table_has_the_figures_of_the_command_line(api: Api, shop: Lake, run: Run) -> None:
    shown = api.json(f"/tables/{ids(api)['shop.orders']}")
    told = run("table", "show", "shop.orders", "--json", lake=shop.uri).json()
    assert (int(shown["rows"]), int(shown["deleted_rows"])) == (told["rows"], told["deleted_rows"])
    assert (int(shown["bytes"]), shown["segments"]) == (told["bytes"], told["segments"])
    assert shown["read_amplification"] == told["read_amplification"]
    assert shown["write_amplification"] == told["write_amplification"]
    assert [(one["level"], int(one["bytes"]), int(one["live"])) for one in shown["levels"]] == [
        (one["level"], one["bytes"], one["live"]) for one in told["levels"]
    ]
    assert (shown["partitioned_by"], shown["event_time"]) == (told["partitioned_by"], "at")
    assert shown["tags"] == {name: str(version) for name, version in told["tags"].items()}
    (schema,) = [one for one in shown["schemas"] if one["id"] == shown["schema_id"]]
    assert [(one["name"], one["type"]) for one in schema["columns"]] == [
        (one["column"], one["type"]) for one in told["columns"]
    ]


def test_commits_are_the_history_page_by_page(api: Api, shop: Lake) -> None:
    path = f"/tables/{ids(api)['shop.orders']}/commits"
    expected = [(str(one.version), one.ordinal, str(one.kind)) for one in shop.table("shop.orders").history()]
    for limit in (1, 2, 3, 1000):
        found = all_pages(api, path, limit=limit)
        assert [(one["version"], one["ordinal"], one["kind"]) for one in found] == expected


def test_parts_of_a_table_add_up(api: Api, shop: Lake) -> None:
    table_id = ids(api)["shop.orders"]
    segments = all_pages(api, f"/tables/{table_id}/segments", limit=3)
    numbers = [int(one["number"]) for one in segments]
    assert numbers == sorted(set(numbers))
    assert sum(int(one["live"]) for one in segments) == 190
    assert sum(int(one["rows"]) for one in segments) == 200
    partitions = all_pages(api, f"/tables/{table_id}/partitions", limit=1)
    assert {one["partition"] for one in partitions} == {"customer_bucket=0", "customer_bucket=1"}
    assert sum(int(one["rows"]) for one in partitions) == 190
    (index,) = api.json(f"/tables/{table_id}/indexes")["items"]
    assert (index["column"], index["kind"], index["covered"]) == ("id", "btree", len(segments))
    before = shop.table("shop.orders").tags()["before"]
    assert sum(int(one["live"]) for one in all_pages(api, f"/tables/{table_id}/segments", version=before)) == 200
    (region,) = api.json(f"/tables/{ids(api)['shop.stock']}/regions")["items"]
    assert region["segments"] == 1


def test_readers_are_those_of_the_command_line(api: Api, shop: Lake, run: Run) -> None:
    shown = api.json(f"/tables/{ids(api)['shop.orders']}/readers")["items"]
    told = run("table", "show", "shop.orders", "--engines", "--json", lake=shop.uri).json()
    assert [(one["engine"], one["reads"], one["reason"]) for one in shown] == [
        (one["engine"], one["reads_it"], one["why_not"]) for one in told
    ]


def test_rows_keep_large_numbers_and_hostile_text(api: Api) -> None:
    stock = api.json(f"/tables/{ids(api)['shop.stock']}/rows")
    assert sorted(stock["rows"]) == [["a", str(2**62)], ["b", 2]]
    (name,) = [name for name in ids(api) if HOSTILE[:4] in name]
    odd = api.json(f"/tables/{ids(api)[name]}/rows")
    assert odd["columns"][0]["name"] == "<b>bold</b>"
    assert odd["rows"][0][0] == HOSTILE
    orders = api.json(f"/tables/{ids(api)['shop.orders']}/rows", limit=7)
    assert (len(orders["rows"]), orders["more"]) == (7, True)


def test_long_values_are_cut(lake: Lake, serve: Serve) -> None:
    lake.create_database("d")
    table = lake.create_table("d.t", [("text", "string"), ("list", "list<int>"), ("data", "binary")])
    table.append([{"text": "x" * 100_000, "list": list(range(1000)), "data": b"y" * 100_000}])
    api = serve(lake)
    answer = api.get(f"/tables/{ids(api)['d.t']}/rows")
    assert answer.json()["cut"]
    assert len(answer.content) < 10_000


def test_a_diff_counts_and_shows_rows(api: Api, shop: Lake) -> None:
    table_id, table = ids(api)["shop.orders"], shop.table("shop.orders")
    before = table.tags()["before"]
    shown = api.json(f"/tables/{table_id}/diff", since=before, until=shop.version, limit=4)
    assert (shown["inserted"], shown["updated"], shown["deleted"]) == ("0", "0", "10")
    assert (len(shown["rows"]["rows"]), shown["rows"]["more"]) == (4, True)
    table.add_column("tip", "double")
    shown = api.json(f"/tables/{table_id}/diff", since=before, until=shop.version)
    assert shown["schema_changes"] == ["add column tip double"]
    assert api.get(f"/tables/{table_id}/diff", params={"since": 9, "until": 3}).status_code == 400


def test_tables_are_found_by_a_part_of_their_names(api: Api) -> None:
    assert [one["name"] for one in api.json("/tables", q="P.ORD")["items"]] == ["orders"]
    for wild in ("%", "_o", "\\", "*"):
        assert all(wild in one["name"] for one in api.json("/tables", q=wild)["items"]), wild
    hits = api.json("/search", q="CUST")["items"]
    assert [(one["kind"], one["name"], one["table"]) for one in hits] == [("column", "customer", "shop.orders")]
    assert {"kind": "version", "name": "3", "id": None, "table": None} in api.json("/search", q="3")["items"]


def test_tables_come_in_pages_by_name(lake: Lake, serve: Serve) -> None:
    for database in ("b", "a"):
        lake.create_database(database)
        for number in range(7):
            lake.create_table(f"{database}.t{number}", [("x", "int")])
    lake.branch("other")
    api = serve(lake)
    found = [f"{one['database']}.{one['name']}" for one in all_pages(api, "/tables", limit=4)]
    assert found == [f"{database}.t{number}" for database in "ab" for number in range(7)]
    (database,) = [one["id"] for one in all_pages(api, "/databases", limit=1) if one["name"] == "b"]
    assert len(all_pages(api, "/tables", limit=3, database=database)) == 7
    assert [one["name"] for one in api.json("/branches")["items"]] == ["other"]


def test_activity_names_each_version_once_newest_first(api: Api, shop: Lake) -> None:
    found = all_pages(api, "/lake/activity", limit=4)
    assert [int(one["version"]) for one in found] == list(range(shop.version, 0, -1))
    changed = {change["table"] for one in found for change in one["changes"]}
    assert {"shop.orders", "shop.stock"} <= changed
    for name in ("shop.orders", "shop.stock"):
        versions = {int(one["version"]) for one in found for change in one["changes"] if change["table"] == name}
        assert versions == {one.version for one in shop.table(name).history()}
    newer = all_pages(api, "/lake/activity", since=shop.version - 2)
    assert [int(one["version"]) for one in newer] == [shop.version, shop.version - 1]


def test_an_answer_of_the_same_version_is_not_sent_again(api: Api, shop: Lake) -> None:
    path = f"/tables/{ids(api)['shop.orders']}"
    first = api.get(path)
    again = api.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    shop.table("shop.orders").append([{"id": 999, "customer": "x", "amount": 1.0}])
    newer = api.get(path, headers={"if-none-match": first.headers["etag"]})
    assert newer.status_code == 200
    assert int(newer.json()["rows"]) == 191


@pytest.mark.parametrize(
    "cursor", ["WyJcdWQ4MDAiLCJhIl0", "WyJcdTAwMDAiLCJhIl0", "x", "bnVsbA", "WzFd", "W10", "W1siYSJdXQ", "é"]
)
def test_a_strange_cursor_is_refused(api: Api, cursor: str) -> None:
    answer = api.get("/tables", params={"cursor": cursor})
    assert answer.status_code == 400
    assert "next_cursor" in answer.json()["error"]["message"]


def test_what_is_not_there_is_said_in_a_sentence(api: Api) -> None:
    for path in ("/tables/00000000-0000-0000-0000-000000000000", "/tables/nonsense", "/nothing", "/tables?limit=0"):
        answer = api.get(path)
        assert answer.status_code in (400, 404), path
        assert answer.json(), path
    old = api.get(f"/tables/{ids(api)['shop.orders']}/segments", params={"version": 10**15})
    assert old.status_code == 404


def test_text_that_no_name_has_finds_nothing_or_is_refused(api: Api) -> None:
    for text in ("\0", "\ud800", "x" * 201, "%", "'", "\\", "\u202e", " "):
        for path in ("/tables", "/search"):
            answer = api.get(f"{path}?q={quote(text.encode('utf-8', 'surrogatepass'))}")
            assert answer.status_code in (200, 400), (path, text)


def test_a_table_of_a_branch_is_shown_by_its_id(api: Api, shop: Lake) -> None:
    orders = shop.branch("exp").table("shop.orders")
    orders.append([{"id": 1, "customer": "x", "amount": 1.0}])
    newest = api.json("/lake/activity", limit=1)["items"][0]["changes"][0]
    assert newest["table"] == "shop@exp.orders"
    shown = api.json(f"/tables/{newest['table_id']}")
    assert (shown["database"], shown["rows"]) == ("shop@exp", "191")
    assert len(all_pages(api, f"/tables/{newest['table_id']}/segments", limit=4)) == shown["segments"]
    assert len(api.json(f"/tables/{newest['table_id']}/rows", limit=500)["rows"]) == 191
    assert len(ids(api)) == 3, "lists are of main"


def test_looking_leaves_the_log_of_a_writer_alone(shop: Lake, serve: Serve) -> None:
    stock = shop.table("shop.stock")
    stock.put({"sku": "c", "count": 3})
    with moulin.connect(shop.uri) as other:
        api = serve(other)
        table_id = ids(api)["shop.stock"]
        for part in ("", "/rows", "/segments", "/regions", "/commits"):
            api.json(f"/tables/{table_id}{part}")
        assert api.json(f"/tables/{table_id}")["rows"] == "2", "what is committed"
    stock.put({"sku": "d", "count": 4})
    assert stock.get("c") == {"sku": "c", "count": 3}


def test_branches_that_are_gone_are_listed_when_asked_for(api: Api, shop: Lake) -> None:
    with shop.branch("try") as branch:
        branch.table("shop.orders").append([{"id": 900, "customer": "c1", "amount": 1.0}])
    shop.branch("left").close()
    published = shop.publish("try").version
    assert [one["name"] for one in api.json("/branches")["items"]] == ["left"]
    found = {one["name"]: one for one in api.json("/branches", dropped="true")["items"]}
    assert (found["try"]["dropped"], found["try"]["published_version"]) == (True, str(published))
    assert (found["left"]["dropped"], found["left"]["published_version"]) == (False, None)
    happened = {one["version"]: one for one in api.json("/lake/activity")["items"]}
    changes = [x for one in happened.values() for x in one["changes"] if x["branch"] == "try"]
    assert {one["table"] for one in changes} == {"shop@try.orders"}
    assert "append" in {one["kind"] for one in changes}
    assert {x["branch"] for x in happened[str(published)]["changes"]} == {None}


def test_the_tasks_of_a_table_name_their_segments(api: Api, shop: Lake) -> None:
    table = ids(api)["shop.orders"]
    api.post(f"/tables/{table}/merges")
    tasks = api.json(f"/tables/{table}/tasks")["items"]
    live = {one["number"] for one in api.json(f"/tables/{table}/segments")["items"]}
    assert sorted(number for one in tasks for number in one["inputs"]) == sorted(live)
    assert [one["segments"] for one in tasks] == [len(one["inputs"]) for one in tasks]
    assert api.json(f"/tables/{ids(api)['shop.stock']}/tasks")["items"] == []
    assert api.get(f"/tables/{ids(api)['shop.stock'][:-1]}0/tasks").status_code in (200, 404)


def test_a_stream_says_what_is_stored_and_how_far_each_table_is(api: Api, shop: Lake) -> None:
    token = set_up(shop).token
    assert token is not None
    writer = Writer(shop, token)
    before = time.time_ns()
    writer.send(request([(before, "one")]))
    (stream,) = api.json("/streams")["items"]
    assert (stream["waiting"], stream["tables"]) == (1, [])
    assert abs(int(stream["stored_at"]) - before) < 60_000_000_000
    Nursery(shop, spark=False).run_once()
    end = time.monotonic() + 20
    while stream["waiting"]:  # storage is looked at every few seconds
        assert time.monotonic() < end
        time.sleep(0.2)
        (stream,) = api.json("/streams")["items"]
    (table,) = stream["tables"]
    assert (table["table"], table["merged_offset"]) == ("otel.logs", stream["frontier"])
    assert 0 < int(table["merged_time"]) <= int(stream["stored_at"])
