"""Statements read an object store with what the server's environment says of it, which a child does not get."""

from __future__ import annotations

from pathlib import Path

import pytest

import moulin
from moulin.cli.served import Sql
from moulin.storage.variables import with_variables
from tests.console.conftest import Serve
from tests.console.statements import rows


@pytest.mark.s3
def test_statements_read_a_store_whose_keys_are_in_the_environment(
    tmp_path: Path, s3_url: str, s3_options: dict[str, str], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As compose and the chart give them."""
    for name in ("access_key_id", "secret_access_key", "region"):
        monkeypatch.setenv(f"AWS_{name.upper()}", s3_options[name])
    options = {"endpoint": s3_options["endpoint"]}
    with moulin.connect(tmp_path / "lake", storage=s3_url, storage_options=options) as lake:
        lake.create_database("shop")
        orders = lake.create_table("shop.orders", [("id", "long")])
        orders.append([{"id": number} for number in range(10)])
        orders.delete_where("id < 4")
        api = serve(lake, sql=Sql(storage_options=options))
        assert rows(api, "select count(*), min(id) from shop.orders") == [["6", "4"]]


def test_options_that_were_given_go_before_the_environment() -> None:
    environ = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a", "AWS_PROFILE": "x", "AZURE_CLIENT_ID": "b"}
    assert with_variables("s3://bucket", {"aws_region": "eu-west-1"}, environ) == {
        "access_key_id": "a",
        "aws_region": "eu-west-1",
    }
    assert with_variables("az://container", {}, environ) == {"azure_client_id": "b"}
    assert with_variables("file:///lake", {}, environ) == {}
