"""Makes small lakes of every kind with the code as it is, for later versions to open, read, write and upgrade.

    python -m tests.compat.make_lakes NAME

writes tests/compat/lakes/NAME: `sqlite.tar.gz` (a folder with its catalog), `postgres.tar.gz` (files, and the catalog
as `catalog.sql`), and as JSON what each must show. That is kept in plain Python while the lake is made: no row was
read from it. Run it once per released version, and never again for that one.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tarfile
import tempfile
import time
import uuid
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

import moulin
from moulin import Lake, Table
from moulin.config import DAY
from moulin.formats.baby_segment import Entry, Payload, encode_data
from moulin.iceberg.projection.projection import project
from moulin.ingest.setup import set_up
from moulin.model.entities import Representation, ViewQuery
from moulin.model.schema.schema import make_schema
from moulin.pipeline.nursery.nursery import Nursery
from moulin.storage import paths
from tests.postgres import dump, running_postgres

HERE = Path(__file__).parent / "lakes"
START = datetime(2026, 3, 1, tzinfo=UTC)

Row = dict[str, Any]


def plain(value: Any) -> Any:
    """A value as JSON holds it, the same for equal values."""
    match value:
        case dict():
            return {key: plain(part) for key, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
        case float() if math.isnan(value):
            return "nan"
        case datetime():
            return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
        case bytes():
            return value.hex()
        case date() | clock_time() | Decimal() | uuid.UUID():
            return str(value)
        case _:
            return value


class Expected:
    """What the lake must show, table by table, and at the versions that have a name here."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {}
        self.versions: dict[str, dict[str, list[Row]]] = {}
        self.more: dict[str, Any] = {}

    def at(self, table: Table, rows: list[Row]) -> None:
        """`table` has `rows` at its version of now."""
        self.versions.setdefault(table.name, {})[str(table.version)] = plain(rows)

    def write(self, file: Path) -> None:
        found = {"tables": plain(self.tables), "versions": self.versions, **self.more}
        file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def event(number: int) -> Row:
    return {
        "ts": START + timedelta(hours=7 * number),
        "user": number % 5,
        "kind": ("view", "buy", "leave")[number % 3],
        "amount": number / 4,
    }


def make_events(lake: Lake, expected: Expected) -> None:
    """An event table: partitions of two specs, evolved schema, deletion vectors, levels, indexes, tags, a restore."""
    schema = [("ts", "timestamptz", False), ("user", "int"), ("kind", "string"), ("amount", "float")]
    t = lake.create_table("shop.events", schema, partition_by=["day(ts)"], event_time="ts")
    rows = [event(number) for number in range(30)]
    t.append(rows[:20])
    t.append(rows[20:])
    expected.at(t, rows)
    t.tag("loaded")
    t.create_index("user", "btree")
    t.create_index("kind", "bloom")
    t.delete_where("kind = 'leave' and user < 3")
    rows = [row for row in rows if not (row["kind"] == "leave" and row["user"] < 3)]
    expected.at(t, rows)
    t.compact(everything=True)
    expected.at(t, rows)
    t.add_column("country", "string", default="fr")
    t.rename_column("kind", "action")
    t.widen_column("user", "long")
    t.widen_column("amount", "double")
    t.set_partitioning(["bucket(4, user)"])
    rows = [
        {"ts": row["ts"], "user": row["user"], "action": row["kind"], "amount": row["amount"], "country": "fr"}
        for row in rows
    ]
    more = [
        {
            "ts": START + timedelta(days=40, minutes=n),
            "user": 2**40 + n,
            "action": "buy",
            "amount": 0.5,
            "country": "de",
        }
        for n in range(12)
    ]
    t.append(more[:6])
    rows += more[:6]
    kept = t.version
    expected.at(t, rows)
    t.append(more[6:])
    t.delete_where("user >= 0 and action = 'buy'")
    t.restore(kept)
    t.delete_where("country = 'de' and amount < 1 and user = 1099511627776")
    rows = [row for row in rows if row["user"] != 2**40]
    t.tag("restored")
    t.drop_column("amount")
    rows = [{name: value for name, value in row.items() if name != "amount"} for row in rows]
    t.append([{"ts": START, "user": None, "action": None, "country": None}], request_id="a nightly load")
    rows.append({"ts": START, "user": None, "action": None, "country": None})
    expected.tables["shop.events"] = rows
    expected.more["tags"] = {"shop.events": t.tags()}
    expected.more["indexes"] = {"shop.events": sorted(index.name for index in t.indexes())}
    expected.more["requests"] = {"a nightly load": t.version}


def make_types(lake: Lake, expected: Expected) -> None:
    """A column of every type, with nulls, NaN and empty values."""
    columns = {
        "b": ("boolean", True, False),
        "i": ("int", -(2**31), 2**31 - 1),
        "l": ("long", -(2**63), 2**63 - 1),
        "f": ("float", 1.5, math.nan),
        "d": ("double", math.nan, -math.inf),
        "m": ("decimal(20, 3)", Decimal("-12345678901234567.891"), Decimal("0.000")),
        "day": ("date", date(1969, 12, 31), date(9999, 12, 31)),
        "t": ("time", clock_time(23, 59, 59, 999999), clock_time(0)),
        "ts": ("timestamp", datetime(1969, 7, 20, 20, 17, 40, 1), datetime(2262, 1, 1)),
        "tz": ("timestamptz", datetime(2026, 2, 28, 23, 59, 59, 999999, tzinfo=UTC), START),
        "s": ("string", "", "Zürich \U0001f600"),
        "u": ("uuid", uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)),
        "x": ("fixed(4)", b"\x00\x01\x02\xff", b"abcd"),
        "y": ("binary", b"", b"\x00\xff"),
        "items": ("list<long>", [], [1, None, 3]),
        "by": ("map<string, int>", [], [("a", 1), ("b", None)]),
        "st": ("struct<a: int, b: string>", {"a": None, "b": ""}, {"a": 7, "b": "x"}),
    }
    t = lake.create_table("shop.types", [(name, kind, True) for name, (kind, _, _) in columns.items()])
    rows = [
        {name: first for name, (_, first, _) in columns.items()},
        {name: second for name, (_, _, second) in columns.items()},
        dict.fromkeys(columns),
    ]
    t.append(rows)
    expected.tables["shop.types"] = rows


def order(number: int, note: str = "new") -> Row:
    return {"id": number, "total": (Decimal(number) / 4).quantize(Decimal("0.01")), "note": f"{note} {number}"}


def make_orders(lake: Lake, expected: Expected) -> None:
    """Keyed, in four regions: upserts, deletes, several levels, an evolved schema, key indexes."""
    schema = [("id", "long", False), ("total", "decimal(12, 2)"), ("note", "string")]
    t = lake.create_table("shop.orders", schema, primary_key=["id"], properties={"moulin.regions": "bucket(4, id)"})
    rows = {}
    t.put_batch([order(n) for n in range(60)])
    rows.update({n: order(n) for n in range(60)})
    t.flush()
    t.append([order(n, "loaded") for n in range(50, 80)])
    rows.update({n: order(n, "loaded") for n in range(50, 80)})
    expected.at(t, list(rows.values()))
    t.compact(everything=True)
    for n in range(0, 80, 7):
        t.delete(n)
        del rows[n]
    t.put(order(7, "again"))
    rows[7] = order(7, "again")
    t.flush()
    expected.at(t, list(rows.values()))
    t.delete_where("id >= 70 and id < 72")
    rows = {n: row for n, row in rows.items() if not 70 <= n < 72}
    t.create_index("note", "btree")
    t.add_column("vip", "boolean", default=False)
    t.put({**order(1000), "vip": True})
    rows = {n: {**row, "vip": False} for n, row in rows.items()} | {1000: {**order(1000), "vip": True}}
    t.flush()
    expected.tables["shop.orders"] = list(rows.values())
    t.close()


def make_prices(lake: Lake, expected: Expected) -> None:
    """Keyed by two columns, in one region, merged to level 2."""
    schema = [("shop", "string", False), ("day", "date", False), ("price", "double")]
    t = lake.create_table("shop.prices", schema, primary_key=["shop", "day"], properties={"owner": "pricing"})
    rows = {}
    for turn in range(6):
        batch = [
            {"shop": f"s{n % 4}", "day": date(2026, 1, 1 + n // 4 + turn), "price": n + turn / 8} for n in range(24)
        ]
        t.put_batch(batch)
        rows.update({(row["shop"], row["day"]): row for row in batch})
        t.flush()
        t.compact(everything=turn % 2 == 1)
    t.append([{"shop": "s9", "day": date(2026, 2, 2), "price": None}])
    rows["s9", date(2026, 2, 2)] = {"shop": "s9", "day": date(2026, 2, 2), "price": None}
    expected.at(t, list(rows.values()))
    expected.tables["shop.prices"] = list(rows.values())
    t.close()


def make_objects(lake: Lake, expected: Expected) -> None:
    """Views, a renamed table, a transaction over two tables, tombstones, properties of a database."""
    schema = [("id", "long", False), ("name", "string")]
    for name in ("north", "south", "old"):
        lake.create_table(f"shop.{name}", schema)
    lake.rename_table("shop.old", "shop.east")
    with lake.transaction() as tx:
        tx.table("shop.north").append([{"id": 1, "name": "n"}])
        tx.table("shop.south").append([{"id": 2, "name": "s"}])
    expected.tables["shop.north"] = [{"id": 1, "name": "n"}]
    expected.tables["shop.south"] = [{"id": 2, "name": "s"}]
    expected.tables["shop.east"] = []
    lake.create_view("shop.everywhere", ["shop.north", "shop.south", "shop.east"], description="all of it")
    expected.more["views"] = {"shop.everywhere": ["north", "south", "east"]}
    text = "select id from shop.north"
    query = ViewQuery((Representation("spark", text),), make_schema([("id", "long")]), {"owner": "sales"})
    lake.catalog.create_view("shop", "numbers", [], "all ids", query=query)
    expected.more["queries"] = {"shop.numbers": text}
    lake.create_table("shop.gone", schema).append([{"id": 3, "name": "g"}])
    lake.drop_table("shop.gone")
    expected.more["dropped"] = {"shop.gone": [{"id": 3, "name": "g"}]}
    lake.create_database("spare", properties={"owner": "nobody"})


def logs(*bodies: str) -> bytes:
    made = ExportLogsServiceRequest()
    scope = made.resource_logs.add().scope_logs.add()
    for body in bodies:
        scope.log_records.add(time_unix_nano=time.time_ns() - 10**9).body.string_value = body
    return made.SerializeToString()  # type: ignore[no-any-return]


def make_streams(lake: Lake, expected: Expected) -> None:
    """Tokens and streams: records in segments, a request that cannot be read, and records that wait for a nursery."""
    token = set_up(lake).token
    assert token is not None
    ingest = lake.own_catalog().ingest
    made = ingest.register_stream(token, "a collector")
    nonce = b"n" * 16

    def send(offset: int, *requests: bytes) -> None:
        entries = [Entry(made.token.id, Payload.LOGS, 1, request, "") for request in requests]
        data = encode_data(made.stream.id, nonce, offset, time.time_ns(), entries)
        lake.store.put_if_absent(paths.baby_segment(made.stream.id, offset), data)

    send(0, logs("one", "two"))
    send(1, logs("three"), b"\xff\xff not a request")
    Nursery(lake, spark=False).run_once()
    send(2, logs("four"))
    expected.more["logs"] = {"merged": ["one", "three", "two"], "waiting": ["four"]}
    expected.more["token"] = token


def make_projections(lake: Lake) -> None:
    for name in ("shop.events", "shop.orders", "shop.north"):
        project(lake.context, lake.table(name).id)
    lake.table("shop.north").delete_where("id = 1")
    project(lake.context, lake.table("shop.north").id, format_version=2)
    lake.table("shop.north").append([{"id": 1, "name": "n"}])


def put_and_die(uri: str, storage: str | None) -> None:
    """Run in a process of its own: rows that are in the log alone, in every region."""
    socket.gethostname = lambda: "maker"
    lake = moulin.connect(uri, storage=storage)
    orders, prices = lake.table("shop.orders"), lake.table("shop.prices")
    for n in range(2000, 2020):
        orders.put({**order(n, "in the log"), "vip": n % 2 == 0})
    orders.put_batch([{**order(n, "in the log"), "vip": None} for n in (1, 2, 3)])
    orders.delete(1000)
    prices.put({"shop": "s0", "day": date(2026, 1, 1), "price": -1.0})
    prices.delete(("s9", date(2026, 2, 2)))
    os.kill(os.getpid(), signal.SIGKILL)


def expect_log(expected: Expected) -> None:
    """What `put_and_die` did."""
    rows = {row["id"]: row for row in expected.tables["shop.orders"]}
    rows.update({n: {**order(n, "in the log"), "vip": n % 2 == 0} for n in range(2000, 2020)})
    rows.update({n: {**order(n, "in the log"), "vip": None} for n in (1, 2, 3)})
    del rows[1000]
    expected.more["in_segments"] = {name: expected.tables[name] for name in ("shop.orders", "shop.prices")}
    expected.more["in_segments"] = plain(expected.more["in_segments"])
    expected.tables["shop.orders"] = list(rows.values())
    prices = {(row["shop"], row["day"]): row for row in expected.tables["shop.prices"]}
    prices["s0", date(2026, 1, 1)] = {"shop": "s0", "day": date(2026, 1, 1), "price": -1.0}
    del prices["s9", date(2026, 2, 2)]
    expected.tables["shop.prices"] = list(prices.values())


def make_lake(uri: str, storage: str | None) -> Expected:
    socket.gethostname = lambda: "maker"  # the owner of a region is in the catalog
    expected = Expected()
    # What was dropped can be brought back for thirty years.
    settings = {"level0_trigger": 3, "manifest_deltas": 8, "table_grace": 30 * 365 * DAY}
    with moulin.connect(uri, storage=storage, **settings) as lake:
        lake.create_database("shop", properties={"owner": "sales"})
        make_events(lake, expected)
        make_types(lake, expected)
        make_orders(lake, expected)
        make_prices(lake, expected)
        make_objects(lake, expected)
        make_streams(lake, expected)
        make_projections(lake)
    child = multiprocessing.get_context("spawn").Process(target=put_and_die, args=(uri, storage))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL, child.exitcode
    expect_log(expected)
    expected.more["made"] = plain(datetime.now(UTC))
    return expected


def pack(folder: Path, archive: Path) -> None:
    def wanted(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return None if info.name.endswith("-shm") else info

    with tarfile.open(archive, "w:gz", compresslevel=9) as made:
        made.add(folder, arcname=".", filter=wanted)


def main(name: str) -> None:
    target = HERE / name
    if target.exists():
        sys.exit(f"{target} is there already: lakes of a version are made once.")
    with tempfile.TemporaryDirectory() as work:
        made = Path(work) / "made"
        (made / "sqlite").mkdir(parents=True)
        make_lake(str(made / "sqlite"), None).write(made / "sqlite.json")
        with running_postgres() as server:
            address = f"{server}/postgres"
            make_lake(address, str(made / "postgres")).write(made / "postgres.json")
            (made / "postgres" / "catalog.sql").write_text(dump(address))
        target.mkdir(parents=True)
        for kind in ("sqlite", "postgres"):
            pack(made / kind, target / f"{kind}.tar.gz")
            shutil.copy(made / f"{kind}.json", target / f"{kind}.json")


if __name__ == "__main__":
    main(*sys.argv[1:])
