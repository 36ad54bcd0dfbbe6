"""Segments that move to a base path: the same rows, ids and versions, and the old files go."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import Corrupt, NotFound
from moulin.lake import Lake
from moulin.mirror import Mirror
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, EVENTS, SERVED, OpenLake

EVERYWHERE = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
FOLDER = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [
        {"id": n, "ts": START + timedelta(hours=n), "region": "ab"[n % 2], "amount": n / 2} for n in range(first, last)
    ]


def seen(table: Any, **options: Any) -> list[tuple[int, int, int]]:
    names = ["id", "_row_id", "_last_updated_version"]
    found = table.scan(columns=names, **options).to_arrow().to_pylist()
    return sorted((row["id"], row["_row_id"], row["_last_updated_version"]) for row in found)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "theirs.txt").write_text("somebody else's")
    yield folder
    assert (folder / "theirs.txt").read_text() == "somebody else's"


@pytest.fixture
def events(lake: Lake, archive: Path, open_lake: OpenLake) -> Table:
    lake.add_base(archive, name="archive")
    table = lake.create_table("shop.events", EVENTS, event_time="ts")
    for first in range(0, 40, 10):
        table.append(rows(first, first + 10))
    return table


@EVERYWHERE
def test_whole_segments_move_and_nothing_else_changes(lake: Lake, events: Table, archive: Path) -> None:
    events.delete_where("id = 3")
    old, before = events.state().version, seen(events)
    done = events.move("ts < '2026-01-01T20:00:00Z'", base="archive")
    assert (done.segments, done.rows) == (2, 19)
    assert len([*archive.rglob("*.parquet")]) == 2
    assert seen(events) == before
    assert seen(events, version=old) == before
    assert seen(events, where="id > 15") == [row for row in before if row[0] > 15]
    again = events.move("ts < '2026-01-01T20:00:00Z'", base="archive")
    assert (again.segments, again.version) == (0, done.version)
    assert events.move("id < 25", base="archive").segments == 0  # a part of a segment does not move
    events.delete_where("id = 12")
    events.update({"amount": "-1"}, where="id = 13")
    assert [row[0] for row in seen(events)] == [n for n in range(40) if n not in (3, 12)]
    assert events.scan(where="id = 13").to_pylist()[0]["amount"] == -1
    assert events.compact().segments_in == 4  # what was moved and is not worn stays there
    left = [segment.facts.path for segment in events.scan().plan().segments]
    assert sum(path.startswith("bases/") for path in left) == 1


@EVERYWHERE
def test_a_move_of_a_keyed_table_keeps_its_keys(lake: Lake, archive: Path) -> None:
    lake.add_base(archive, name="archive")
    table = lake.create_table("shop.keyed", EVENTS, primary_key=["id"])
    table.append(rows(0, 30))
    table.put(rows(50, 51)[0])
    assert table.move(base="archive").rows == 31
    assert [*archive.rglob("*.keys")]
    assert table.get(7)["amount"] == 3.5
    table.put({**rows(7, 8)[0], "amount": 1.0})
    lake.flush()
    assert (table.get(7)["amount"], table.get(99)) == (1.0, None)
    assert len(table.scan().to_arrow()) == 31


@FOLDER
def test_other_names_are_refused(events: Table) -> None:
    with pytest.raises(NotFound, match="Base path 'nowhere' does not exist"):
        events.move("id < 5", base="nowhere")


@FOLDER
def test_clean_up_deletes_what_was_moved_and_what_moved_later(
    lake: Lake, events: Table, archive: Path, tmp_path: Path
) -> None:
    catalog = lake.own_catalog()
    events.move(base="archive")
    paths = {segment.facts.path for segment in events.scan().plan().segments}
    assert all(path.startswith("bases/") for path in paths)
    orphan = next(archive.rglob("*.parquet")).parent.parent / "_moulin_segment=999" / "0123abcd.parquet"
    orphan.parent.mkdir()
    orphan.write_bytes(b"left by a killed process")
    for _ in range(2):
        collect(catalog, orphan_grace=0, history_keep=0, byte_floor=0)
    assert len([*archive.rglob("*.parquet")]) == 4
    assert len(seen(events)) == 40
    assert check(catalog) == []
    events.delete_where("id < 10")
    for _ in range(2):
        collect(catalog, orphan_grace=0, history_keep=0, byte_floor=0)
    assert len([*archive.rglob("*.parquet")]) == 3
    lake.drop_table("shop.events", immediate=True)
    for _ in range(3):
        collect(catalog, orphan_grace=0, history_keep=0, byte_floor=0)
    assert [*archive.rglob("*.parquet")] == []
    lake.drop_base("archive")


@FOLDER
def test_a_lost_archive_is_named(lake: Lake, events: Table, archive: Path, open_lake: OpenLake) -> None:
    events.move("id < 10", base="archive")
    kept = archive.rename(archive.with_name("elsewhere"))
    with pytest.raises(Corrupt, match="bases/"):
        open_lake().table("shop.events").scan().to_arrow()
    assert len(seen(open_lake().table("shop.events"), where="id >= 10")) == 30
    kept.rename(archive)
    assert len(seen(open_lake().table("shop.events"))) == 40


@FOLDER
def test_replicas_and_mirrors_find_what_was_moved(lake: Lake, events: Table, tmp_path: Path) -> None:
    events.move("id < 10", base="archive")
    expected = seen(events)
    Mirror(lake, str(tmp_path / "mirror")).run_once()
    for place in (lake.uri, str(tmp_path / "mirror")):
        with moulin.connect(place, read_only=True) as replica:
            assert seen(replica.table("shop.events")) == expected
    assert not (tmp_path / "mirror" / "bases").exists()
    shutil.rmtree(tmp_path / "mirror")
