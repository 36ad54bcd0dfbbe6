"""The lake that the examples of `--help` are about: a bit of everything that a command can name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import moulin
from moulin.catalog.segments.stats import Filter
from moulin.formats.baby_segment import encode_keep_alive
from moulin.ingest.setup import set_up
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from moulin.storage import paths
from moulin.table.compact.planner import create_tasks

COLUMNS = [("id", "long", False), ("ts", "timestamptz"), ("region", "string"), ("amount", "double")]
START = datetime(2026, 3, 1, tzinfo=UTC)


def orders(first: int, count: int = 10) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "ts": pa.array([START + timedelta(hours=n) for n in numbers], pa.timestamp("us", "UTC")),
            "region": [("eu", "us")[n % 2] for n in numbers],
            "amount": [n * 1.5 for n in numbers],
        }
    )


def make_example_lake(folder: Path) -> dict[str, str]:
    """A lake in `folder`/lake with files beside it; the ids that examples write as variables."""
    with moulin.connect(folder / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", COLUMNS, event_time="ts")
        for number in range(4):
            table.append(orders(number * 10))
        lake.create_table("shop.returns", COLUMNS, event_time="ts").append(orders(500))
        customers = lake.create_table("shop.customers", [("id", "long"), ("name", "string")], primary_key=["id"])
        customers.put({"id": 1, "name": "Ada"})
        lake.create_view("shop.all", ["orders", "returns"], description="What was sold and what came back")
        table.create_index("region")
        table.tag("march")
        create_tasks(lake.context, lake.create_table("shop.visits_old", COLUMNS).id, Filter())
        _make_files(folder)
        lake.add_base(folder / "archive", name="archive")
        _drop_some(lake)
        for name in ("exp", "done"):
            lake.branch(name).table("shop.orders").append(orders(900))
        lake.drop_branch("done")
        task = create_tasks(lake.context, table.id, Filter())
        stream = _stream(lake)
        AccessFile(folder / "lake" / "access.toml").create("alice", Role.READ, None)
        tasks = lake.catalog.maintenance.merge_tasks(table.id)
        assert task
        return {"TASK": str(tasks[0].id), "STREAM": stream}


def _make_files(folder: Path) -> None:
    pyarrow.csv.write_csv(orders(100), folder / "orders.csv")
    (folder / "orders.ndjson").write_text('{"id": 200, "ts": "2026-03-09T10:00:00Z", "region": "ap", "amount": 1}\n')
    (folder / "report.sql").write_text("select count(*) as n from shop.orders;\n")
    (folder / "exports").mkdir()
    (folder / "archive").mkdir()
    (folder / "cold").mkdir()
    pq.write_table(orders(300), folder / "exports" / "one.parquet")


def _drop_some(lake: moulin.Lake) -> None:
    lake.create_database("old")
    lake.drop_database("old")
    lake.create_table("shop.dropped", [("id", "long")])
    lake.drop_table("shop.dropped")
    lake.create_view("shop.gone", ["returns"])
    lake.drop_view("shop.gone")


def _stream(lake: moulin.Lake) -> str:
    """A stream with three objects; `lose_object` takes the second away."""
    secret = set_up(lake).token
    assert secret is not None
    ids = lake.tokens.token("otel", "default").routing
    lake.tokens.create_token("otel", "lost", ids)
    lake.tokens.drop_token("otel", "lost")
    stream = lake.own_catalog().ingest.register_stream(secret, "one").stream.id
    for number in range(3):
        lake.store.put_if_absent(paths.baby_segment(stream, number), encode_keep_alive(stream, b"n" * 16, number, 1))
    return str(stream)


def lose_object(folder: Path) -> None:
    """What `moulin ingest skip` is for."""
    (found,) = (folder / "lake").glob("ingest-stream/*/*1.baby")
    found.unlink()


def lose_catalog(folder: Path) -> None:
    """What `moulin recover` is for."""
    for file in (folder / "lake").glob("catalog.sqlite*"):
        file.unlink()


__all__ = ["lose_catalog", "lose_object", "make_example_lake", "orders"]
