"""polars: a lazy query whose filters and columns reach the lake, and a lazy frame that is written."""

import sys

import polars as pl

import moulin

lake = moulin.connect(sys.argv[1] if len(sys.argv) > 1 else "./lake")
lake.create_database("shop", if_not_exists=True)
visits = lake.create_table("shop.visits", [("page", "string"), ("seconds", "double")])

visits.append(pl.LazyFrame({"page": ["home", "cart", "home", "pay"], "seconds": [1.0, 5.0, 3.0, 9.0]}))

query = visits.lazy().filter(pl.col("seconds") > 1).group_by("page").agg(pl.col("seconds").sum()).sort("page")
for page, seconds in query.collect().iter_rows():
    print(page, seconds)
lake.close()
