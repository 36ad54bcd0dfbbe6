"""`moulin collect` with TLS: the exporters of the OpenTelemetry SDK trust its certificate, and nothing else gets in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExportResult, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from moulin.errors import InvalidInput
from tests.ingest.conftest import TOKEN, FaultyStore, MemoryRegistry, Running, running
from tests.meta.test_auth import certificate

__all__ = ["certificate"]


@pytest.fixture
def secure(store: FaultyStore, registry: MemoryRegistry, certificate: tuple[Path, Path]) -> Iterator[Running]:
    public, private = certificate
    with running(store, registry, certificate=public, key=private) as started:
        yield started


class Outcome:
    """An exporter that remembers what became of the last export."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        self.last: Any = None

    def export(self, batch: Any) -> Any:
        self.last = self._exporter.export(batch)
        return self.last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)


def send(exporter: Any, body: str) -> Any:
    outcome = Outcome(exporter)
    provider = LoggerProvider(Resource({"service.name": "till"}))
    provider.add_log_record_processor(SimpleLogRecordProcessor(outcome))  # type: ignore[arg-type]
    provider.get_logger("tests").emit(body=body, severity_number=SeverityNumber.INFO, timestamp=time.time_ns())
    provider.shutdown()
    return outcome.last


def test_exporters_that_trust_the_certificate_are_served(
    secure: Running, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    public, _ = certificate
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # they would take the place of the exporter's own
        monkeypatch.delenv(name, raising=False)
    bearer = f"Bearer {TOKEN}"
    trusting = grpc.ssl_channel_credentials(public.read_bytes())
    over_grpc = GrpcExporter(
        f"https://{secure.target}", credentials=trusting, headers=(("authorization", bearer),), timeout=10
    )
    over_http = HttpExporter(
        f"https://127.0.0.1:{secure.http_port}/v1/logs",
        certificate_file=str(public),
        headers={"authorization": bearer},
        timeout=10,
    )
    assert send(over_grpc, "by gRPC") is LogRecordExportResult.SUCCESS
    assert send(over_http, "by HTTP") is LogRecordExportResult.SUCCESS
    assert sorted(row["body"] for row in secure.rows("logs")) == ["by HTTP", "by gRPC"]


def test_others_get_nothing_in(secure: Running) -> None:
    bearer = (("authorization", f"Bearer {TOKEN}"),)
    plain = GrpcExporter(f"http://{secure.target}", insecure=True, headers=bearer, timeout=1)
    assert send(plain, "in the clear") is LogRecordExportResult.FAILURE
    stranger = HttpExporter(f"https://127.0.0.1:{secure.http_port}/v1/logs", headers=dict(bearer), timeout=1)
    assert send(stranger, "without trust") is LogRecordExportResult.FAILURE
    assert secure.entries() == []


def test_half_a_certificate_is_refused(
    store: FaultyStore, registry: MemoryRegistry, certificate: tuple[Path, Path]
) -> None:
    public, private = certificate
    with pytest.raises(InvalidInput, match="give both"), running(store, registry, certificate=public):
        pass
    missing = private.with_name("missing.pem")
    with (
        pytest.raises(InvalidInput, match="cannot be read"),
        running(store, registry, certificate=public, key=missing),
    ):
        pass
