"""Write with Spark, read with Spark and without it, travel in time."""

from __future__ import annotations

import sys

import moulin

lake = moulin.connect(sys.argv[1] if len(sys.argv) > 1 else "./lake")
spark = lake.spark()
lake.create_database("web", if_not_exists=True)
visits = lake.create_table("web.visits", [("page", "string"), ("ms", "long")])

frame = spark.range(100_000).selectExpr("concat('/page/', id % 10) as page", "id % 900 as ms")
frame.write.format("moulin").option("lake", lake.uri).mode("append").save("web.visits")
first = visits.version
visits.delete_where("page = '/page/3'")
visits.compact()

(now,) = lake.sql("select count(distinct page) as pages from web.visits").collect()
(then,) = lake.sql(f"select count(distinct page) as pages from web.visits version as of {first}").collect()
print(f"{now.pages} pages now, {then.pages} at version {first}; {visits.scan().count()} rows without Spark")
lake.close()
