"""The fresh lane: acknowledged records are in `lake.sql` at once, and exactly once whatever is merged meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin import Lake
from moulin.formats.baby_segment import Payload
from moulin.ingest.setup import set_up
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import build_server
from moulin.model.ingest import Routing
from moulin.model.otel import SCHEMAS
from moulin.pipeline.nursery.nursery import Nursery
from tests.pipeline.nursery.test_nursery import Writer, bodies, logs


@pytest.fixture
def sent(tmp_path: Path, spark: Any) -> Iterator[tuple[Lake, Writer]]:
    with moulin.connect(tmp_path / "lake", sql_pruning_segments=1) as lake:
        token = set_up(lake).token
        assert token is not None
        yield lake, Writer(lake, token)


def ask(lake: Lake, table: str = "otel.logs", **options: Any) -> Counter[str]:
    return Counter(row.body for row in lake.sql(f"select body from {table}", **options).collect())


def test_fresh_records_are_seen_once_before_and_after_they_are_taken_in(sent: tuple[Lake, Writer]) -> None:
    lake, writer = sent
    writer.send(logs("a"), b"\xff poison")
    version = lake.version
    assert ask(lake) == Counter("a")
    assert ask(lake, fresh=False) == Counter()
    Nursery(lake, spark=False).run_once()
    assert ask(lake) == Counter("a") == ask(lake, fresh=False)
    writer.send(logs("b"))
    assert ask(lake) == Counter("ab")
    assert ask(lake, f"otel.logs version as of {version}") == Counter()
    assert ask(lake, f"otel.logs version as of {lake.version}") == Counter("a"), "an older version has no fresh lane"
    assert bodies(lake) == Counter("a")


def test_fresh_records_are_seen_through_a_server(sent: tuple[Lake, Writer]) -> None:
    lake, writer = sent
    writer.send(logs("a"))
    Nursery(lake, spark=False).run_once()
    writer.send(logs("b"))
    writer.stop()
    server = build_server(lake, ServeConfig(bind="127.0.0.1:0", http_bind="", drain_seconds=5)).start()
    try:
        with moulin.connect(f"grpc://{server.address}") as behind:
            assert behind.catalog.ingest.snapshot().streams == lake.catalog.ingest.snapshot().streams
            assert ask(behind) == Counter("ab")
            assert ask(behind, fresh=False) == Counter("a")
            Nursery(lake, spark=False).run_once()
            assert ask(behind) == Counter("ab") == ask(behind, fresh=False)
    finally:
        server.stop(1)


@pytest.mark.parametrize("files", [True, False], ids=["files", "tasks"])
def test_every_column_is_the_same_fresh_and_taken_in(
    sent: tuple[Lake, Writer], files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read from local files, and decoded by the tasks of the query as on a cluster."""
    from moulin.pipeline.read import fresh as lane

    monkeypatch.setattr(lane, "is_local", lambda master: files)
    lake, writer = sent
    writer.send(logs("a", "b"))
    text = "select * from otel.logs order by body"
    fresh = lake.sql(text).toArrow()
    Nursery(lake, spark=False).run_once()
    assert lake.sql(text, fresh=False).toArrow() == fresh
    assert fresh.num_rows == 2
    writer.send(logs("c", "d"))
    assert ask(lake, "otel.logs where body > 'a' and body <> 'c'") == Counter("bd"), "filters reach fresh rows"


def test_a_query_keeps_what_it_began_with_while_records_are_taken_in(sent: tuple[Lake, Writer]) -> None:
    lake, writer = sent
    writer.send(logs("a"))
    Nursery(lake, spark=False).run_once()
    writer.send(logs("b"))
    query = lake.sql("select body from otel.logs")
    Nursery(lake, spark=False).run_once()
    lake.table("otel.logs").compact(everything=True)
    assert Counter(row.body for row in query.collect()) == Counter("ab")
    assert ask(lake) == Counter("ab")


def test_tables_views_and_routes_see_their_own(sent: tuple[Lake, Writer]) -> None:
    lake, writer = sent
    audit = lake.create_table("otel.audit", SCHEMAS["logs"], event_time="event_time")
    lake.create_view("otel.both", ["logs", "audit"])
    writer.send(logs("a"), logs("b", table="audit"))
    Nursery(lake, spark=False).run_once()
    writer.send(logs("c"), logs("d", table="audit"))
    assert ask(lake) == Counter("ac")
    assert ask(lake, "otel.audit") == Counter("bd")
    assert ask(lake, "otel.both") == Counter("abcd")
    own = lake.table("otel.logs").id
    lake.own_catalog().ingest.set_token_routing("otel", "default", Routing(traces=own, logs=audit.id, metrics=own))
    assert ask(lake, "otel.audit") == Counter("bcd"), "it waits, and goes where its token points now"
    assert ask(lake) == Counter("a")


def test_fresh_rows_by_name_follow_a_column_added_meanwhile(sent: tuple[Lake, Writer]) -> None:
    lake, writer = sent
    orders = lake.create_table("otel.orders", [("id", "long")])
    writer.send(b'{"id": 1}\n', payload=Payload.NDJSON, table="orders")
    assert [row.asDict() for row in lake.sql("select * from otel.orders").collect()] == [{"id": 1}]
    orders.add_column("shop", "string")
    assert [row.asDict() for row in lake.sql("select * from otel.orders").collect()] == [{"id": 1, "shop": None}]
    writer.send(b'{"id": 2, "shop": "x"}\n', payload=Payload.NDJSON, table="orders")
    assert lake.sql("select count(shop) as n from otel.orders").collect()[0].n == 1


def test_decoded_objects_are_kept(sent: tuple[Lake, Writer], monkeypatch: pytest.MonkeyPatch) -> None:
    from moulin.pipeline.read import fresh

    lake, writer = sent
    read: list[int] = []
    decode = fresh.decode_baby_segment
    monkeypatch.setattr(
        fresh, "decode_baby_segment", lambda task: (read.append(task.baby_segment.offset), decode(task))[1]
    )
    writer.send(logs("a"))
    ask(lake)
    writer.send(logs("b"))
    assert ask(lake) == Counter("ab")
    assert read == [0, 1]
