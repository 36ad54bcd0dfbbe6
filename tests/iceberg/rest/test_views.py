"""Views of the lake through the REST catalog."""

from __future__ import annotations

from pyiceberg.view.metadata import ViewMetadata

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
        error(client.post(where, json={"name": "v"}), 400, "BadRequestException")
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
