"""Write to a branch with pyiceberg, audit it, and publish it."""

from __future__ import annotations

import json
import sys
import urllib.request

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

address = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8181/iceberg"

branch = RestCatalog("nightly", uri=address, warehouse="lake@nightly")
orders = branch.load_table("shop.orders")
orders.append(pa.table({"id": [100, 101], "amount": [7.0, 8.0]}, schema=orders.schema().as_arrow()))

audited = orders.scan(row_filter="amount < 0").to_arrow().num_rows
if audited:
    raise SystemExit(f"{audited} orders have a negative amount: nothing is published.")

request = urllib.request.Request(f"{address}/v1/@nightly/publish", b"{}", {"Content-Type": "application/json"})
with urllib.request.urlopen(request) as answer:
    published = json.load(answer)

main = RestCatalog("main", uri=address)
print(f"version {published['version']} has {main.load_table('shop.orders').scan().count()} orders")
