"""A lake with something in it, and servers that serve its console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

import moulin
from moulin.cli.served import Sql, mount
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.server.http import HttpServer, build_app
from moulin.network.hosts import allowed_hosts
from tests.cli.conftest import run as run

HOSTILE = "'\"><img src=x onerror=pwned=1>"
Serve = Callable[..., "Api"]
DUCKDB = Sql()


class Api(httpx.Client):
    """Requests to the API of a server; paths are relative to /api/v1."""

    def __init__(self, port: int, token: str = "", server: HttpServer | None = None, **options: Any) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        super().__init__(base_url=f"http://127.0.0.1:{port}/api/v1", headers=headers, timeout=30, **options)
        self.port, self.server = port, server

    def json(self, path: str, **query: Any) -> Any:
        answer = self.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


def ids(api: Api) -> dict[str, str]:
    return {f"{one['database']}.{one['name']}": one["id"] for one in api.json("/tables")["items"]}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as opened:
        yield opened


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Orders along event time with deletes, a tag, an index; a keyed table; a dropped one; hostile names."""
    lake.create_database("shop")
    orders = lake.create_table(
        "shop.orders",
        [("id", "long", False), ("at", "timestamptz"), ("customer", "string"), ("amount", "double")],
        event_time="at",
        partition_by=["bucket(2, customer)"],
    )
    start = datetime(2026, 3, 1, tzinfo=UTC)
    for day in range(4):
        at = [start + timedelta(days=day, minutes=minute) for minute in range(50)]
        orders.append(
            [{"id": day * 50 + i, "at": one, "customer": f"c{i % 7}", "amount": 1.5} for i, one in enumerate(at)]
        )
    orders.tag("before")
    orders.delete_where("id < 10")
    orders.create_index("id", "btree")
    stock = lake.create_table("shop.stock", [("sku", "string", False), ("count", "long")], primary_key=["sku"])
    stock.put_batch([{"sku": "a", "count": 2**62}, {"sku": "b", "count": 2}])
    stock.flush()
    lake.create_table("shop.old", [("x", "int")])
    lake.drop_table("shop.old")
    odd = lake.create_table(f"shop.{HOSTILE.replace('/', '')}", [("<b>bold</b>", "string"), ("note", "string")])
    odd.append([{"<b>bold</b>": HOSTILE, "note": "right \u202eto left\u0007 ${7*7} {{7*7}}"}])
    return lake


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves the console of a lake on loopback, with tokens when an access file is given."""
    with ExitStack() as stack:

        def start(
            lake: Lake, access: AccessFile | None = None, token: str = "", *, port: int = 0, sql: Sql = DUCKDB
        ) -> Api:
            app = build_app(lake, access=access, hosts=allowed_hosts("127.0.0.1", ""))
            mount(app, sql)
            server = HttpServer(app, ServeConfig(http_bind=f"127.0.0.1:{port}", drain_seconds=5)).start()
            stack.callback(server.stop)
            return stack.enter_context(Api(server.port, token, server))

        yield start
