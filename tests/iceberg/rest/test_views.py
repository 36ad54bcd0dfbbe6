"""Views of the lake through the REST catalog."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchViewError, ViewAlreadyExistsError
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import LongType as IcebergLong
from pyiceberg.types import NestedField as IcebergField
from pyiceberg.view.metadata import SQLViewRepresentation, ViewMetadata
from pyiceberg.view.metadata import ViewVersion as IcebergVersion

from moulin.errors import NotFound
from moulin.lake import Lake
from tests.contract.samples import view_query
from tests.iceberg.conftest import COLUMNS
from tests.iceberg.rest.served import Client, error, pyiceberg_catalog, served


def test_a_view_is_shown_as_sql_of_its_members(lake: Lake) -> None:
    lake.create_table("shop.a", COLUMNS)
    lake.create_table("shop.b", COLUMNS)
    lake.create_view("shop.both", ["a", "b"], description="all of it")
    with served(lake) as address, Client(address) as client:
        where = "/namespaces/shop/views"
        assert client.get(where).json()["identifiers"] == [{"namespace": ["shop"], "name": "both"}]
        metadata = client.get(f"{where}/both").json()["metadata"]
        (version,) = metadata["versions"]
        sql = {one["dialect"]: one["sql"] for one in version["representations"]}
        columns = "`id`, `ts`, `region`, `amount`"
        assert sql["spark"] == f"SELECT {columns} FROM `a` UNION ALL SELECT {columns} FROM `b`"
        assert metadata["current-version-id"] == version["version-id"]
        lake.set_view_tables("shop.both", ["b"])
        assert client.get(f"{where}/both").json()["metadata"]["current-version-id"] != version["version-id"]
        assert pyiceberg_catalog(address).list_views("shop") == [("shop", "both")]
        assert client.head(f"{where}/both").status_code == 204
        names = {"source": {"namespace": ["shop"], "name": "both"}, "destination": {"namespace": ["shop"], "name": "a"}}
        error(client.post("/views/rename", json=names), 409, "AlreadyExistsException")
        names["destination"]["name"] = "all"
        assert client.post("/views/rename", json=names).status_code == 204
        error(client.get(f"{where}/both"), 404, "NoSuchViewException")
        error(client.delete("/namespaces/shop/tables/b"), 400, "BadRequestException")
        assert client.delete(f"{where}/all").status_code == 204
        assert client.delete("/namespaces/shop/tables/b").status_code == 204
        assert lake.resurrect_table("shop.b").name == "shop.b"
        assert lake.resurrect_view("shop.all").members[0].name == "b"


def test_a_query_is_shown_with_its_own_texts_and_columns(lake: Lake) -> None:
    lake.create_table("shop.a", COLUMNS)
    text = "select count(*) as n from shop.a"
    lake.catalog.create_view("shop", "v", [], "all", query=view_query(text, owner="sales"))
    with served(lake) as address, Client(address) as client:
        where = "/namespaces/shop/views"
        assert client.get(where).json()["identifiers"] == [{"namespace": ["shop"], "name": "v"}]
        metadata = client.get(f"{where}/v").json()["metadata"]
        (version,) = metadata["versions"]
        assert version["representations"] == [{"type": "sql", "dialect": "spark", "sql": text}]
        assert (metadata["current-version-id"], metadata["properties"]) == (1, {"owner": "sales", "comment": "all"})
        assert ViewMetadata.model_validate(metadata).schemas[0].find_field("n").doc == "a number"
        lake.set_view_properties("shop.v", {"owner": "shop"})
        assert client.get(f"{where}/v").json()["metadata"]["current-version-id"] == 2
        assert client.delete(f"{where}/v").status_code == 204


WHERE = "/namespaces/shop/views"


def request(name: str, *texts: tuple[str, str], **more: Any) -> dict[str, Any]:
    schema = {"type": "struct", "schema-id": 7, "fields": [{"id": 3, "name": "n", "type": "long", "required": False}]}
    return {"name": name, "schema": schema, "view-version": version(*texts), "properties": {}, **more}


def version(*texts: tuple[str, str], number: int = 1, schema_id: int = 0, **more: Any) -> dict[str, Any]:
    shown = [{"type": "sql", "dialect": dialect, "sql": sql} for dialect, sql in texts]
    fixed = {"version-id": number, "timestamp-ms": 1000 + number, "schema-id": schema_id, "summary": {"by": "test"}}
    return {**fixed, "default-namespace": ["shop"], "representations": shown, **more}


def add(*texts: tuple[str, str], number: int = 1) -> list[dict[str, Any]]:
    """The updates that make a version the current one."""
    added = {"action": "add-view-version", "view-version": version(*texts, number=number)}
    return [added, {"action": "set-current-view-version", "view-version-id": -1}]


def test_an_engine_makes_changes_and_moves_a_view(lake: Lake) -> None:
    lake.create_table("shop.t", COLUMNS)
    lake.create_database("other")
    with served(lake) as address, Client(address) as client:
        made = client.post(WHERE, json=request("v", ("spark", "select 1L as n"), location="s3://b/v")).json()[
            "metadata"
        ]
        assert (made["location"], made["current-version-id"], made["schemas"][0]["schema-id"]) == ("s3://b/v", 1, 0)
        assert made["versions"][0]["default-namespace"] == ["shop"]
        holds = [{"type": "assert-view-uuid", "uuid": made["view-uuid"]}]
        changed = client.post(f"{WHERE}/v", json={"requirements": holds,
            "updates": [*add(("spark", "select 2L as n"), ("trino", "select 2 as n")),
                {"action": "set-properties", "updates": {"comment": "two", "a": "b"}}]}).json()["metadata"]  # fmt: skip
        assert (changed["current-version-id"], changed["properties"]) == (2, {"comment": "two", "a": "b"})
        assert [one["version-id"] for one in changed["version-log"]] == [1, 2]
        view = lake.view("shop.v")
        assert (view.description, str(view.id)) == ("two", made["view-uuid"])
        assert view.query is not None
        assert view.query.sql("trino") == "select 2 as n"
        back = {"updates": [{"action": "set-current-view-version", "view-version-id": 1}]}
        lost = error(client.post(f"{WHERE}/v", json=back), 400, "BadRequestException")
        assert "loss of view dialects" in lost
        back["updates"].append({"action": "set-properties", "updates": {"replace.drop-dialect.allowed": "true"}})
        assert client.post(f"{WHERE}/v", json=back).json()["metadata"]["current-version-id"] == 1
        names = {"source": {"namespace": ["shop"], "name": "v"}, "destination": {"namespace": ["other"], "name": "w"}}
        assert client.post("/views/rename", json=names).status_code == 204
        moved = client.get("/namespaces/other/views/w").json()
        assert (moved["metadata"]["view-uuid"], len(moved["metadata"]["versions"])) == (made["view-uuid"], 2)
        assert client.delete("/namespaces/other/views/w").status_code == 204
        registered = {"name": "v", "metadata-location": moved["metadata-location"]}
        again = client.post("/namespaces/shop/register-view", json=registered).json()["metadata"]
        assert again == moved["metadata"]
        error(client.post("/namespaces/shop/register-view", json=registered), 409, "AlreadyExistsException")


def test_versions_that_the_view_keeps_no_longer_go(lake: Lake) -> None:
    with served(lake) as address, Client(address) as client:
        client.post(WHERE, json=request("v", ("spark", "select 1"), properties={"version.history.num-entries": "2"}))
        for number in (2, 3, 4):
            shown = client.post(f"{WHERE}/v", json={"updates": add(("spark", f"select {number}"))}).json()["metadata"]
        assert [one["version-id"] for one in shown["versions"]] == [3, 4]
        assert [one["version-id"] for one in shown["version-log"]] == [3, 4]
        same = client.post(f"{WHERE}/v", json={"updates": add(("spark", "select 3"))}).json()["metadata"]
        assert (same["current-version-id"], len(same["versions"])) == (3, 2), "what is there gets no other number"
        bad = {"updates": [{"action": "set-properties", "updates": {"version.history.num-entries": "0"}}]}
        assert "must be positive" in error(client.post(f"{WHERE}/v", json=bad), 400, "BadRequestException")


def test_names_of_views_and_tables_exclude_each_other(lake: Lake) -> None:
    lake.create_table("shop.t", COLUMNS)
    with served(lake) as address, Client(address) as client:
        client.post(WHERE, json=request("v", ("spark", "select 1")))
        text = ("spark", "select 1")
        assert (
            error(client.post(WHERE, json=request("v", text)), 409, "AlreadyExistsException")
            == "View already exists: shop.v"
        )
        said = error(client.post(WHERE, json=request("t", text)), 409, "AlreadyExistsException")
        assert said == "Table with same name already exists: shop.t"
        schema = request("v", text)["schema"]
        for staged in (False, True):
            body = {"name": "v", "schema": schema, "stage-create": staged}
            said = error(client.post("/namespaces/shop/tables", json=body), 409, "AlreadyExistsException")
            assert said == "View with same name already exists: shop.v"
        names = {"source": {"namespace": ["shop"], "name": "v"}, "destination": {"namespace": ["shop"], "name": "t"}}
        said = error(client.post("/views/rename", json=names), 409, "AlreadyExistsException")
        assert said == "Cannot rename shop.v to shop.t. Table already exists"
        names = {"source": names["destination"], "destination": names["source"]}
        said = error(client.post("/tables/rename", json=names), 409, "AlreadyExistsException")
        assert said == "Cannot rename shop.t to shop.v. View already exists"
        for missing in ("shop/views/none", "gone/views/v"):
            said = error(client.get(f"/namespaces/{missing}"), 404, "NoSuchViewException")
            assert said == f"View does not exist: {missing.replace('/views/', '.')}"
        assert client.post(f"{WHERE}/none", json={"updates": []}).status_code == 404


def test_what_is_no_view_is_refused_and_changes_nothing(lake: Lake) -> None:
    lake.create_table("shop.t", COLUMNS)
    lake.create_view("shop.u", ["t"])
    good = ("spark", "select 1")
    with served(lake) as address, Client(address) as client:
        client.post(WHERE, json=request("v", good))
        before, at = client.get(f"{WHERE}/v").json(), lake.catalog.version()
        twice = error(
            client.post(WHERE, json=request("x", good, ("SPARK", "select 2"))), 400, "IllegalArgumentException"
        )
        assert "Cannot add multiple queries for dialect spark" in twice
        for wrong in (
            request("x"), request("x", ("spark", " ")), request("x", good, schema={"type": "struct", "fields": []}),
            request("x", good, location="x" * 5000), request("x", ("spark", "x" * (1 << 21))), {"name": "x"},
            request("x", good, properties={"version.history.num-entries": "many"}),
            request("x", good, properties={"moulin.x": "y"}), request("", good),
            {**request("x", good), "view-version": {**version(good), "representations": [{"type": "plan"}]}},
            {**request("x", good), "view-version": {**version(good), "timestamp-ms": 2**60}},
            {**request("x", good), "view-version": {**version(good), "default-namespace": [1]}},
        ):  # fmt: skip
            assert client.post(WHERE, json=wrong).status_code == 400, wrong
        for updates in (
            [{"action": "add-spec"}],
            ["x"],
            [{"action": "assign-uuid", "uuid": "x"}],
            [{"action": "upgrade-format-version", "format-version": 2}],
            [{"action": "set-current-view-version", "view-version-id": -1}],
            [{"action": "set-current-view-version", "view-version-id": 5}],
            [{"action": "add-view-version", "view-version": version(good, ("trino", "x"), schema_id=-1)}],
            [{"action": "add-view-version", "view-version": version(good, ("trino", "x"), schema_id=4)}],
            [{"action": "set-properties", "updates": {"a": 1}}],
        ):
            assert client.post(f"{WHERE}/v", json={"updates": updates}).status_code == 400, updates
        needs = {"requirements": [{"type": "assert-view-uuid", "uuid": "x"}], "updates": []}
        error(client.post(f"{WHERE}/v", json=needs), 409, "CommitFailedException")
        needs["requirements"] = [{"type": "assert-table-uuid", "uuid": "x"}]
        error(client.post(f"{WHERE}/v", json=needs), 400, "BadRequestException")
        one = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        assert "union of tables" in error(client.post(f"{WHERE}/u", json=one), 400, "BadRequestException")
        assert (client.get(f"{WHERE}/v").json(), lake.catalog.version()) == (before, at)
        replaced = client.post(f"{WHERE}/u", json={"updates": add(good, ("duckdb", "select 1"))}).json()["metadata"]
        assert replaced["versions"][-1]["representations"][1]["dialect"] == "duckdb"
        assert lake.view("shop.u").query is not None


def test_metadata_in_the_storage_of_the_lake_is_registered_and_nothing_else(lake: Lake) -> None:
    with served(lake) as address, Client(address) as client:
        client.post(WHERE, json=request("v", ("spark", "select 1")))
        metadata = client.get(f"{WHERE}/v").json()["metadata"]
        metadata["view-uuid"] = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
        lake.store.put("elsewhere/v.metadata.json", json.dumps(metadata).encode())
        lake.store.put("elsewhere/secret.json", b'{"secret": 1}')
        where = lake.store.location("elsewhere/v.metadata.json")
        made = client.post("/namespaces/shop/register-view", json={"name": "w", "metadata-location": where}).json()
        assert made["metadata"] == metadata
        for other in (
            lake.store.location("elsewhere/secret.json"),
            "file:///etc/passwd",
            "http://127.0.0.1:1/x",
            where + "x",
        ):
            answer = client.post("/namespaces/shop/register-view", json={"name": "x", "metadata-location": other})
            assert (answer.status_code, 'secret"' in answer.text) == (400, False)


def test_pyiceberg_makes_loads_lists_and_drops_views(lake: Lake) -> None:
    with served(lake) as address:
        catalog: RestCatalog = pyiceberg_catalog(address)
        text = SQLViewRepresentation(type="sql", sql="select 1L as n", dialect="spark")
        shown = IcebergVersion(version_id=1, schema_id=0, timestamp_ms=5, summary={"engine-name": "py"},
            representations=[text], default_namespace=["shop"])  # fmt: skip
        schema = IcebergSchema(IcebergField(1, "n", IcebergLong(), required=False))
        made = catalog.create_view("shop.v", schema, shown, properties={"comment": "one"})
        assert made.name() == ("shop", "v")
        assert catalog.load_view("shop.v").metadata == made.metadata
        assert catalog.list_views("shop") == [("shop", "v")]
        with pytest.raises(ViewAlreadyExistsError):
            catalog.create_view("shop.v", schema, shown)
        assert catalog.view_exists("shop.v")
        catalog.drop_view("shop.v")
        with pytest.raises(NoSuchViewError):
            catalog.drop_view("shop.v")


def test_views_of_a_branch_are_published(lake: Lake) -> None:
    lake.create_database("other")
    with served(lake) as address, Client(address) as client:
        for name in ("v", "moved"):
            client.post(WHERE, json=request(name, ("spark", "select 1")))
        lake.branch("exp")
        changed = client.post(f"/@exp{WHERE}/v", json={"updates": add(("spark", "select 2"))}).json()["metadata"]
        assert changed["current-version-id"] == 2
        client.post(f"/@exp{WHERE}", json=request("new", ("spark", "select 3")))
        names = {
            "source": {"namespace": ["shop"], "name": "moved"},
            "destination": {"namespace": ["other"], "name": "w"},
        }
        assert client.post("/@exp/views/rename", json=names).status_code == 204
        assert client.get(f"{WHERE}/v").json()["metadata"]["current-version-id"] == 1
        assert client.post("/@exp/publish", json={}).status_code == 200
        after = client.get(f"{WHERE}/v").json()["metadata"]
        assert (after["current-version-id"], len(after["versions"])) == (2, 2)
        assert client.head(f"{WHERE}/new").status_code == 204
        assert client.head("/namespaces/other/views/w").status_code == 204
        with pytest.raises(NotFound):
            lake.view("shop.moved")
