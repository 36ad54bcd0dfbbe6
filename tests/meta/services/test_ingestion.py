"""IngestionService."""

from __future__ import annotations

import pytest
from grpc import StatusCode

from tests.meta.api import SECOND, Api
from tests.meta.conftest import Live, name, refused
from tests.meta.rules import rule


@pytest.fixture(scope="module")
def api(live: Live) -> Api:
    return Api(live)


@pytest.fixture(scope="module")
def plaintext(api: Api) -> str:
    database_id, (table_id,) = api.tables(1)
    return api.token(database_id, table_id)[1]


@rule("IG-01", "IG-09", "NU-11")
def test_a_collector_gets_a_stream_and_its_settings(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    token_id, plaintext = api.token(database_id, table_id)
    found = api.RegisterForStream(ingest_token=plaintext, collector_id=name("c"), collector_string="host a")
    assert found.token_id == token_id
    assert found.config.cloud_object_prefix.prefix == f"ingest-stream/{found.stream_id}/"
    assert found.config.cloud_object_prefix.bucket.provider
    assert found.config.flush_timeout_ms > 0
    assert found.config.max_segment_size_bytes > 0


@rule("IG-02", "IG-04", "IG-10")
def test_a_collector_keeps_its_stream_whatever_the_token(api: Api, plaintext: str) -> None:
    collector = name("c")
    stream_id = api.stream(plaintext, collector)
    assert api.stream(plaintext, collector) == stream_id
    database_id, (table_id,) = api.tables(1)
    other_id, other = api.token(database_id, table_id)
    again = api.RegisterForStream(ingest_token=other, collector_id=collector)
    assert (again.stream_id, again.token_id) == (stream_id, other_id)
    assert api.stream(plaintext) != stream_id


@rule("IG-05")
def test_a_stopped_stream_is_followed_by_a_new_one(api: Api, plaintext: str) -> None:
    collector = name("c")
    stream_id = api.stream(plaintext, collector)
    api.MarkStreamStopped(stream_id=stream_id, final_offset=4, stopped_at_nanos=SECOND)
    assert api.stream(plaintext, collector) != stream_id


@rule("IG-06", "GEN-15")
def test_an_unknown_token_makes_no_stream(api: Api, plaintext: str) -> None:
    before = len(api.GetIngestStreamsForNursery().streams)
    for bad in ("", "ing_x", plaintext[:-1]):
        with refused(StatusCode.UNAUTHENTICATED):
            api.RegisterForStream(ingest_token=bad, collector_id=name("c"))
    assert len(api.GetIngestStreamsForNursery().streams) == before


@rule("IG-12")
@pytest.mark.parametrize("bad", ["", "  ", "c" * 2000, "a\0b"])
def test_a_bad_collector_id_is_refused(api: Api, plaintext: str, bad: str) -> None:
    with refused(StatusCode.INVALID_ARGUMENT):
        api.RegisterForStream(ingest_token=plaintext, collector_id=bad)


@rule("IG-11")
def test_an_open_stream_outlives_its_token(api: Api) -> None:
    database_id, (table_id,) = api.tables(1)
    token_id, plaintext = api.token(database_id, table_id)
    collector = name("c")
    stream_id = api.stream(plaintext, collector)
    api.DeleteIngestToken(database_id=database_id, token_id=token_id)
    with refused(StatusCode.UNAUTHENTICATED):
        api.stream(plaintext, collector)
    api.register(database_id, table_id, stream_id, -1, 2)
    assert api.live_segments(table_id) == 1


@rule("IG-13", "NU-05", "NU-06", "NU-07", "NU-03")
def test_every_stream_is_in_every_complete_list(api: Api, plaintext: str) -> None:
    last_seq = last_time = 0
    for _ in range(3):
        listed = api.GetIngestStreamsForNursery()
        assert listed.meta_response_seq > last_seq
        assert listed.stream_list_complete_through_nanos >= last_time
        last_seq, last_time = listed.meta_response_seq, listed.stream_list_complete_through_nanos
        stream_id = api.stream(plaintext)
        info = api.stream_info(stream_id)
        assert info is not None
        assert info.created_at_nanos > last_time
