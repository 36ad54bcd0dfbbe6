"""SegmentDeletionService: bytes go late, journals after their inputs, and nothing is forgotten on the way."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from moulin._proto.moulin.meta.v1 import segment_deletion_pb2 as pb
from moulin._proto.moulin.meta.v1 import segment_deletion_pb2_grpc
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.meta.codec.meta.address import from_message_key
from moulin.meta.codec.meta.segment import to_message_segment_id
from tests.contract.conftest import Backend
from tests.meta.conftest import Live, refused, serving
from tests.meta.merging import Shop, open_shop

FLOOR = 12 * 60


@pytest.fixture
def shop(backend: Backend) -> Iterator[Shop]:
    """A lake that keeps no history and leaves bytes to others."""
    with serving(backend, config=Config(history_keep=0, delete_bytes="off")) as live:
        yield open_shop(live)


def stub(shop: Shop) -> segment_deletion_pb2_grpc.SegmentDeletionServiceStub:
    return shop.live.stub(segment_deletion_pb2_grpc.SegmentDeletionServiceStub)


def offered(shop: Shop) -> list[pb.TombstonedSegmentInfo]:
    asked = pb.GetTombstonedSegmentsForDeletionRequest()
    return list(stub(shop).GetTombstonedSegmentsForDeletion(asked).segments)


def confirm(shop: Shop, *ids: str) -> pb.ConfirmTombstoneDeletionResponse:
    return stub(shop).ConfirmTombstoneDeletion(pb.ConfirmTombstoneDeletionRequest(segment_ids=ids))


def clear(shop: Shop, *ids: str) -> int:
    request = pb.ConfirmRewriteJournalDeletionRequest(output_segment_ids=ids)
    return int(stub(shop).ConfirmRewriteJournalDeletion(request).cleared_count)


def merged(shop: Shop) -> int:
    """Merge three segments; returns the version."""
    shop.fill(3)
    version = shop.table.compact(everything=True).version
    shop.live.clock.forward(1)
    return version


def test_a_tombstoned_segment_is_offered_past_the_floor_until_it_is_confirmed(shop: Shop) -> None:
    """SD-01, SD-02, SD-03, SD-04, SD-05, SD-06, SD-11, INV-4"""
    version, tombstoned = merged(shop), shop.live.clock.now - 10**9
    assert offered(shop) == []
    collect(shop.live.catalog, orphans=False)
    shop.live.clock.forward(FLOOR - 1)
    assert offered(shop) == []
    shop.live.clock.forward(1)
    found = offered(shop)
    assert len(found) == 3
    assert {(f.table_id, f.tombstone_version) for f in found} == {(str(shop.id), version)}
    assert all(abs(f.tombstone_time_nanos - tombstoned) < 10**9 for f in found)
    assert offered(shop) == found, "until it is confirmed"
    collect(shop.live.catalog, orphans=False)
    keys = [from_message_key(shop.live.lake.store, f.cloud_object_key) for f in found]
    assert all(shop.live.lake.store.exists(path) for path in keys), "the lake leaves them to others"
    shop.live.lake.store.delete(keys)
    done = confirm(shop, found[0].segment_id, found[0].segment_id)
    assert done.success.deleted_count == 1
    assert confirm(shop, found[0].segment_id).success.deleted_count == 0, "confirmed already"
    assert {f.segment_id for f in offered(shop)} == {f.segment_id for f in found[1:]}
    assert len(shop.ids()) == 12


def test_journals_follow_their_last_input_and_are_reported_until_cleared(shop: Shop) -> None:
    """SD-07, SD-08, SD-09"""
    merged(shop)
    collect(shop.live.catalog, orphans=False)
    shop.live.clock.forward(FLOOR)
    ids = [f.segment_id for f in offered(shop)]
    assert not confirm(shop, *ids[:2]).success.journals_ready
    (journal,) = confirm(shop, ids[2]).success.journals_ready
    assert journal.journal_key.key.endswith(".journal")
    (again,) = confirm(shop).success.journals_ready
    assert again == journal, "the answer may have been lost"
    assert shop.live.lake.store.exists(from_message_key(shop.live.lake.store, journal.journal_key))
    assert clear(shop, journal.output_segment_id) == 1
    assert clear(shop, journal.output_segment_id) == 0
    assert not confirm(shop).success.journals_ready


def test_what_is_in_use_or_young_is_refused(shop: Shop) -> None:
    """SD-06, INV-4"""
    merged(shop)
    state = shop.table.state()
    live = shop.live.catalog.segments(state.id, state.version)[0].facts.number
    collect(shop.live.catalog, orphans=False)
    shop.live.clock.forward(FLOOR)
    first = offered(shop)[0].segment_id
    assert "still part of" in confirm(shop, first, to_message_segment_id(live)).error.message
    assert len(offered(shop)) == 3, "nothing was removed"
    merged(shop)
    collect(shop.live.catalog, orphans=False)
    assert "too recently" in confirm(shop, first, to_message_segment_id(live)).error.message
    assert len(offered(shop)) == 3
    assert confirm(shop, to_message_segment_id((1 << 62) + 7)).success.deleted_count == 0
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        confirm(shop, "x")


def test_segments_of_a_dropped_table_wait_out_its_grace(shop: Shop) -> None:
    """SD-10, DB-17, DB-20, TB-19, TB-26"""
    merged(shop)
    collect(shop.live.catalog, orphans=False)
    shop.live.clock.forward(FLOOR)
    assert len(offered(shop)) == 3
    table_id, name = shop.id, shop.table.name
    shop.live.lake.drop_table(name)
    assert offered(shop) == []
    shop.live.lake.resurrect_table(name)
    assert len(offered(shop)) == 3
    shop.live.lake.drop_table(name, immediate=True)
    collect(shop.live.catalog, orphans=False)
    assert len(offered(shop)) == 3, "what was in it when it was dropped waits for the floor, also of an immediate drop"
    assert [info.path for info in shop.live.lake.store.list(f"tables/{table_id}")]


def segments_of(shop: Shop) -> set[str]:
    return {info.path for info in shop.live.lake.store.list("tables") if info.path.endswith(".parquet")}


@pytest.mark.parametrize("with_database", [False, True])
def test_a_dropped_table_is_left_to_others_who_are_offered_all_its_segments(shop: Shop, with_database: bool) -> None:
    """TB-26, SD-01, SD-03: with `delete_bytes` off the lake deletes no row of it"""
    merged(shop)
    shop.fill(2)
    table_id, (database, _), store = str(shop.id), shop.table.name.split("."), shop.live.lake.store
    there = segments_of(shop)
    assert len(there) == 6
    if with_database:
        shop.live.lake.drop_database(database, cascade=True, immediate=True)
    else:
        shop.live.lake.drop_table(shop.table.name, immediate=True)
    version, dropped = shop.live.lake.version, shop.live.clock.now
    shop.live.clock.forward(1)
    assert "table t" in collect(shop.live.catalog, orphan_grace=0).purged
    assert offered(shop) == []
    for _ in range(3):
        shop.live.clock.forward(FLOOR + 1)
        collect(shop.live.catalog, orphan_grace=0)
        assert segments_of(shop) == there
    found = [one for one in offered(shop) if one.table_id == table_id]
    assert {from_message_key(store, one.cloud_object_key) for one in found} == there
    assert len([one for one in found if one.tombstone_version == version]) == 3, "in the table until the drop"
    assert all(one.tombstone_version and one.tombstone_time_nanos < dropped + 10**9 for one in found)
    assert all(one.tombstone_time_nanos for one in found)
    store.delete(there)
    assert confirm(shop, *(one.segment_id for one in found)).success.deleted_count == 6
    assert offered(shop) == []


def test_history_keeps_segments_from_being_offered(live: Live) -> None:
    """SD-11: what a kept version names is not offered"""
    shop = open_shop(live)
    merged(shop)
    collect(live.catalog, orphans=False)
    live.clock.forward(FLOOR + 1)
    collect(live.catalog, orphans=False)
    assert not [f for f in offered(shop) if f.table_id == str(shop.id)]
