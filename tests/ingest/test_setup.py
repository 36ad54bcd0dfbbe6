"""`moulin init --otel`, and the tables it makes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import moulin
from moulin.errors import NotFound, Unauthenticated
from moulin.ingest.collector.collector import CollectorSettings
from moulin.ingest.collector.registry import CatalogRegistry
from moulin.ingest.otlp.otlp import decode
from moulin.ingest.setup import set_up
from moulin.meta.client.client import stream_registry
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import build_server
from moulin.model.ingest import StopReason
from moulin.model.otel import SIGNALS, takes
from tests.cli.conftest import Run, run  # noqa: F401 (a fixture)
from tests.ingest import reference
from tests.ingest.otlp.test_otlp import INGEST


def test_decoded_rows_are_what_the_tables_take(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        made = set_up(lake)
        assert made.token is not None
        for signal in SIGNALS:
            generator = reference.Generator(3)
            requests = [generator.request(signal) for _ in range(4)]
            rows = decode(signal, requests, [INGEST] * 4).rows
            table = lake.table(f"otel.{signal}")
            assert takes(table.schema, signal)
            table.append(rows)
            back = table.scan().to_arrow().select(rows.column_names).cast(rows.schema)
            assert rows.num_rows
            assert sorted(map(str, back.to_pylist())) == sorted(map(str, rows.to_pylist()))


def test_the_token_is_shown_once(run: Run, tmp_path: Path) -> None:  # noqa: F811
    said = run("init", "--otel", "--json").json()
    assert said["tables"] == ["otel.logs", "otel.traces", "otel.metrics"]
    token = said["token"]
    again = run("init", "--otel", "--json").json()
    assert again["token"] is None
    assert token not in run("init", "--otel").out
    for file in (tmp_path / "lake").rglob("*"):
        assert not file.is_file() or token.encode() not in file.read_bytes()
    with moulin.connect(tmp_path / "lake") as lake:
        properties = lake.table("otel.logs").properties
        assert properties["moulin.retention-ns"] == str(30 * 86_400_000_000_000)


def test_the_catalog_validates_tokens_and_opens_streams(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", stream_flush_seconds=0.5, collector_budget_bytes=1 << 30) as lake:
        token = set_up(lake).token
        assert token is not None
        registry = CatalogRegistry(lake.own_catalog())
        grant = registry.validate(token)
        assert grant.database == "otel"
        with pytest.raises(Unauthenticated):
            registry.validate(token[:-1] + "x")
        with pytest.raises(Unauthenticated):
            registry.register("ing_nothing", "c", "")
        stream = registry.register(token, "c", "a host")
        assert (stream.flush_seconds, stream.segment_bytes) == (0.5, 16 << 20)
        assert registry.register(token, "c", "a host").id == stream.id
        assert registry.stopped_offset(stream.id) is None
        registry.stop(stream.id, 4, StopReason.CLIENT)
        assert registry.stopped_offset(stream.id) == 4
        assert registry.register(token, "c", "").id != stream.id
        lake.create_table("otel.keyed", pa.schema([pa.field("id", pa.int64(), False)]), primary_key=["id"])
        assert registry.table_schema(grant.database_id, "logs") is not None
        assert registry.table_schema(grant.database_id, "nothing") is None
        assert registry.table_schema(grant.database_id, "keyed") is None
        assert CollectorSettings.of(lake.config).budget_bytes == 1 << 30


def test_a_server_validates_tokens_and_opens_streams(tmp_path: Path) -> None:
    """The same answers from a catalog behind `moulin serve`."""
    with moulin.connect(tmp_path / "lake", stream_flush_seconds=0.5) as lake:
        server = build_server(lake, ServeConfig(bind="127.0.0.1:0", http_bind="", drain_seconds=1)).start()
        try:
            with moulin.connect(f"grpc://{server.address}") as remote:
                token = set_up(remote).token
                assert token is not None
                registry = stream_registry(remote)
                grant = registry.validate(token)
                assert grant == CatalogRegistry(lake.own_catalog()).validate(token)
                with pytest.raises(Unauthenticated):
                    registry.validate(token[:-1] + "x")
                stream = registry.register(token, "c", "a host")
                assert (stream.flush_seconds, stream.segment_bytes) == (0.5, 16 << 20)
                assert registry.stopped_offset(stream.id) is None
                registry.stop(stream.id, 4, StopReason.CLIENT)
                assert registry.stopped_offset(stream.id) == 4
                with pytest.raises(NotFound):
                    registry.stopped_offset(grant.token_id)
                assert registry.table_schema(grant.database_id, "logs") is not None
                assert registry.table_schema(grant.database_id, "nothing") is None
        finally:
            server.stop(1)
