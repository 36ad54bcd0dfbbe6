"""The published OpenAPI document, and a client that tries whatever it allows and forbids."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from tests.iceberg.rest.served import Client, error, served
from tests.interop.environment import python_with

ROOT = Path(__file__).parents[3]
LOCK = ROOT / "requirements" / "schemathesis.lock"
NAMES = {
    "namespace": ["shop", "other", "none"],
    "table": ["orders", "users", "none"],
    "view": ["both", "none"],
    "prefix": ["@exp"],
}
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance"
)


def fill(lake: Lake) -> None:
    """Tables, a view and a branch with the names that requests are made with."""
    for database in ("shop", "other"):
        lake.create_database(database)
        orders = lake.create_table(
            f"{database}.orders", [("id", "long"), ("region", "string"), ("x", "double")], partition_by=["region"]
        )
        orders.append([{"id": n, "region": "eu" if n % 2 else None, "x": n / 2} for n in range(10)])
        orders.delete_where("id = 3")
        lake.create_table(f"{database}.users", [("id", "long"), ("name", "string")], primary_key=["id"])
        lake.create_view(f"{database}.both", [f"{database}.orders"])
    lake.branch("exp")


def pinned(document: Any) -> Any:
    """The document with names of things that are there, so that more than a 404 is tried."""
    parameters = [*document["components"]["parameters"].values()]
    for path in document["paths"].values():
        parameters += path["parameters"]
    for one in parameters:
        if one.get("in") == "path" and one["name"] in NAMES:
            one["schema"] = {"type": "string", "enum": NAMES[one["name"]]}
    return document


def test_every_endpoint_is_in_the_document(lake: Lake) -> None:
    with served(lake) as address, Client(address) as client:
        document = client.get("/openapi.json").json()
        for endpoint in client.get("/config").json()["endpoints"]:
            method, path = endpoint.split(" ")
            for where in (path, path.replace("/{prefix}", "")):
                assert method.lower() in document["paths"][where], endpoint
    assert "post" in document["paths"]["/v1/{prefix}/publish"]
    text = json.dumps(document)
    for kind, part in document["components"].items():
        for name in part:
            assert kind == "securitySchemes" or f'"#/components/{kind}/{name}"' in text, f"{name} is of no use"


def test_the_document_takes_a_token(lake: Lake, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    token = access.create("reader", Role.READ)
    with served(lake, access) as address, Client(address) as client:
        error(client.get("/openapi.json"), 401, "NotAuthorizedException")
        assert client.get("/openapi.json", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_an_address_that_is_none_is_answered_as_the_document_says(lake: Lake) -> None:
    with served(lake) as address, Client(address) as client:
        for method in ("GET", "POST", "DELETE"):
            for where in ("/namespaces/shop/tables/a%0Ab", "/namespaces/shop/tables/a/plan/x%0Ay", "/none", "/a/%0A"):
                answer = client.request(method, where)
                assert answer.status_code in (400, 404, 405), (method, where)
                assert set(answer.json()) == {"error"}, (method, where)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_schemathesis_finds_no_server_error_and_no_wrong_answer(lake: Lake, tmp_path: Path) -> None:
    lake.drop_database("shop")
    fill(lake)
    python = python_with(str(LOCK), tmp_path / "venv", "-r")
    schema = tmp_path / "openapi.json"
    with served(lake) as address, Client(address) as client:
        schema.write_text(json.dumps(pinned(client.get("/openapi.json").json())))
        command = [str(python.with_name("schemathesis")), "run", str(schema), "--url", address, "--checks", CHECKS]
        command += ["--max-examples", "25", "--seed", "1", "--phases", "examples,fuzzing", "--no-color"]
        command += ["--suppress-health-check", "all", "--continue-on-failure", "--request-timeout", "60"]
        outside = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        done = subprocess.run(command, cwd=tmp_path, env=outside, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
        assert client.get("/config").status_code == 200
