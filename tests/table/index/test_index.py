"""Secondary indexes: a scan gives the same rows with them as without, and compactions carry them along."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from moulin.catalog.upkeep.check import check
from moulin.errors import AlreadyExists, Corrupt, InvalidInput, NotFound
from moulin.formats.manifest import FEATURE_INLINE_SEGMENTS
from moulin.formats.segment.decoder import Decoder
from moulin.formats.segment.page_reader import PageReader
from moulin.lake import Lake
from moulin.meta import features
from moulin.meta.server import calls
from moulin.storage import paths
from moulin.table.read.scan import Scan
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED, OpenLake, ids, rows


def without(table: Table, where: str, version: int | None = None) -> Scan:
    """A scan that knows no index."""
    c = table._context
    return Scan(c.catalog, c.store, c.vectors, table.state(version), where=where)


def info(table: Table, name: str) -> tuple[int, int]:
    found = next(index for index in table.indexes() if index.name == name)
    return found.covered, found.segments


@pytest.fixture
def shuffled(orders: Table) -> Table:
    """Four segments whose regions overlap by their bounds, each with values of its own."""
    for part in range(4):
        mine = rows(100 * part, 50, day=part + 1)
        for n, row in enumerate(mine):
            row["region"] = None if n == 7 else f"r{(n * 4 + part) % 200:03}"
        orders.append(mine)
    return orders


@pytest.mark.parametrize("kind", ["btree", "bloom", "bitmap"])
def test_a_value_is_looked_for_where_it_is(shuffled: Table, kind: str) -> None:
    assert shuffled.scan(where="region = 'r041'").plan().index_skipped == 0
    made = shuffled.create_index("region", kind)
    assert (made.name, made.column, made.kind, made.covered, made.segments) == (f"region_{kind}", "region", kind, 4, 4)
    scan = shuffled.scan(where="region = 'r041'")
    assert (len(scan.plan().segments), scan.plan().total, scan.plan().index_skipped) == (1, 4, 3)
    assert ids(scan) == [110]
    assert shuffled.scan(where="region = 'nowhere'").plan().segments == ()
    assert shuffled.scan(where="region in ('r041', 'r042', 'r000')").plan().index_skipped == 1
    assert len(shuffled.scan(where="region is null").to_arrow()) == 4
    assert shuffled.scan(where="region = 'r041'").count() == 1
    assert shuffled.scan(where="amount >= 0 and region = 'r041'").plan().index_skipped == 3
    ranged = shuffled.scan(where="region between 'r040' and 'r042'")
    assert ranged.plan().index_skipped == (0 if kind == "bloom" else 1)
    assert ids(ranged) == [10, 110, 210]
    assert shuffled.delete_where("region = 'r041'").rows_deleted == 1
    assert ids(shuffled.scan(where="region = 'r041'")) == []


def test_row_groups_without_a_match_are_not_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.wide", [("id", "long"), ("data", "binary")])
    keys = [n * 7919 % 10_007 for n in range(10_007)]  # in no order, so that bounds of row groups tell nothing
    table.append(pa.table({"id": keys, "data": pa.array([b"x" * 2000] * 10_007, pa.binary())}))
    table.create_index("id")
    plan = table.scan(where="id = 1234").plan()
    assert (plan.index_narrowed, len(plan.segments)) == (1, 1)
    decoded: list[int] = []
    pages, whole = PageReader.columns, Decoder.ranges

    def count_pages(self: PageReader, rows: Any, wanted: Any, coded: Any) -> Any:
        decoded.extend(rows)
        return pages(self, rows, wanted, coded)

    def count(self: Decoder, ranges: Any, leaves: Any, **more: Any) -> Any:
        decoded.extend(one.group for one in ranges)
        return whole(self, ranges, leaves, **more)

    monkeypatch.setattr(PageReader, "columns", count_pages)
    monkeypatch.setattr(Decoder, "ranges", count)
    assert ids(table.scan(where="id = 1234")) == [1234]
    narrowed = len(set(decoded))
    decoded.clear()
    assert ids(without(table, "id = 1234")) == [1234]
    assert (narrowed, len(set(decoded)) > 1) == (1, True)


def test_new_segments_are_scanned_until_they_are_covered(shuffled: Table) -> None:
    shuffled.create_index("region")
    late = rows(1000, 3)
    late[1]["region"] = "r041"
    shuffled.append(late)
    assert info(shuffled, "region_btree") == (4, 5)
    assert ids(shuffled.scan(where="region = 'r041'")) == [110, 1001]
    version = shuffled.update_indexes().version
    assert info(shuffled, "region_btree") == (5, 5)
    assert ids(shuffled.scan(where="region = 'r041'")) == [110, 1001]
    assert shuffled.scan(where="region = 'r041'").plan().index_skipped == 3
    assert shuffled.update_indexes().version == version


@pytest.mark.parametrize("kind", ["btree", "bloom"])
def test_a_compaction_carries_an_index_along_without_reading_the_rows(
    lake: Lake, shuffled: Table, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffled.create_index("region", kind)
    shuffled.delete_where("id in (0, 110, 249)")
    before = shuffled.version
    from moulin.table.index import build as index_build

    monkeypatch.setattr(index_build, "SegmentReader", None)  # whoever opens data to make an index file fails
    done = shuffled.compact(everything=True)
    monkeypatch.undo()
    assert (done.segments_in, done.segments_out) == (4, 1)
    assert info(shuffled, f"region_{kind}") == (1, 1)
    for n in (0, 40, 41, 42, 120, 199):
        where = f"region = 'r{n:03}'"
        assert ids(shuffled.scan(where=where)) == ids(without(shuffled, where))
        old = ids(shuffled.at(version=before).scan(where=where))
        assert old == ids(without(shuffled, where, before))
    assert shuffled.scan(where="region = 'r041'").plan().segments == () or kind == "bloom"
    assert shuffled.scan(where="region = 'nowhere'").plan().segments == ()
    assert check(lake.catalog) == []


def test_a_compaction_covers_what_was_not_covered(shuffled: Table) -> None:
    shuffled.create_index("region")
    late = rows(1000, 3)
    late[1]["region"] = "r041"
    shuffled.append(late)
    shuffled.compact(everything=True)
    assert info(shuffled, "region_btree") == (1, 1)
    assert ids(shuffled.scan(where="region = 'r041'")) == [110, 1001]


def test_an_index_dropped_while_a_compaction_runs_does_not_stop_it(
    shuffled: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moulin.table.compact import job

    shuffled.create_index("region")
    carry = job.carry_indexes

    def drop_after(*arguments: Any) -> Any:
        found = carry(*arguments)
        shuffled.drop_index("region_btree")
        return found

    monkeypatch.setattr(job, "carry_indexes", drop_after)
    assert shuffled.compact(everything=True).merges == 1
    assert shuffled.indexes() == []
    assert shuffled.stats().segments == 1


def test_deletes_during_a_compaction_are_masked(shuffled: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from moulin.table.compact import compaction

    shuffled.create_index("region")
    commit = compaction.commit_compaction

    def delete_first(*arguments: Any) -> Any:
        shuffled.delete_where("id = 110")
        return commit(*arguments)

    monkeypatch.setattr(compaction, "commit_compaction", delete_first)
    shuffled.compact(everything=True)
    assert info(shuffled, "region_btree") == (1, 1)
    assert ids(shuffled.scan(where="region = 'r041'")) == []
    assert ids(shuffled.scan(where="region in ('r041', 'r042')")) == [210]


def test_names_kinds_and_columns_are_checked(shuffled: Table) -> None:
    shuffled.create_index("region", name="by_region")
    with pytest.raises(AlreadyExists, match="by_region"):
        shuffled.create_index("region", "bloom", name="by_region")
    with pytest.raises(InvalidInput, match="btree, bloom, bitmap, label_list"):
        shuffled.create_index("region", "hash")
    with pytest.raises(InvalidInput, match="Did you mean 'region'"):
        shuffled.create_index("regoin")
    with pytest.raises(NotFound, match="by_regoin"):
        shuffled.drop_index("by_regoin")
    shuffled.drop_index("by_region")
    assert shuffled.indexes() == []
    assert shuffled.scan(where="region = 'r041'").plan().index_skipped == 0


def test_a_dropped_column_takes_its_index_with_it(shuffled: Table) -> None:
    shuffled.create_index("region")
    shuffled.rename_column("region", "area")
    assert shuffled.indexes()[0].column == "area"
    assert shuffled.scan(where="area = 'r041'").plan().index_skipped == 3
    shuffled.drop_column("area")
    assert shuffled.indexes() == []


def test_a_widened_column_is_not_searched_with_old_values(lake: Lake) -> None:
    table = lake.create_table("shop.days", [("id", "int"), ("day", "date")])
    for start in (0, 10):
        table.append([{"id": start + n, "day": date(2024, 1, 1 + start + n)} for n in range(10)])
    table.create_index("day")
    table.create_index("id")
    table.widen_column("day", "timestamp")
    table.widen_column("id", "long")
    assert ids(table.scan(where="day = '2024-01-15T00:00:00'")) == [14]
    assert table.scan(where="id = 14 and day > '2020-01-01'").plan().index_narrowed == 1
    table.update_indexes()
    assert table.scan(where="day = '2024-01-15T00:00:00'").plan().index_narrowed == 1
    assert ids(table.scan(where="day = '2024-01-15T00:00:00'")) == [14]
    table.compact(everything=True)
    assert ids(table.scan(where="day = '2024-01-15T00:00:00'")) == [14]


def test_columns_of_every_type_can_be_indexed(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake")
    lake.create_database("shop")
    values: dict[str, tuple[str, list[Any], str]] = {
        "flag": ("boolean", [True, False, None], "true"),
        "small": ("int", [1, -7, 2], "-7"),
        "big": ("long", [2**60, -(2**60), 0], str(-(2**60))),
        "real": ("float", [1.5, math.nan, -0.0], "1.5"),
        "wide": ("double", [math.inf, -1.5, 0.0], "0.0"),
        "price": ("decimal(10, 2)", [Decimal("1.25"), Decimal("-3.50"), None], "-3.5"),
        "day": ("date", [date(1960, 1, 1), date(2024, 2, 29), None], "'2024-02-29'"),
        "at": ("timestamp", [datetime(1960, 1, 1), datetime(2024, 1, 1), None], "'2024-01-01T00:00:00'"),
        "zoned": ("timestamptz", [datetime(2024, 1, 1, tzinfo=UTC), None, None], "'2024-01-01T00:00:00Z'"),
        "clock": ("time", [time(1, 2, 3), time(23, 59), None], "'23:59:00'"),
        "name": ("string", ["a" * 300, "a" * 300 + "b", "é"], f"'{'a' * 300}b'"),
        "data": ("binary", [b"\0", b"\0\0", b""], "X'0000'"),
        "code": ("fixed[3]", [b"abc", b"abd", b"\0\0\0"], "X'616264'"),
        "uid": ("uuid", [UUID(int=5), UUID(int=2**127), None], f"'{UUID(int=2**127)}'"),
    }
    table = lake.create_table("shop.types", [("id", "long"), *((name, kind) for name, (kind, _, _) in values.items())])
    for n in range(3):
        table.append([{"id": n, **{name: column[n] for name, (_, column, _) in values.items()}}])
    for name in values:
        table.create_index(name, {"big": "bitmap", "name": "bitmap", "real": "bitmap"}.get(name, "btree"))
        table.create_index(name, "bloom")
    for _ in range(2):
        for name, (_, _, literal) in values.items():
            for operator in ("=", "<", "<=", ">", ">=", "!="):
                where = f"{name} {operator} {literal}"
                assert ids(table.scan(where=where)) == ids(without(table, where)), where
        assert ids(table.scan(where="isnan(real)")) == [1] == ids(without(table, "isnan(real)"))
        assert ids(table.scan(where="name like 'aaa%'")) == [0, 1]
        table.compact(everything=True)
    assert all(index.covered == 1 for index in table.indexes())
    lake.close()


def test_a_keyed_table_is_indexed_with_what_is_not_flushed(open_lake: OpenLake) -> None:
    lake = open_lake(settings={"merge_background": "off"})
    lake.create_database("shop")
    table = lake.create_table("shop.stock", [("id", "long"), ("name", "string")], primary_key=["id"])
    for part in range(3):
        table.put_batch([{"id": part * 10 + n, "name": f"n{n}{part}"} for n in range(10)])
        table.flush()
    table.create_index("name")
    assert table.scan(where="name = 'n51'").plan().index_skipped == 2
    table.put({"id": 15, "name": "other"})
    table.put({"id": 99, "name": "n51"})
    assert ids(table.scan(where="name = 'n51'")) == [99]
    assert table.scan(where="name in ('n51', 'n30')", ordered=True).to_arrow()["id"].to_pylist() == [3, 99]
    assert table.scan(where="name = 'n51'").count() == 1
    table.flush()
    table.compact(everything=True)
    assert info(table, "name_btree")[0] == info(table, "name_btree")[1]
    assert ids(table.scan(where="name = 'n51'")) == [99]
    assert ids(table.scan(where="name >= 'n2' and name < 'n31'")) == [2, 3, 12, 22]
    table.close()


def test_an_index_survives_a_lost_catalog(tmp_path: Path) -> None:
    from moulin.catalog.manifests.recover import recover

    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long")])
        for part in range(3):
            table.append([{"id": n} for n in range(part, 30, 3)])
        table.create_index("id", "bloom")
        table.create_index("id")
        table.drop_index("id_bloom")
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (tmp_path / "lake" / name).unlink(missing_ok=True)
    from moulin.lake import locate

    uri, store, config = locate(str(tmp_path / "lake"), None, None, None)
    recover(store, uri, config)
    with Lake.open(tmp_path / "lake") as lake:
        table = lake.table("shop.orders")
        assert [(index.name, index.covered) for index in table.indexes()] == [("id_btree", 3)]
        assert table.scan(where="id = 4").plan().index_skipped == 2
        assert check(lake.catalog) == []


def test_a_damaged_index_is_reported(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long")])
        table.append([{"id": n} for n in range(10)])
        table.append([{"id": n} for n in range(5, 15)])
        table.create_index("id")
        (file,) = (tmp_path / "lake" / paths.indexes_prefix(table.id)).iterdir()
        good = file.read_bytes()
        file.write_bytes(bytes([good[0] ^ 1]) + good[1:])
        with pytest.raises(Corrupt, match="index"):
            table.scan(where="id = 7").to_arrow()
        assert [finding.where for finding in check(lake.catalog)] == [f"{paths.indexes_prefix(table.id)}/{file.name}"]
        table.compact(everything=True)  # a compaction reads the rows instead, and leaves a good file
        assert ids(table.scan(where="id = 7")) == [7, 7]
        assert table.scan(where="id = 7").plan().index_narrowed == 1
        lake.context.secondary.clear()
        for left in file.parent.iterdir():
            left.unlink()
        assert ids(table.scan(where="id = 7")) == [7, 7]  # found without the index


def test_a_column_added_later_is_indexed_by_its_default(shuffled: Table) -> None:
    shuffled.add_column("grade", "string", default="plain")
    shuffled.append([{**row, "grade": "fine"} for row in rows(1000, 2)])
    shuffled.create_index("grade")
    assert shuffled.scan(where="grade = 'fine'").plan().index_narrowed == 1
    assert len(ids(shuffled.scan(where="grade = 'plain'"))) == 200
    shuffled.compact(everything=True)
    assert ids(shuffled.scan(where="grade = 'fine'")) == [1000, 1001]
    assert len(ids(shuffled.scan(where="grade = 'plain'"))) == 200


def test_a_compaction_that_carries_an_index_is_silent_in_the_change_feed(shuffled: Table) -> None:
    shuffled.create_index("region")
    before = shuffled.version
    shuffled.compact(everything=True)
    shuffled.update_indexes()
    assert shuffled.version > before
    assert shuffled.changes(before).to_arrow().num_rows == 0
    newest = [str(done.kind) for done in shuffled.history() if done.version == shuffled.version]
    assert sorted(newest) == ["merge", "update-index"]


def test_a_replica_uses_the_indexes_of_its_lake(tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long")])
        for part in range(3):
            table.append([{"id": n} for n in range(part, 30, 3)])
        table.create_index("id")
        replica = Lake.open_replica(tmp_path / "lake")
        shown = replica.table("shop.orders")
        assert shown.scan(where="id = 4").plan().index_skipped == 2
        table.compact(everything=True)
        replica.refresh()
        shown = replica.table("shop.orders")
        assert [(index.name, index.covered, index.segments) for index in shown.indexes()] == [("id_btree", 1, 1)]
        assert ids(shown.scan(where="id = 4")) == [4]
        replica.close()


def test_files_of_a_dropped_index_are_cleaned_up(tmp_path: Path) -> None:
    from moulin.catalog.upkeep.gc import collect

    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long")])
        table.append([{"id": n} for n in range(10)])
        table.create_index("id")
        folder = tmp_path / "lake" / paths.indexes_prefix(table.id)
        assert len(list(folder.iterdir())) == 1
        collect(lake.catalog, history_keep=0, byte_floor=0, orphan_grace=0)
        assert len(list(folder.iterdir())) == 1
        table.drop_index("id_btree")
        for _ in range(2):
            collect(lake.catalog, history_keep=0, byte_floor=0, orphan_grace=0)
        assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
def test_lists_are_found_by_their_labels(lake: Lake) -> None:
    table = lake.create_table("shop.posts", [("id", "long"), ("tags", "list<string>")])
    for part in range(4):
        tags = [None, [], [None, f"t{part}"], ["all", "all", f"t{part}"], [f"n{n}" for n in range(part)]]
        table.append([{"id": 10 * part + n, "tags": found} for n, found in enumerate(tags)])
    made = table.create_index("tags", "label_list")
    assert (made.name, made.covered, made.segments) == ("tags_label_list", 4, 4)
    for _ in range(2):
        scan = table.scan(where="array_contains(tags, 't2')")
        assert ids(scan) == [22, 23]
        assert scan.plan().index_skipped == len(table.scan().plan().segments) - 1
        assert ids(table.scan(where="array_contains(tags, 'all')")) == [3, 13, 23, 33]
        assert table.scan(where="array_contains(tags, 'nowhere')").plan().segments == ()
        found = ids(table.scan(where="not array_contains(tags, 't2')"))
        assert found == [1, 3, 4, 11, 13, 14, 21, 24, 31, 33, 34]  # unknown: null lists, and lists with a null
        assert ids(table.scan(where="array_contains(tags, 'n0') and not array_contains(tags, 'n1')")) == [14]
        table.delete_where("array_contains(tags, 'n2')")
        table.append([{"id": 34, "tags": ["n0", "n1", "n2"]}])
        table.compact(everything=True)
        assert info(table, "tags_label_list") == (1, 1)
    with pytest.raises(InvalidInput, match="label_list"):
        table.create_index("tags")
    with pytest.raises(InvalidInput, match="label_list"):
        table.create_index("id", "label_list")


def test_bitmaps_of_several_columns_meet(lake: Lake) -> None:
    table = lake.create_table("shop.cells", [("id", "long"), ("a", "int"), ("b", "string")])
    table.append([{"id": n, "a": n % 4, "b": f"b{n % 5}"} for n in range(2000)])
    table.create_index("a", "bitmap")
    table.create_index("b", "bitmap")
    for where, wanted in [
        ("a = 1 and b = 'b3'", lambda n: n % 4 == 1 and n % 5 == 3),
        ("a in (1, 2) or b = 'b0'", lambda n: n % 4 in (1, 2) or n % 5 == 0),
        ("a >= 2 and b like 'b4%'", lambda n: n % 4 >= 2 and n % 5 == 4),
    ]:
        scan = table.scan(where=where)
        assert ids(scan) == [n for n in range(2000) if wanted(n)]
        assert scan.plan().index_narrowed == 1


def test_an_index_knows_when_it_was_made(open_lake: OpenLake) -> None:
    lake = open_lake()
    lake.create_database("shop")
    table = lake.create_table("shop.orders", [("id", "long"), ("kind", "string")])
    table.append([{"id": 1, "kind": "x"}])
    made = table.create_index("kind", "bitmap")
    commit = next(entry for entry in table.history() if entry.version == made.created_version)
    assert made.created_at == commit.timestamp_ns


@pytest.mark.parametrize("open_lake", [SERVED], indirect=True)
def test_a_client_is_not_told_of_indexes_that_it_does_not_know(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.orders", [("id", "long"), ("kind", "string")])
    table.append([{"id": n, "kind": "ab"[n % 2]} for n in range(10)])
    table.create_index("kind", "bitmap")
    table.create_index("id")
    assert [index.name for index in table.indexes()] == ["id_btree", "kind_bitmap"]
    monkeypatch.setattr(calls, "note_features", lambda metadata: features._known.set(FEATURE_INLINE_SEGMENTS))
    assert [index.name for index in table.indexes()] == ["id_btree"]
    assert ids(table.scan(where="kind = 'a' and id < 5")) == [0, 2, 4]


def random_list(rng: random.Random) -> list[int | None] | None:
    return rng.choice([None, [], [rng.randint(0, 6)], [rng.randint(0, 6), None], [rng.randint(0, 6)] * 2 + [0]])


OPERATORS = ["=", "<", "<=", ">", ">="]


def random_where(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.5:
        joined = f" {rng.choice(['and', 'or'])} ".join(random_where(rng, depth - 1) for _ in range(rng.randint(2, 3)))
        return f"{'not ' if rng.random() < 0.15 else ''}({joined})"
    match rng.randrange(8):
        case 7:
            return f"{rng.choice(['', 'not '])}array_contains(l, {rng.randint(0, 6)})"
        case 0:
            return f"k {rng.choice(OPERATORS)} {rng.randint(-3, 33)}"
        case 1:
            return f"s {rng.choice(OPERATORS)} 's{rng.randint(0, 12)}'"
        case 2:
            return f"k in ({', '.join(str(rng.randint(0, 30)) for _ in range(3))})"
        case 3:
            return f"s like 's{rng.randint(0, 2)}%'"
        case 4:
            return f"f {rng.choice(OPERATORS)} {rng.randint(0, 8) / 2}"
        case 5:
            return f"{rng.choice('ksf')} is {rng.choice(['', 'not '])}null"
        case _:
            return f"id {rng.choice(OPERATORS)} {rng.randint(0, 400)}"


@pytest.mark.parametrize(
    ("open_lake", "seed"),
    [
        pytest.param("folder", 0, id="folder-0"),
        pytest.param("folder", 1, id="folder-1"),
        pytest.param("shared", 0, id="postgres-s3", marks=[pytest.mark.postgres, pytest.mark.s3]),
    ],
    indirect=["open_lake"],
)
@pytest.mark.parametrize("keyed", [False, True], ids=["event", "keyed"])
def test_scans_give_the_same_rows_with_and_without_indexes(open_lake: OpenLake, seed: int, keyed: bool) -> None:
    """Random rows, deletes, compactions, partial coverage and old versions."""
    rng = random.Random(seed * 2 + keyed)
    lake = open_lake(settings={"merge_min_inputs": 2})
    lake.create_database("shop")
    table = lake.create_table(
        "shop.random",
        [("id", "long", False), ("k", "int"), ("s", "string"), ("f", "double"), ("l", "list<int>")],
        primary_key=["id"] if keyed else [],
        sort_by=[] if keyed else ["k"],
    )
    serial, versions = 0, [table.version]
    for _ in range(10):
        match rng.choice(["append", "append", "append", "delete", "merge", "merge all", "create", "update", "drop"]):
            case "append":
                count = rng.randint(1, 60)
                batch = {
                    "id": [rng.randint(0, 400) if keyed else serial + n for n in range(count)],
                    "k": [rng.choice([None, rng.randint(0, 30)]) for _ in range(count)],
                    "s": [rng.choice([None, f"s{rng.randint(0, 12)}"]) for _ in range(count)],
                    "f": [rng.choice([None, math.nan, -0.0, rng.randint(0, 8) / 2]) for _ in range(count)],
                    "l": pa.array([random_list(rng) for _ in range(count)], pa.list_(pa.int32())),
                }
                serial += count
                table.append(pa.table(batch))
            case "delete":
                table.delete_where(random_where(rng, 1))
            case "merge":
                table.compact()
            case "merge all":
                table.compact(everything=True)
            case "create":
                column, kind = rng.choice("ksf"), rng.choice(["btree", "bloom", "bitmap"])
                column, kind = ("l", "label_list") if rng.random() < 0.3 else (column, kind)
                if f"{column}_{kind}" not in [index.name for index in table.indexes()]:
                    table.create_index(column, kind)
            case "update":
                table.update_indexes()
            case "drop":
                if found := table.indexes():
                    table.drop_index(rng.choice(found).name)
        versions.append(table.version)
        for version in {versions[-1], rng.choice(versions)}:
            for _ in range(3):
                where = random_where(rng)
                bare = without(table, where, version).to_arrow()
                found = table.scan(where=where, version=version).to_arrow()
                assert sorted(map(str, found.to_pylist())) == sorted(map(str, bare.to_pylist())), (where, version)
    assert check(lake.catalog) == []
