"""Ask a server about its lake over HTTP: nothing but the standard library is needed.

Run it with the address of a server, such as http://127.0.0.1:8181, and MOULIN_TOKEN if the server asks for tokens.
Given a folder instead, it makes a small lake there and serves it while it runs.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def ask(server: str, path: str, **query: str) -> Any:
    """The answer of one route of the API."""
    address = f"{server}/api/v1{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
    token = os.environ.get("MOULIN_TOKEN")
    request = urllib.request.Request(address, headers={"authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def pages(server: str, path: str, **query: str) -> Iterator[Any]:
    """Everything in a list: each page but the last names the cursor of the next one."""
    while True:
        page = ask(server, path, **query)
        yield from page["items"]
        if page["next_cursor"] is None:
            return
        query["cursor"] = page["next_cursor"]


def report(server: str) -> None:
    lake = ask(server, "/lake")
    print(f"{lake['tables']} tables, {lake['rows']} rows, version {lake['version']}")
    for table in pages(server, "/tables", limit="1"):
        detail = ask(server, f"/tables/{table['id']}")
        newest = ask(server, f"/tables/{table['id']}/commits", limit="1")["items"][0]
        name = f"{table['database']}.{table['name']}"
        print(f"{name}: {detail['rows']} rows in {detail['segments']} segments, last {newest['kind']}")


@contextmanager
def served(folder: str) -> Iterator[str]:
    """A small lake in a folder, behind a server; returns its address."""
    import moulin
    from moulin.cli.served import mount
    from moulin.meta.config import ServeConfig
    from moulin.meta.server.serve import Serving

    with moulin.connect(folder) as lake:
        lake.create_database("shop")
        orders = lake.create_table("shop.orders", [("id", "long"), ("amount", "double")])
        orders.append([{"id": 1, "amount": 9.5}, {"id": 2, "amount": 3.0}])
        orders.delete_where("id = 2")
        serving = Serving(lake, ServeConfig(bind="127.0.0.1:0", http_bind="127.0.0.1:0"), mount=mount).start()
        assert serving.http is not None
        try:
            yield f"http://127.0.0.1:{serving.http.port}"
        finally:
            serving.stop()


if __name__ == "__main__":
    where = sys.argv[1]
    if "://" in where:
        report(where)
    else:
        with served(where) as address:
            report(address)
