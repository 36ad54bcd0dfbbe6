"""Ibis over DuckDB over the lake: expressions in Python become SQL over the lake's views."""

import sys

import ibis

import moulin

lake = moulin.connect(sys.argv[1] if len(sys.argv) > 1 else "./lake")
lake.create_database("shop", if_not_exists=True)
orders = lake.create_table("shop.orders", [("region", "string"), ("amount", "double")])
orders.append({"region": ["eu", "us", "eu"], "amount": [1.0, 2.0, 4.0]})

connection = ibis.duckdb.from_connection(lake.duckdb())
table = connection.table("orders", database="shop")
totals = table.group_by("region").aggregate(total=table.amount.sum()).order_by("region")
for row in totals.to_pyarrow().to_pylist():
    print(row["region"], row["total"])
lake.close()
