"""OAuth2 at /iceberg/v1/oauth/tokens, and tokens of an external issuer, as engines use them."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.authority import Authority
from moulin.meta.issuer import Issuer, IssuerSettings
from moulin.meta.roles import Role
from tests.iceberg.rest.served import Client, duckdb_connection, error, pyiceberg_catalog, served
from tests.meta.identity_provider import identity_provider

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


@pytest.fixture
def access(tmp_path: Path) -> AccessFile:
    return AccessFile(tmp_path / "access.toml")


@pytest.fixture
def secret(access: AccessFile) -> str:
    return access.create("ci", Role.WRITE)


@pytest.fixture
def address(lake: Lake, access: AccessFile, secret: str) -> Iterator[str]:
    with served(lake, access) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def ask(client: Client, *, auth: tuple[str, str] | None = None, **form: str) -> httpx.Response:
    return client.post("/oauth/tokens", data=form, auth=auth)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_name_and_secret_become_a_token_that_opens_the_catalog(client: Client, secret: str) -> None:
    form = {"grant_type": "client_credentials", "client_id": "ci", "client_secret": secret, "scope": "catalog"}
    answer = ask(client, **form)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    found = answer.json()
    assert (found["token_type"], found["issued_token_type"], found["scope"]) == ("bearer", ACCESS_TOKEN, "catalog")
    assert found["expires_in"] == 3600
    assert client.post("/namespaces", json={"namespace": ["a"]}, headers=bearer(found["access_token"])).is_success
    by_header = ask(client, auth=("ci", secret), grant_type="client_credentials", scope="read").json()["access_token"]
    assert client.get("/namespaces", headers=bearer(by_header)).is_success
    refused = client.post("/namespaces", json={"namespace": ["b"]}, headers=bearer(by_header))
    error(refused, 403, "ForbiddenException")


def test_a_token_is_exchanged_for_a_younger_one(client: Client, access: AccessFile, secret: str) -> None:
    first = ask(client, auth=("ci", secret), grant_type="client_credentials").json()["access_token"]
    form = {"grant_type": EXCHANGE, "subject_token": first, "subject_token_type": ACCESS_TOKEN}
    second = client.post("/oauth/tokens", data=form, headers=bearer(first)).json()["access_token"]
    assert client.get("/namespaces", headers=bearer(second)).is_success
    expired = ask(client, auth=("ci", secret), **(form | {"subject_token": "mlk_expired.x"}))
    assert expired.is_success, "a client that proves who it is may have let its token expire"
    access.revoke("ci")
    for token in (first, second):
        error(client.get("/namespaces", headers=bearer(token)), 401, "NotAuthorizedException")
        refused = ask(client, **(form | {"subject_token": token}))
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


@pytest.mark.parametrize(
    ("form", "status", "kind"),
    [
        ({}, 400, "invalid_request"),
        ({"grant_type": "password", "username": "a"}, 400, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "client_id": "ci"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "client_id": "ci", "client_secret": "x"}, 401, "invalid_client"),
        ({"grant_type": "client_credentials", "client_id": "else", "client_secret": "SECRET"}, 401, "invalid_client"),
        ({"grant_type": EXCHANGE}, 400, "invalid_request"),
        ({"grant_type": EXCHANGE, "subject_token": "x", "subject_token_type": "saml"}, 400, "invalid_request"),
        ({"grant_type": EXCHANGE, "subject_token": "x", "subject_token_type": ACCESS_TOKEN}, 401, "invalid_client"),
        ({"grant_type": EXCHANGE, "subject_token": "x", "actor_token": "y"}, 400, "invalid_request"),
    ],
)
def test_what_is_no_right_request_is_refused(
    client: Client, secret: str, form: dict[str, str], status: int, kind: str
) -> None:
    answer = ask(client, **{name: value.replace("SECRET", secret) for name, value in form.items()})
    assert (answer.status_code, answer.json()["error"]) == (status, kind)
    assert answer.json()["error_description"]
    assert secret not in answer.text


def test_forms_that_are_none_are_refused(client: Client, secret: str) -> None:
    good = f"grant_type=client_credentials&client_id=ci&client_secret={secret}"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/oauth/tokens", content=good, headers=form).is_success
    for content, headers in (
        (good, {"Content-Type": "application/json"}),
        (good, {}),
        (good + "&client_id=ci", form),
        (good.encode() + b"&x=\xff", form),
        (good + "&a=" + "x" * 70_000, form),
        ("&".join(f"a{n}=b" for n in range(100)), form),
        (good, form | {"Authorization": "Basic " + base64.b64encode(f"ci:{secret}".encode()).decode()}),
        (good, form | {"Authorization": "Basic !"}),
    ):
        assert client.post("/oauth/tokens", content=content, headers=headers).status_code in (400, 401)
    in_address = client.post(f"/oauth/tokens?{good}", content=good, headers=form)
    assert (in_address.status_code, in_address.json()["error"]) == (400, "invalid_request")
    assert client.get("/oauth/tokens", headers=bearer(secret)).status_code in (404, 405)


def test_a_token_in_an_address_opens_nothing(client: Client, secret: str) -> None:
    for name in ("token", "access_token", "authorization", "Authorization"):
        error(client.get(f"/namespaces?{name}={secret}"), 401, "NotAuthorizedException")
    for kind in ("Basic", "Token", ""):
        refused = client.get("/namespaces", headers={"Authorization": f"{kind} {secret}".strip()})
        error(refused, 401, "NotAuthorizedException")


def test_secrets_are_in_no_log(client: Client, secret: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        token = ask(client, auth=("ci", secret), grant_type="client_credentials").json()["access_token"]
        client.get(f"/namespaces?token={secret}", headers=bearer(token + "x"))
        ask(client, grant_type="client_credentials", client_id="ci", client_secret=secret + "x")
    others = ("http", "uvicorn.access")  # the client's, and one that is off unless pytest gives it a handler
    logged = [f"{one.getMessage()} {vars(one)}" for one in caplog.records if not one.name.startswith(others)]
    assert not [line for line in logged if secret in line or token in line]


def test_a_server_that_asks_for_no_tokens_makes_none(lake: Lake) -> None:
    with served(lake) as address, Client(address) as client:
        assert ask(client, grant_type="client_credentials", client_secret="x").status_code == 404


def test_pyiceberg_signs_in_with_a_credential(lake: Lake, address: str, secret: str) -> None:
    where = {"oauth2-server-uri": f"{address}/v1/oauth/tokens"}
    catalog = pyiceberg_catalog(address, credential=f"ci:{secret}", scope="catalog", **where)
    table = catalog.create_table("shop.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    assert lake.table("shop.t").scan().to_arrow().num_rows == 2


def test_duckdb_signs_in_with_a_secret(lake: Lake, address: str, secret: str) -> None:
    lake.create_table("shop.t", [("id", "long")]).append([{"id": 7}])
    connection = duckdb_connection()
    connection.execute(
        f"CREATE SECRET s (TYPE iceberg, CLIENT_ID 'ci', CLIENT_SECRET '{secret}', "
        f"OAUTH2_SERVER_URI '{address}/v1/oauth/tokens')"
    )
    connection.execute(f"ATTACH 'lake' AS ice (TYPE iceberg, ENDPOINT '{address}', SECRET s)")
    assert connection.sql("SELECT id FROM ice.shop.t").fetchall() == [(7,)]
    connection.close()


def test_tokens_of_an_issuer_open_the_catalog_by_their_claims(lake: Lake, access: AccessFile) -> None:
    with identity_provider() as provider:
        settings = IssuerSettings.of(provider.issuer, "moulin", "roles", "writers=write, readers=read")
        authority = Authority(access, Issuer(settings))
        own = access.create("own", Role.WRITE)
        with served(lake, authority) as address, Client(address) as client:
            provider.answers["/keys"] = 500, b""
            down = client.get("/namespaces", headers=bearer(provider.token()))
            error(down, 503, "ServiceUnavailableException")
            assert client.get("/namespaces", headers=bearer(own)).is_success, "our own tokens need no issuer"
            assert client.get("/namespaces", headers=bearer(provider.token())).status_code == 503
        with served(lake, Authority(access, Issuer(settings))) as address, Client(address) as client:
            del provider.answers["/keys"]
            assert client.get("/namespaces", headers=bearer(provider.token())).is_success
            made: dict[str, Any] = {"json": {"namespace": ["made"]}}
            refused = client.post("/namespaces", headers=bearer(provider.token()), **made)
            error(refused, 403, "ForbiddenException")
            writer = provider.token(roles=["writers"])
            assert client.post("/namespaces", headers=bearer(writer), **made).is_success
            strange = client.get("/namespaces", headers=bearer(provider.token(aud="others")))
            error(strange, 401, "NotAuthorizedException")
            nothing = client.get("/namespaces", headers=bearer(provider.token(roles=[])))
            error(nothing, 403, "ForbiddenException")
            catalog = pyiceberg_catalog(address, token=writer)
            assert ("made",) in catalog.list_namespaces()
