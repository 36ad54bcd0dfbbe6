"""Move rows from one table to another: both change in one version, or neither does."""

from __future__ import annotations

import sys

import moulin

lake = moulin.connect(sys.argv[1] if len(sys.argv) > 1 else "./lake")
lake.create_database("shop", if_not_exists=True)
columns = [("id", "long", False), ("state", "string")]
orders = lake.create_table("shop.open_orders", columns)
archive = lake.create_table("shop.archive", columns)
orders.append([{"id": n, "state": "paid" if n % 3 == 0 else "new"} for n in range(10)])

with lake.transaction() as tx:
    paid = tx.table("shop.open_orders").scan(where="state = 'paid'").to_arrow()
    tx.table("shop.archive").append(paid)
    tx.table("shop.open_orders").delete_where("state = 'paid'")

print(f"{orders.scan().count()} open, {archive.scan().count()} archived, both at version {tx.version}")
lake.close()
