"""What the API changes: versions, tags, properties, drops, tasks, tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from moulin.console.api import changes
from moulin.errors import Unauthenticated
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from tests.console.conftest import Api, Serve, ids


@pytest.fixture
def api(shop: Lake, serve: Serve) -> Api:
    return serve(shop)


def test_a_restore_brings_rows_back_unless_the_table_moved_on(api: Api, shop: Lake) -> None:
    path, table = f"/tables/{ids(api)['shop.orders']}/restore", shop.table("shop.orders")
    before, head = table.tags()["before"], table.state().head_version
    stale = api.post(path, json={"version": str(before), "expected_version": str(head - 1)})
    assert stale.status_code == 409
    assert table.scan().count() == 190
    done = api.post(path, json={"version": str(before), "expected_version": str(head)})
    assert done.status_code == 200, done.text
    assert done.json()["rows_added"] == "10"
    assert table.scan().count() == 200


def test_tags_come_and_go(api: Api, shop: Lake) -> None:
    path, table = f"/tables/{ids(api)['shop.orders']}/tags", shop.table("shop.orders")
    assert api.post(path, json={"name": "n/ew tag", "version": str(table.tags()["before"])}).status_code == 200
    assert table.tags()["n/ew tag"] == table.tags()["before"]
    assert api.delete(path, params={"name": "n/ew tag"}).status_code == 200
    assert list(table.tags()) == ["before"]
    assert api.delete(path, params={"name": "n/ew tag"}).status_code == 404


def test_properties_are_set_and_removed(api: Api, shop: Lake) -> None:
    path = f"/tables/{ids(api)['shop.orders']}"
    assert api.patch(path, json={"properties": {"owner": "ann"}}).status_code == 200
    assert api.json(path)["properties"] == {"owner": "ann"}
    assert api.patch(path, json={"remove": ["owner"]}).status_code == 200
    assert api.json(path)["properties"] == {}
    assert api.patch(path, json={"properties": {"write.nonsense-level": "x"}, "other": 1}).status_code == 400


def test_indexes_are_made_and_dropped(api: Api, shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ids(api)["shop.orders"]
    made = api.post(f"/tables/{table}/indexes", json={"column": "customer", "kind": "bloom"}).json()
    assert made["name"] == "customer_bloom"
    assert {one["name"] for one in api.json(f"/tables/{table}/indexes")["items"]} == {"customer_bloom", "id_btree"}
    assert api.post(f"/tables/{table}/indexes", json={"column": "nosuch"}).status_code == 400
    assert api.post(f"/tables/{table}/indexes", json={"column": "id", "kind": "magic"}).status_code == 400
    assert api.delete(f"/tables/{table}/indexes", params={"name": "customer_bloom"}).status_code == 200
    assert api.delete(f"/tables/{table}/indexes", params={"name": "customer_bloom"}).status_code == 404
    assert [one.name for one in shop.table("shop.orders").indexes()] == ["id_btree"]
    monkeypatch.setattr(changes, "MOST_ROWS_INDEXED", 100)
    refused = api.post(f"/tables/{table}/indexes", json={"column": "customer"})
    assert refused.status_code == 412
    assert "190 rows" in refused.json()["error"]["message"]


def test_a_dropped_table_lies_in_the_trash_and_comes_back(api: Api, shop: Lake) -> None:
    table_id = ids(api)["shop.orders"]
    dropped = api.delete(f"/tables/{table_id}")
    assert dropped.status_code == 200
    assert "shop.orders" not in ids(api)
    (found,) = [one for one in api.json("/trash")["items"] if one["id"] == table_id]
    assert (found["kind"], found["name"], found["database"]) == ("table", "orders", "shop")
    assert found["delete_at"] == dropped.json()["delete_at"]
    assert api.get(f"/tables/{table_id}").status_code == 404
    assert api.post(f"/trash/{table_id}/resurrect").status_code == 200
    assert shop.table("shop.orders").scan().count() == 190
    assert api.post(f"/trash/{table_id}/resurrect").status_code == 404


def test_planned_compactions_are_tasks_which_can_be_released_and_deleted(api: Api, shop: Lake) -> None:
    planned = api.post(f"/tables/{ids(api)['shop.orders']}/merges").json()
    assert planned["tasks"] >= 1
    tasks = api.json("/tasks")["items"]
    assert len(tasks) == planned["tasks"]
    assert {(one["table"], one["state"]) for one in tasks} == {("shop.orders", "waiting")}
    claimed = shop.own_catalog().maintenance.claim_merge_task("worker-1", seconds=600)
    assert claimed is not None
    (held,) = [one for one in api.json("/tasks")["items"] if one["state"] == "claimed"]
    assert (held["worker"], held["attempt"]) == ("worker-1", 1)
    assert 0 < held["free_in_seconds"] <= 600
    assert api.post(f"/tasks/{held['id']}/release").json() == {"released": True}
    for one in tasks:
        assert api.delete(f"/tasks/{one['id']}").status_code == 204
    assert api.json("/tasks")["items"] == []
    assert api.delete(f"/tasks/{held['id']}").status_code == 404


def test_tokens_are_made_listed_and_taken_back(shop: Lake, serve: Serve, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    admin = serve(shop, access, access.create("root", Role.ADMIN))
    made = admin.post("/access/tokens", json={"name": "ci", "role": "write", "days": 1}).json()
    assert access.authenticate(made["secret"]).role is Role.WRITE
    listed = admin.json("/access/tokens")["items"]
    assert [(one["name"], one["role"], one["expires_at"] is None) for one in listed] == [
        ("ci", "write", False),
        ("root", "admin", True),
    ]
    assert made["secret"] not in admin.get("/access/tokens").text
    assert admin.post("/access/tokens", json={"name": "ci"}).status_code == 409
    assert admin.post("/access/tokens", json={"name": "x", "role": "god"}).status_code == 400
    assert admin.delete("/access/tokens", params={"name": "ci"}).status_code == 204
    assert [token.name for token in access.tokens()] == ["root"]


def test_a_token_gets_another_secret_and_keeps_its_role(shop: Lake, serve: Serve, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    admin = serve(shop, access, access.create("root", Role.ADMIN))
    old = access.create("ci", Role.WRITE, 1)
    (end,) = [one.expires for one in access.tokens() if one.name == "ci"]
    made = admin.post("/access/tokens/rotate", json={"name": "ci"}).json()
    assert (made["name"], made["role"]) == ("ci", "write")
    assert access.authenticate(made["secret"]).role is Role.WRITE
    with pytest.raises(Unauthenticated):
        access.authenticate(old)
    assert [one.expires for one in access.tokens() if one.name == "ci"] == [end]
    newest = admin.post("/access/tokens/rotate", json={"name": "ci", "days": 9}).json()["secret"]
    assert [one.expires for one in access.tokens() if one.name == "ci"] > [end]
    assert admin.post("/access/tokens/rotate", json={"name": "nobody"}).status_code == 404
    assert admin.post("/access/tokens/rotate", json={"name": "ci", "days": 0}).status_code == 400
    for secret, status in ((made["secret"], 401), (newest, 403)):
        sent = {"authorization": f"Bearer {secret}"}
        assert admin.post("/access/tokens/rotate", json={"name": "ci"}, headers=sent).status_code == status


def test_tokens_of_senders_are_listed_rotated_and_dropped(shop: Lake, serve: Serve) -> None:
    token = set_up(shop).token
    assert token is not None
    api, ingest = serve(shop), shop.own_catalog().ingest
    (listed,) = api.json("/ingest/tokens")["items"]
    assert (listed["database"], listed["name"], listed["logs"]) == ("otel", "default", "otel.logs")
    assert token.endswith(listed["hint"])
    made = api.post(f"/ingest/tokens/{listed['id']}/rotate", json={"overlap_seconds": 60}).json()
    assert str(ingest.validate_token(made["secret"]).id) == listed["id"]
    assert str(ingest.validate_token(token).id) == listed["id"], "it counts for a minute more"
    assert made["secret"] not in api.get("/ingest/tokens").text
    assert api.delete(f"/ingest/tokens/{listed['id']}").status_code == 204
    assert api.json("/ingest/tokens")["items"] == []
    assert api.delete(f"/ingest/tokens/{listed['id']}").status_code == 404
    assert [one["kind"] for one in api.json("/trash")["items"] if one["name"] == "default"] == ["ingest_token"]


def test_a_server_without_tokens_says_so(api: Api) -> None:
    assert api.json("/me") == {"name": "", "role": "admin", "tokens": False}
    answer = api.get("/access/tokens")
    assert answer.status_code == 412
    assert "auth" in answer.json()["error"]["message"]
