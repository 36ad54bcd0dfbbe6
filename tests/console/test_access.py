"""Who may do what over the API, and from which pages: roles by route, the session of a browser, streams."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from moulin.console.api import events as streams
from moulin.console.api.requests import OPEN, ROLE
from moulin.console.app import _ROUTERS, api_routes
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from tests.console.conftest import Serve

OWN = {"sec-fetch-site": "same-origin"}
ROUTES = [(method, route) for router in _ROUTERS for route in api_routes(router) for method in sorted(route.methods)]


@pytest.fixture
def access(tmp_path: Path) -> AccessFile:
    return AccessFile(tmp_path / "access.toml")


def test_every_route_names_its_role() -> None:
    for method, route in ROUTES:
        assert (route.openapi_extra or {}).get(ROLE) in {OPEN, "read", "write", "pipeline", "admin"}, route.path
        looks = route.path == "/sql" or route.path.startswith("/sql/")  # statements change nothing, but what is running
        if method != "GET" and route.path != "/session" and not looks:
            assert (route.openapi_extra or {})[ROLE] in {"write", "pipeline", "admin"}, route.path


def test_each_role_gets_through_to_its_own_routes_and_to_no_other(lake: Lake, serve: Serve, access: AccessFile) -> None:
    secrets = {role: access.create(role.name.lower(), role) for role in Role}
    api = serve(lake, access)
    for method, route in ROUTES:
        needed = (route.openapi_extra or {})[ROLE]
        if needed == OPEN or route.path == "/events":
            continue
        path = route.path.replace("{table_id}", str(UUID(int=1))).replace("{task_id}", str(UUID(int=1)))
        path = path.replace("{object_id}", str(UUID(int=1))).replace("{id}", str(UUID(int=1)))
        assert api.request(method, path).status_code == 401, path
        assert api.request(method, path, headers={"authorization": "Bearer mlt_wrong"}).status_code == 401
        for role, secret in secrets.items():
            answer = api.request(method, path, headers={"authorization": f"Bearer {secret}"})
            allowed = role >= Role[needed.upper()]
            assert (answer.status_code not in (401, 403)) == allowed, (method, path, role, answer.text)


@pytest.mark.parametrize("path", ["//access/tokens%0A", "/access/tokens%0A", "//access/tokens", "/access%2Ftokens"])
def test_a_path_that_is_spelled_strangely_takes_no_lower_role(
    lake: Lake, serve: Serve, access: AccessFile, path: str
) -> None:
    api = serve(lake, access)
    headers = {"authorization": f"Bearer {access.create('low', Role.WRITE)}"}
    asked = f"http://127.0.0.1:{api.port}/api/v1{path}"
    assert httpx.get(asked, headers=headers).status_code in (403, 404)
    made = httpx.post(asked, headers=headers, json={"name": "high", "role": "admin"})
    assert made.status_code in (403, 404)
    assert [one.name for one in access.tokens()] == ["low"]


def test_the_description_names_every_route_and_role(lake: Lake, serve: Serve, access: AccessFile) -> None:
    access.create("x", Role.READ)
    found = serve(lake, access).get("/openapi.json")
    assert found.status_code == 200, "it is open: there is nothing of the lake in it"
    paths = found.json()["paths"]
    for method, route in ROUTES:
        assert paths[route.path][method.lower()][ROLE] == (route.openapi_extra or {})[ROLE]
        assert paths[route.path][method.lower()].get("description"), route.path
    rows = found.json()["components"]["schemas"]["TableRow"]["properties"]["rows"]
    assert rows["type"] == "string", "64-bit numbers are text"


def test_a_browser_logs_in_with_a_cookie_that_scripts_cannot_read(lake: Lake, serve: Serve, access: AccessFile) -> None:
    secret = access.create("ann", Role.WRITE)
    api = serve(lake, access)
    assert api.post("/session", json={"token": "mlt_wrong"}, headers=OWN).status_code == 401
    answer = api.post("/session", json={"token": secret}, headers=OWN)
    assert answer.json() == {"name": "ann", "role": "write", "tokens": True}
    attributes = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict", "path=/api/v1"} <= attributes
    assert api.json("/me")["name"] == "ann"
    elsewhere = httpx.get(f"http://127.0.0.1:{api.port}/metrics", cookies={"moulin_session": secret})
    assert elsewhere.status_code == 401, "the cookie is for the API alone"
    access.revoke("ann")
    assert api.get("/me").status_code == 401, "at once"
    assert api.delete("/session", headers=OWN).status_code == 204
    assert not api.cookies


def test_pages_of_others_cannot_use_a_session(lake: Lake, serve: Serve, access: AccessFile) -> None:
    secret = access.create("ann", Role.ADMIN)
    api = serve(lake, access)
    api.post("/session", json={"token": secret}, headers=OWN)
    change = "/access/tokens"
    for site in ("cross-site", "same-site", "none", "", None):
        headers = {} if site is None else {"sec-fetch-site": site}
        assert api.post(change, json={"name": "evil"}, headers=headers).status_code == 403, site
        assert api.post("/session", json={"token": secret}, headers=headers).status_code == 403, site
    for site in ("cross-site", "same-site"):
        assert api.get("/me", headers={"sec-fetch-site": site}).status_code == 403
    assert api.get("/me", headers={"sec-fetch-site": "none"}).status_code == 200, "an address that was typed"
    assert api.post(change, json={"name": "good"}, headers=OWN).status_code == 200
    bearer = {"authorization": f"Bearer {secret}"}
    assert (
        httpx.post(f"http://127.0.0.1:{api.port}/api/v1{change}", json={"name": "program"}, headers=bearer).status_code
        == 200
    )
    assert [token.name for token in access.tokens()] == ["ann", "good", "program"]


def test_pages_of_others_change_nothing_where_no_tokens_are_asked_for(shop: Lake, serve: Serve) -> None:
    api, version = serve(shop), shop.version
    table_id = shop.table("shop.orders").id
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"host": "evil.example"},
    ):
        assert api.delete(f"/tables/{table_id}", headers=headers).status_code in (403, 421), headers
    assert shop.version == version


def events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_events_tell_of_new_versions(lake: Lake, serve: Serve) -> None:
    api = serve(lake)
    with api.stream("GET", "/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        told = events(answer)
        assert next(told) == ("state", {"version": str(lake.version), "merge_tasks": 0, "quarantined": 0})
        assert next(told)[0] == "beat"
        lake.create_database("new")
        states = (data for name, data in told if name == "state")
        assert next(states)["version"] == str(lake.version)


def test_a_stream_ends_when_its_token_is_taken_back(lake: Lake, serve: Serve, access: AccessFile) -> None:
    access.create("other", Role.READ)
    api = serve(lake, access, access.create("ann", Role.READ))
    with api.stream("GET", "/events") as answer:
        told = events(answer)
        next(told)
        access.revoke("ann")
        assert ("end", {"reason": "signed-out"}) in list(told)


def test_streams_do_not_hold_a_stop_up(lake: Lake, serve: Serve) -> None:
    api = serve(lake)
    assert api.server is not None
    with ExitStack() as stack:
        answers = [stack.enter_context(api.stream("GET", "/events")) for _ in range(20)]
        streams = [events(answer) for answer in answers]
        for told in streams:
            next(told)
        stopping = threading.Thread(target=api.server.stop)
        stopping.start()
        for told in streams:
            assert list(told)[-1] == ("end", {"reason": "stopping"})
        stopping.join()


def test_the_page_may_run_nothing_but_its_own(lake: Lake, serve: Serve, access: AccessFile) -> None:
    access.create("x", Role.READ)
    root = f"http://127.0.0.1:{serve(lake, access).port}"
    page = httpx.get(root)
    policy = page.headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'", "base-uri 'none'"):
        assert part in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert httpx.get(root, headers={"if-none-match": page.headers["etag"]}).status_code == 304
    for path in ("/assets/%2e%2e/app.py", "/assets/..%2fapp.py", "/assets/vendor/SHA256SUMS", "/assets/none.js"):
        assert httpx.get(root + path).status_code in (401, 404), path


def test_a_large_body_is_not_read_from_whoever_has_no_token(lake: Lake, serve: Serve, access: AccessFile) -> None:
    access.create("x", Role.READ)
    api = serve(lake, access)
    answer = api.post("/session", json={"token": "x" * (2 << 20)})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, 413)
    chunks = (b'{"token":"' if at == 0 else b"x" * 65536 for at in range(40))
    assert api.post("/session", content=chunks, headers={"content-type": "application/json"}).status_code == 413


def test_every_refusal_has_one_shape(lake: Lake, serve: Serve) -> None:
    api = serve(lake)
    deep = b"[" * 100_000
    for answer in (api.get("/nothing"), api.put("/me"), api.post("/session", content=b'{"token":' + deep)):
        error = answer.json()["error"]
        assert error["code"] == answer.status_code, error
        assert set(error) == {"type", "message", "code"}


def test_no_more_streams_are_open_than_are_counted(lake: Lake, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_STREAMS", 3)
    api = serve(lake)
    request = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for _ in range(2):  # those of the first round give their places back
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.create_connection(("127.0.0.1", api.port))) for _ in range(12)]
            for one in sockets:
                one.sendall(request)
            found = [one.recv(12) for one in sockets]
            assert sorted(found) == [b"HTTP/1.1 200"] * 3 + [b"HTTP/1.1 503"] * 9
        time.sleep(0.6)
