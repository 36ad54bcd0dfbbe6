"""Parquet files of somebody else become a table where they lie, and old rows move to an archive."""

import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import moulin

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "adopt-example")
exports, archive = folder / "exports", folder / "archive"
archive.mkdir(parents=True, exist_ok=True)
for day in (1, 2, 3):
    place = exports / f"day=2026-01-0{day}"
    place.mkdir(parents=True, exist_ok=True)
    numbers = pa.array(range(day * 10, day * 10 + 3), pa.int32())
    pq.write_table(pa.table({"id": numbers, "amount": [0.5, 1.0, 1.5]}), place / "orders.parquet")

with moulin.connect(folder / "lake") as lake:
    lake.create_database("shop")
    columns = [("id", "long"), ("amount", "double"), ("day", "date")]
    events = lake.create_table("shop.events", columns, partition_by=["day"])
    done = events.adopt(f"{exports}/**/*.parquet")
    print(f"{done.files} files, {done.rows} rows, {[base.name.split('-')[0] for base in lake.bases()]}")
    events.delete_where("id = 11")
    print(events.scan(where="day = date '2026-01-01'").to_arrow().to_pylist())
    print(events.adopt(exports, skip_known=True).known, "files are known")

    lake.add_base(archive, name="archive")
    events.append([{"id": 1, "amount": 9.0, "day": date(2025, 12, 31)}])
    print(events.move("day < date '2026-01-01'", base="archive").rows, "row moved")
    print(events.scan().count(), "rows")
