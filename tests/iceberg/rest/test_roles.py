"""What a caller tries who may less: every endpoint with every kind of token, and addresses that mislead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from tests.iceberg.rest.served import Client, error, served
from tests.iceberg.rest.test_openapi import fill

NAMES = {"prefix": "@exp", "namespace": "other", "table": "orders", "view": "both", "plan-id": "x"}
READING = ("/metrics", "/plan", "/tasks")
OPEN = "/v1/oauth/tokens"


@pytest.fixture
def access(tmp_path: Path) -> AccessFile:
    return AccessFile(tmp_path / "access.toml")


@pytest.fixture
def address(lake: Lake, access: AccessFile) -> Iterator[str]:
    lake.drop_database("shop")
    fill(lake)
    access.create("someone", Role.ADMIN)
    with served(lake, access) as address:
        yield address


def endpoints(address: str, token: str) -> list[tuple[str, str]]:
    """Method and address of every endpoint of the published document."""
    document = httpx.get(f"{address}/v1/openapi.json", headers=bearer(token)).json()
    found = []
    for path, operations in document["paths"].items():
        where = re.sub(r"\{([\w-]+)\}", lambda name: NAMES[name[1]], path)
        found += [(method.upper(), where) for method in operations if method != "parameters" and where != OPEN]
    assert len(found) > 40
    return found


@pytest.fixture(scope="module")
def plain() -> Iterator[httpx.Client]:
    """One for all requests: to make one takes longer than what it is asked for."""
    with httpx.Client(timeout=60) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def is_reading(method: str, where: str) -> bool:
    return method in ("GET", "HEAD") or where.endswith(READING) or (method == "DELETE" and "/plan/" in where)


def ticket(address: str, name: str, secret: str) -> str:
    form = {"grant_type": "client_credentials", "client_id": name, "client_secret": secret}
    return str(httpx.post(f"{address}{OPEN}", data=form).json()["access_token"])


def state(lake: Lake) -> Any:
    return lake.version, [table.name for table in lake.tables("other")], [one.name for one in lake.branches()]


def test_a_reader_changes_nothing_through_any_endpoint(
    lake: Lake, address: str, access: AccessFile, plain: httpx.Client
) -> None:
    secret = access.create("reader", Role.READ)
    writer = access.create("writer", Role.WRITE)
    body = {"dry-run": False, "updates": [], "requirements": [], "name": "x", "namespace": ["x"], "table-changes": []}
    for method, where in endpoints(address, secret):  # projects what it loads
        if method == "GET":
            plain.get(f"{address}{where}", headers=bearer(secret))
    before = state(lake)
    less = httpx.post(
        f"{address}{OPEN}",
        data={"grant_type": "client_credentials", "client_secret": writer, "scope": "read"},
    ).json()["access_token"]
    for token in (secret, ticket(address, "reader", secret), less):
        for method, where in endpoints(address, token):
            content = {"json": body} if method == "POST" else {}
            answer = plain.request(method, f"{address}{where}", headers=bearer(token), **content)
            if is_reading(method, where):
                assert answer.status_code < 500
                assert answer.status_code not in (401, 403), (method, where)
            else:
                error(answer, 403, "ForbiddenException")
    assert state(lake) == before


def test_without_a_good_token_nothing_is_said(address: str, access: AccessFile, plain: httpx.Client) -> None:
    secret, other = (access.create(name, Role.ADMIN) for name in ("gone", "other"))
    every = endpoints(address, secret)
    old = ticket(address, "gone", secret)
    access.revoke("gone")
    access.create("gone", Role.ADMIN)
    wrong = [{}, bearer(secret), bearer(old), bearer(secret[:-1]), bearer("mlk_"), bearer("a.b.c"), {"Cookie": other}]
    for method, where in every:
        for headers in wrong:
            answer = plain.request(method, f"{address}{where}?token={other}&access_token={other}", headers=headers)
            assert answer.status_code == 401, (method, where, headers)
            assert method == "HEAD" or set(answer.json()) == {"error"}


@pytest.mark.parametrize(
    "where",
    [
        "//v1/oauth/tokens",
        "/v1//oauth/tokens",
        "/v1/oauth/tokens/",
        "/v1/oauth/tokens/../../namespaces",
        "/v1/oauth%2Ftokens%2F..%2F..%2Fnamespaces",
        "/v1/OAUTH/tokens",
        "/v1/oauth/tokens;x/namespaces",
        "/v1/@exp/oauth/tokens",
        "/v1/namespaces?x=/v1/oauth/tokens",
        "/../iceberg/v1/namespaces",
        "/v1/namespaces/other/tables/plan",
        "/healthz",
    ],
)
def test_no_address_leads_around_the_token(address: str, where: str) -> None:
    """httpx would tidy up some of them, so they are sent as they are."""
    target = httpx.URL(address).copy_with(raw_path=f"/iceberg{where}".encode())
    with httpx.Client() as client:
        for method in ("GET", "POST", "DELETE"):
            answer = client.send(httpx.Request(method, target, json={"namespace": ["x"]}))
            assert answer.status_code in (401, 404, 405), (method, where, answer.text)


def test_a_prefix_is_a_branch_and_nothing_else(lake: Lake, address: str, access: AccessFile) -> None:
    secret = access.create("writer", Role.WRITE)
    lake.branch("two").create_table("other.secret", [("id", "long")])
    with Client(address, headers=bearer(secret)) as client:
        error(client.get("/@exp/namespaces/other/tables/secret"), 404, "NoSuchTableException")
        assert client.get("/@two/namespaces/other/tables/secret").status_code == 200
        for prefix in ("@none", "@", "@@exp", "@exp%2F..%2F@two", "@exp@two", "exp", "@..", "@exp%00", "@main/@exp"):
            answer = client.get(f"/{prefix}/namespaces/other/tables/secret")
            assert answer.status_code in (400, 404), (prefix, answer.text)
        plan = client.post("/@two/namespaces/other/tables/secret/plan", json={}).json()
        assert plan["status"] == "completed"
        refused = client.post("/publish", json={})
        assert refused.status_code in (400, 404, 405), "main is no branch"
        for name in ("..%2F..%2Faccess.toml", "orders%2F..%2Forders", "orders%00", "orders\u202e"):
            answer = client.get(f"/namespaces/other/tables/{name}")
            assert answer.status_code in (400, 404), (name, answer.text)
            assert client.delete(f"/namespaces/other/tables/{name}").status_code in (400, 404, 405), name


def test_a_writer_registers_nothing_from_outside(lake: Lake, address: str, access: AccessFile) -> None:
    secret = access.create("writer", Role.WRITE)
    with Client(address, headers=bearer(secret)) as client:
        for place in ("file:///etc/passwd", "/etc/passwd", f"{lake.uri}/access.toml", "http://127.0.0.1:1/x.json"):
            body = {"name": "stolen", "metadata-location": place}
            answer = client.post("/namespaces/other/register", json=body)
            assert answer.status_code in (400, 404), (place, answer.text)
            assert "root:" not in answer.text
