"""Records of collectors, when rows are erased: taken ones go, others are named."""

from __future__ import annotations

from pathlib import Path

import moulin
from moulin.formats.baby_segment import Payload
from moulin.ingest.setup import set_up
from moulin.pipeline.nursery.nursery import Nursery
from tests.pipeline.nursery.test_nursery import Writer, logs
from tests.table.erase.planting import SECRET, catalog_files, holding


def test_baby_segments_and_set_aside_objects_are_deleted_or_named(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        writer = Writer(lake, token)
        writer.send(logs("a", SECRET), logs("b"))
        writer.send(f'{{"name": "{SECRET}"}}\n'.encode(), payload=Payload.NDJSON, table="gone")
        Nursery(lake, spark=False).run_once()
        writer.send(logs("c", f"more of {SECRET}"))
        done = lake.table("otel.logs").erase(f"body like '%{SECRET}%' or body = '{SECRET}'")
        assert done.rows == 1
        assert not done.complete
        assert len(done.report["pending"]) == 1
        assert holding(lake.store) == [done.report["pending"][0].partition(":")[0]]
        Nursery(lake, spark=False).run_once()
        done = lake.table("otel.logs").erase(f"body like '%{SECRET}%'")
        assert done.complete
        assert done.rows == 1
        bodies = lake.table("otel.logs").scan(columns=["body"]).to_arrow()["body"].to_pylist()
        assert sorted(bodies) == ["a", "b", "c"]
        assert not list(lake.store.list("ingest-stream"))
        assert not list(lake.store.list("set-aside"))
    assert catalog_files(tmp_path / "lake") == []
