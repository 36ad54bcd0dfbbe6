"""SegmentLookupService: pages of one version, segments by id, newest first."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from moulin._proto.moulin.meta.v1 import common_pb2, segment_lookup_pb2, segment_lookup_pb2_grpc
from moulin.model.ingest import Advance, Registration, Routing
from tests.contract.samples import segment
from tests.meta.conftest import Live, refused
from tests.meta.merging import HOUR, START, Shop, open_shop


@pytest.fixture
def shop(live: Live) -> Shop:
    return open_shop(live)


def stub(shop: Shop) -> segment_lookup_pb2_grpc.SegmentLookupServiceStub:
    return shop.live.stub(segment_lookup_pb2_grpc.SegmentLookupServiceStub)


def ask(shop: Shop, times: tuple[int, int] | None = None, **fields: Any) -> segment_lookup_pb2.FindSegmentsResponse:
    fields = {"database_id": str(shop.database_id), "table_names": ["t"], **fields}
    if times is not None:
        fields["time_range"] = common_pb2.TimeRange(start_time=times[0], end_time=times[1])
    return stub(shop).FindSegments(segment_lookup_pb2.FindSegmentsRequest(**fields))


def pages(shop: Shop, limit: int, times: tuple[int, int] | None = None, **fields: Any) -> list[list[str]]:
    found, cursor = [], None
    while True:
        answer = ask(shop, times, limit=limit, cursor=cursor, **fields)
        found.append([segment.id for segment in answer.segments])
        if not answer.page.HasField("next_cursor"):
            return found
        cursor = answer.page.next_cursor


def flat(found: Sequence[Sequence[str]]) -> list[str]:
    return [one for page in found for one in page]


def test_a_search_finds_what_overlaps(shop: Shop) -> None:
    """SL-02, SL-04, SL-06, SL-16, SL-18, GEN-12"""
    shop.fill(5, step=HOUR)
    answer = ask(shop)
    assert answer.current_version == shop.live.catalog.version()
    assert len(answer.segments) == 5
    first = answer.segments[0]
    assert first.table_id == str(shop.id)
    assert first.version <= answer.current_version
    assert first.tombstone_version == 0
    assert (first.time_range.start_time, first.time_range.end_time) == (START, START + 3 * 10**9)
    assert first.ingest_time_range == first.time_range
    assert first.cloud_object_key.key.endswith(".parquet")
    assert len(first.audt_hash) == 32
    second = (START + HOUR, START + HOUR + 3 * 10**9)
    for times, count in (
        (second, 1),
        ((second[0] - 1, second[0]), 1),
        ((second[1], second[1] + 1), 1),
        ((second[1] + 1, second[1] + 2), 0),
        ((second[0] - 2, second[0] - 1), 0),
        ((0, (1 << 63) - 1), 5),
        ((-(1 << 63), -1), 0),
    ):
        assert len(ask(shop, times).segments) == count, times


def test_pages_hold_each_segment_once(shop: Shop) -> None:
    """SL-09, SL-10, SL-12"""
    for n in range(4):  # segments of very different length
        shop.fill(3, start=START + n, step=HOUR)
        shop.table.append([{"id": 1, "ts": _at(START)}, {"id": 2, "ts": _at(START + 10 ** (9 + n))}])
    whole = flat(pages(shop, 0))
    assert len(whole) == len(set(whole)) == 16
    for limit in (1, 2, 5, 15, 16, 17):
        found = pages(shop, limit)
        assert flat(found) == whole
        assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
        times = (START, START + HOUR)
        assert sorted(flat(pages(shop, limit, times))) == sorted(flat(pages(shop, 0, times)))
    assert len(ask(shop, limit=-5).segments) == 16
    assert len(ask(shop, limit=2**31 - 1).segments) == 16


def test_all_pages_see_the_version_of_the_first(shop: Shop) -> None:
    """SL-05, SL-07, SL-08, SL-11, MT-08"""
    shop.fill(6)
    whole = flat(pages(shop, 0))
    first = ask(shop, limit=2)
    shop.fill(2)
    shop.table.delete_where("id < 4")
    shop.table.compact(everything=True)
    rest = ask(shop, cursor=first.page.next_cursor)
    assert rest.current_version == first.current_version < shop.live.catalog.version()
    assert [s.id for s in (*first.segments, *rest.segments)] == whole, "also what was compacted away since"
    now = ask(shop)
    assert len(now.segments) == 1
    assert now.segments[0].id not in whole
    assert now.segments[0].number_of_events == 28
    assert now.current_version >= now.segments[0].version > first.current_version


def test_several_tables_are_searched_in_order(shop: Shop) -> None:
    """SL-02, SL-03, SL-10"""
    shop.fill(3)
    lake, database = shop.live.lake, shop.table.name.split(".")[0]
    other = lake.create_table(f"{database}.u", [("id", "long")])
    other.append([{"id": 1}])
    lake.create_view(f"{database}.v", ["t"])
    found = pages(shop, 2, table_names=["t", "u", "t"])
    assert [len(page) for page in found] == [2, 2]
    assert len(set(flat(found))) == 4, "one without event time is found when no time is asked for"
    assert len(ask(shop, (0, (1 << 63) - 1), table_names=["u"]).segments) == 0
    for names in (["x"], ["v"], ["t", "x"]):
        with refused(grpc.StatusCode.NOT_FOUND):
            ask(shop, table_names=names)
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        ask(shop, table_names=[])


def test_bad_searches_are_refused(shop: Shop) -> None:
    """SL-01, SL-12, GEN-09, DB-19"""
    shop.fill(3)
    cursor = ask(shop, limit=1).page.next_cursor
    for fields, code in (
        ({"database_id": ""}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"database_id": "x"}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"database_id": str(uuid.uuid4())}, grpc.StatusCode.NOT_FOUND),
        ({"cursor": "x"}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"cursor": "é"}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"cursor": cursor[:-4]}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"cursor": cursor, "times": (0, 5)}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"times": (5, 4)}, grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with refused(code):
            ask(shop, **fields)  # type: ignore[arg-type]
    shop.live.lake.drop_table(shop.table.name)
    with refused(grpc.StatusCode.NOT_FOUND):
        ask(shop)


def test_the_first_page_says_how_far_each_stream_is(shop: Shop) -> None:
    """SL-07, SL-11, NU-43: segments and offsets of one moment"""
    ingest, table_id = shop.live.catalog.ingest, shop.id
    shop.fill(1)
    token = ingest.create_token(shop.database_id, "k", Routing(table_id, table_id, table_id))
    stream = ingest.register_stream(token.plaintext, uuid.uuid4().hex).stream

    def position(answer: segment_lookup_pb2.FindSegmentsResponse) -> segment_lookup_pb2.StreamPosition:
        return next(one for one in answer.stream_positions if one.stream_id == str(stream.id))

    before = ask(shop)
    assert (position(before).frontier_offset, list(position(before).tables)) == (-1, [])
    assert position(before).cloud_stream_prefix.prefix.endswith(f"/{stream.id}/")
    facts = segment(shop.live.catalog, table_id, time_min=START, time_max=START + 1)
    advance = Advance(stream.id, -1, 7, 5 * 10**9)
    ingest.register_segments(shop.database_id, table_id, [Registration(facts, (advance,))], request_id=uuid.uuid4().hex)
    after = ask(shop, limit=1)
    assert [(t.table_id, t.merged_offset) for t in position(after).tables] == [(str(table_id), 7)]
    assert after.current_version > before.current_version
    assert after.routing_seq
    later = ask(shop, cursor=after.page.next_cursor)
    assert len(later.segments) == 1
    assert not later.stream_positions, "only the first page has them"


def test_segments_are_found_by_id_once_each_even_when_tombstoned(shop: Shop) -> None:
    """SL-13"""
    shop.fill(3)
    known = flat(pages(shop, 0))
    shop.table.delete_where("id < 4")
    unknown = str(uuid.UUID(int=(1 << 62) + 1))
    asked = [known[2], unknown, known[0], known[2], str(uuid.UUID(int=(1 << 128) - 1))]
    answer = stub(shop).GetSegmentsByIds(segment_lookup_pb2.GetSegmentsByIdsRequest(segment_ids=asked))
    assert [s.id for s in answer.segments] == [known[2], known[0]]
    assert [bool(s.tombstone_version) for s in answer.segments] == [False, True], "tombstoned, and still there"
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        stub(shop).GetSegmentsByIds(segment_lookup_pb2.GetSegmentsByIdsRequest(segment_ids=["7"]))


def warm(shop: Shop, limit: int, cursor: str | None = None) -> segment_lookup_pb2.ListWarmCandidatesResponse:
    return stub(shop).ListWarmCandidates(segment_lookup_pb2.ListWarmCandidatesRequest(limit=limit, cursor=cursor))


def test_warm_candidates_come_newest_first(fresh: Live) -> None:
    """SL-14, SL-15, SL-12"""
    one, two = open_shop(fresh), open_shop(fresh)
    one.fill(3, step=HOUR)
    two.fill(3, start=START + HOUR // 2, step=HOUR)
    two.fill(1, start=START + HOUR // 2, step=HOUR)  # the same time as another
    seen: list[Any] = []
    cursor = None
    while True:
        page = warm(one, 2, cursor)
        seen += page.segments
        if not page.page.HasField("next_cursor"):
            break
        cursor = page.page.next_cursor
        one.fill(1, start=START + 9 * HOUR)  # newer ones, while somebody pages
    keys = [(s.time_range.end_time, s.id) for s in seen]
    assert keys == sorted(keys, reverse=True)
    assert len({s.id for s in seen}) == len(seen) == 7
    assert len({s.table_id for s in seen}) == 2
    two.table.delete_where("id < 4")
    fresh.lake.drop_table(one.table.name)
    assert len(warm(two, 100).segments) == 3, "neither what is gone nor what was dropped"
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        warm(one, 1, "nonsense")


def _at(nanos: int) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(nanos / 1e9, UTC)
