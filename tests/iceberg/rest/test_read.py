"""The REST catalog as engines that read see it: namespaces, tables, errors, tags, pages, tokens."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from moulin.errors import MoulinError
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.table import Table
from tests.iceberg.conftest import COLUMNS, rows
from tests.iceberg.rest.served import Client, duckdb_attached, error, pyiceberg_catalog, served


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def test_config_lists_endpoints(client: Client) -> None:
    found = client.get("/config", params={"warehouse": "any"}).json()
    assert found["overrides"] == {}
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}" in found["endpoints"]
    assert "HEAD /v1/{prefix}/namespaces/{namespace}" in found["endpoints"]


def test_namespaces_are_databases(client: Client, lake: Lake) -> None:
    made = client.post("/namespaces", json={"namespace": ["web"], "properties": {"owner": "me"}})
    assert made.json() == {"namespace": ["web"], "properties": {"owner": "me"}}
    assert [database.name for database in lake.databases()] == ["shop", "web"]
    assert client.get("/namespaces").json()["namespaces"] == [["shop"], ["web"]]
    assert client.get("/namespaces", params={"parent": "shop"}).json()["namespaces"] == []
    changed = {"updates": {"a": "1"}, "removals": ["owner", "nothing"]}
    answer = client.post("/namespaces/web/properties", json=changed).json()
    assert answer == {"updated": ["a"], "removed": ["owner"], "missing": ["nothing"]}
    assert client.get("/namespaces/web").json()["properties"] == {"a": "1"}
    assert client.head("/namespaces/web").status_code == 204
    assert client.delete("/namespaces/web").status_code == 204
    assert client.head("/namespaces/web").status_code == 404
    lake.resurrect_database("web")
    assert lake.catalog.database("web").properties == {"a": "1"}


def test_impossible_namespaces_are_refused(client: Client, lake: Lake) -> None:
    lake.create_table("shop.t", COLUMNS)
    error(client.post("/namespaces", json={"namespace": ["shop"]}), 409, "AlreadyExistsException")
    error(client.get("/namespaces/a%1Fb"), 404, "NoSuchNamespaceException")
    error(client.get("/namespaces/nothing"), 404, "NoSuchNamespaceException")
    error(client.delete("/namespaces/shop"), 409, "NamespaceNotEmptyException")
    error(client.post("/namespaces", json={"namespace": "shop"}), 400, "BadRequestException")
    error(client.post("/namespaces", content=b"{"), 400, "BadRequestException")
    error(client.post("/namespaces", json=[]), 400, "BadRequestException")
    both = {"updates": {"a": "1"}, "removals": ["a"]}
    error(client.post("/namespaces/shop/properties", json=both), 422, "UnprocessableEntityException")
    error(client.get("/namespaces/nothing/tables"), 404, "NoSuchNamespaceException")
    error(client.get("/namespaces/shop/tables/none"), 404, "NoSuchTableException")
    error(client.get("/nowhere"), 404, "UnsupportedOperationException")
    error(client.get("/namespaces", params={"pageToken": "", "pageSize": "x"}), 400, "BadRequestException")


def test_an_oversize_body_is_refused(client: Client) -> None:
    error(client.post("/namespaces", content=b" " * (65 << 20)), 413, "BadRequestException")


def test_pages_list_every_table_once(client: Client, lake: Lake) -> None:
    for number in range(5):
        lake.create_table(f"shop.t{number}", COLUMNS)
    seen, token = [], ""
    for _ in range(3):
        page = client.get("/namespaces/shop/tables", params={"pageToken": token, "pageSize": 2}).json()
        seen += [one["name"] for one in page["identifiers"]]
        token = page["next-page-token"]
    assert (seen, token) == (["t0", "t1", "t2", "t3", "t4"], None)
    error(client.get("/namespaces/shop/tables", params={"pageToken": "ÿ"}), 400, "BadRequestException")


def test_an_etag_shows_whether_a_table_changed(client: Client, orders: Table) -> None:
    orders.append(rows(0, 3))
    where = "/namespaces/shop/tables/orders"
    assert client.head(where).status_code == 204
    whole = client.get(where)
    orders.append(rows(3, 3))
    newer = client.get(where)
    assert newer.headers["ETag"] != whole.headers["ETag"]
    refs = client.get(where, params={"snapshots": "refs"})
    assert refs.headers["ETag"] != newer.headers["ETag"]
    assert len(newer.json()["metadata"]["snapshots"]) == 2
    assert len(refs.json()["metadata"]["snapshots"]) == 1
    assert client.get(where, headers={"If-None-Match": newer.headers["ETag"]}).status_code == 304
    assert client.get(where, headers={"If-None-Match": whole.headers["ETag"]}).status_code == 200
    assert client.get(where, headers={"If-None-Match": refs.headers["ETag"]}).status_code == 200


def test_a_table_is_renamed_dropped_and_resurrected_unless_it_was_purged(
    client: Client, lake: Lake, orders: Table
) -> None:
    orders.append(rows(0, 3))
    lake.create_database("web")
    names = {"source": {"namespace": ["shop"], "name": "orders"}, "destination": {"namespace": ["web"], "name": "sold"}}
    assert client.post("/tables/rename", json=names).status_code == 204
    error(client.post("/tables/rename", json=names), 404, "NoSuchTableException")
    lake.create_table("shop.orders", COLUMNS)
    error(client.post("/tables/rename", json=names), 409, "AlreadyExistsException")
    assert client.delete("/namespaces/web/tables/sold").status_code == 204
    error(client.delete("/namespaces/web/tables/sold"), 404, "NoSuchTableException")
    assert lake.resurrect_table("web.sold").scan().to_arrow().num_rows == 3
    assert client.delete("/namespaces/web/tables/sold", params={"purgeRequested": "true"}).status_code == 204
    with pytest.raises(MoulinError):
        lake.resurrect_table("web.sold")


def test_a_keyed_table_is_loaded_with_what_was_put(lake: Lake, address: str) -> None:
    keyed = lake.create_table("shop.stock", [("sku", "long", False), ("n", "int")], primary_key=["sku"])
    keyed.put({"sku": 1, "n": 5})
    found = pyiceberg_catalog(address).load_table("shop.stock").scan().to_arrow()
    assert found.select(["sku", "n"]).to_pylist() == [{"sku": 1, "n": 5}]


def test_pyiceberg_and_duckdb_read_what_scan_reads(lake: Lake, orders: Table, address: str) -> None:
    orders.append(rows(0, 50) + rows(50, 50, None))
    orders.delete_where("id < 60 AND amount > 8")
    expected = sorted(orders.scan().to_arrow()["id"].to_pylist())
    catalog = pyiceberg_catalog(address)
    assert catalog.list_namespaces() == [("shop",)]
    assert catalog.list_tables("shop") == [("shop", "orders")]
    assert catalog.table_exists("shop.orders")
    assert not catalog.table_exists("shop.none")
    assert sorted(catalog.load_table("shop.orders").scan().to_arrow()["id"].to_pylist()) == expected
    duckdb = duckdb_attached(address)
    assert [row[0] for row in duckdb.execute("SELECT id FROM ice.shop.orders ORDER BY id").fetchall()] == expected
    assert duckdb.execute("SELECT count(*) FROM ice.shop.orders WHERE region IS NULL").fetchall() == [(49,)]


def test_reading_and_writing_need_their_roles(lake: Lake, orders: Table, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    reader, writer = access.create("reader", Role.READ), access.create("writer", Role.WRITE)
    with served(lake, access) as address:
        with Client(address) as client:
            error(client.get("/config"), 401, "NotAuthorizedException")
        with Client(address, headers={"Authorization": f"Bearer {reader}"}) as client:
            assert client.get("/namespaces/shop/tables/orders").status_code == 200
            error(client.post("/namespaces", json={"namespace": ["web"]}), 403, "ForbiddenException")
            report = {"report-type": "scan-report"}
            assert client.post("/namespaces/shop/tables/orders/metrics", json=report).status_code == 204
        catalog = pyiceberg_catalog(address, token=writer)
        catalog.create_namespace("web")
        assert catalog.namespace_exists("web")


def deep_structs(levels: int) -> dict[str, object]:
    """A schema whose only column is nested so often."""
    inner: object = "int"
    for number in range(levels, 0, -1):
        field = {"id": number, "name": f"f{number}", "required": False, "type": inner}
        inner = {"type": "struct", "fields": [field]}
    assert isinstance(inner, dict)
    return {"schema-id": 0, **inner}


@pytest.mark.parametrize("levels", [33, 60, 300])
def test_a_schema_that_is_nested_too_deeply_is_a_bad_request(client: Client, orders: Table, levels: int) -> None:
    schema = deep_structs(levels)
    made = client.post("/namespaces/shop/tables", json={"name": "deep", "schema": schema})
    assert "nested deeper than" in error(made, 400, "BadRequestException")
    change = {"requirements": [], "updates": [{"action": "add-schema", "schema": schema}, SET_NEWEST]}
    changed = client.post("/namespaces/shop/tables/orders", json=change)
    assert "nested deeper than" in error(changed, 400, "BadRequestException")


SET_NEWEST = {"action": "set-current-schema", "schema-id": -1}


def test_the_deepest_schema_that_a_table_may_have_is_taken(client: Client) -> None:
    made = client.post("/namespaces/shop/tables", json={"name": "deep", "schema": deep_structs(32)})
    assert made.status_code == 200, made.text
    assert client.get("/namespaces/shop/tables/deep").status_code == 200


@pytest.mark.parametrize("path", ["/namespaces", "/namespaces/shop/tables", "/transactions/commit", "/tables/rename"])
@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("levels", [129, 100_000])
def test_a_body_that_is_nested_too_deeply_is_a_bad_request(
    client: Client, path: str, opened: str, closed: str, levels: int
) -> None:
    body = '{"properties":' + opened * levels + "1" + closed * levels + "}"
    assert "nested deeper than" in error(client.post(path, content=body), 400, "BadRequestException")


def test_a_table_that_cannot_be_flushed_stops_no_other(
    lake: Lake, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Loads, plans and commits of a table flush that table alone; `flush()` flushes all the others, and then raises."""
    keyed = [("id", "long", False), ("v", "string")]
    broken, whole, plain = (
        lake.create_table("shop.broken", keyed, primary_key=["id"]),
        lake.create_table("shop.whole", keyed, primary_key=["id"]),
        lake.create_table("shop.plain", [("id", "long")]),
    )
    for table in (broken, whole):
        table.put({"id": 1, "v": "a"})
    plain.append([{"id": 1}])
    flush_own = KeyedTable.flush_own

    def failing(self: KeyedTable) -> int:
        if self.id == broken.id:
            raise RuntimeError("broken")
        return flush_own(self)

    with pytest.MonkeyPatch.context() as patch:  # no fault of a table that can be caused is only this one's
        patch.setattr(KeyedTable, "flush_own", failing)
        for name in ("whole", "plain"):
            loaded = client.get(f"namespaces/shop/tables/{name}").json()
            assert loaded["metadata"]["snapshots"][-1]["summary"]["total-records"] == "1"
            planned = client.post(f"namespaces/shop/tables/{name}/plan", json={})
            assert len(planned.json()["file-scan-tasks"]) == 1
            update = {"action": "set-properties", "updates": {"a": "b"}}
            changed = client.post(f"namespaces/shop/tables/{name}", json={"requirements": [], "updates": [update]})
            assert changed.status_code == 200, changed.text
        assert client.get("namespaces/shop/tables/broken").status_code == 500
        whole.put({"id": 2, "v": "b"})
        with pytest.raises(RuntimeError, match="broken"):
            lake.flush()
        assert whole.at(lake.catalog.version()).scan().to_arrow().num_rows == 2
        assert str(broken.id) in {getattr(record, "table", "") for record in caplog.records}
    assert client.get("namespaces/shop/tables/broken").status_code == 200
    broken.put({"id": 2, "v": "b"})
    lake.drop_table("shop.broken")
    lake.flush()


def test_uuids_inside_columns_are_loaded_and_read(lake: Lake, address: str) -> None:
    columns = [("id", "long", False), ("v", "struct<u: uuid, l: list<uuid>>")]
    table = lake.create_table("shop.keyed", columns, primary_key=["id"])
    table.put({"id": 1, "v": {"u": UUID(int=1), "l": [UUID(int=2), None]}})
    assert table.compact(everything=True) is not None
    (found,) = pyiceberg_catalog(address).load_table("shop.keyed").scan().to_arrow().to_pylist()
    assert found == {"id": 1, "v": {"u": UUID(int=1), "l": [UUID(int=2), None]}}
    ((read,),) = duckdb_attached(address).execute("SELECT v.l[1] FROM ice.shop.keyed").fetchall()
    assert read == UUID(int=2)


@pytest.mark.parametrize("key", [None, "6b0f7a86-7c3e-4d7d-9d0c-2f1c9f2f8f10"])
def test_a_request_that_breaks_off_does_nothing_and_leaves_no_trace(
    client: Client, address: str, lake: Lake, caplog: pytest.LogCaptureFixture, key: str | None
) -> None:
    body = b'{"namespace": ["late"]}'
    headers = {} if key is None else {"Idempotency-Key": key}
    head = f"POST /iceberg/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    port = int(address.split(":")[2].partition("/")[0])
    with caplog.at_level("WARNING"):
        for half in (body[:5], b""):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as broken:
                broken.sendall(head.encode() + b"\r\n" + half)
        time.sleep(0.2)  # what is logged of them is logged by now
        made = client.post("/namespaces", content=body, headers=headers)
    assert made.status_code == 200, made.text
    assert caplog.records == []
    assert [database.name for database in lake.databases()] == ["late", "shop"]
